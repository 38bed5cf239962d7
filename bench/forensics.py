"""Runs one search in three programs and compares them; started by bench/forensics.

Every run is a process of its own, so that time and the peak of memory are its own. Runs of the
programs alternate, and each figure is the best of its repeats: the machine has other work, and
noise only ever adds.

What is compared is the grouping: same reference, ordered by time, gaps between consecutive
payments, for references with at least two. That is all DuckDB and Polars do here. samekey also
reads amounts, states and keys, puts payments together, names causes and lists evidence.
"""

import os
import subprocess
import sys
import time

GROUPING_DUCKDB = """
import duckdb, sys
db = duckdb.connect()
db.execute("set threads to {threads}")
print(db.execute('''
    select count(*), sum(gap) from (
        select order_id,
               epoch_ms(created_at) - lag(epoch_ms(created_at))
                   over (partition by order_id order by created_at) as gap
        from read_csv('{path}', header = true,
                      types = {{'created_at': 'TIMESTAMP'}})
        where status = 'succeeded' and type = 'charge'
    ) where gap is not null
''').fetchall())
"""

GROUPING_POLARS = """
import polars as pl
print(
    pl.scan_csv('{path}')
    .filter((pl.col('status') == 'succeeded') & (pl.col('type') == 'charge'))
    .select('order_id', pl.col('created_at').str.to_datetime('%Y-%m-%dT%H:%M:%S%.fZ'))
    .sort('order_id', 'created_at')
    .with_columns(gap=pl.col('created_at').diff(), same=pl.col('order_id') == pl.col('order_id').shift())
    .filter(pl.col('same'))
    .select(pl.len(), pl.col('gap').sum())
    .collect(engine='streaming')
)
"""


def run(command, **variables):
    """Seconds, peak of memory in MiB, and what was printed."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **variables}
    )
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        sys.exit(f"{command[0]} ended with {code}")
    return took, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, printed


def best(runs):
    return min(run[0] for run in runs), max(run[1] for run in runs), min(run[2] for run in runs)


def main():
    samekey, rows, repeats, work = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    threads = str(min(2, os.cpu_count() or 1))
    path = os.path.join(work, f"payments-{rows}.csv")
    if not os.path.exists(path):
        made = path + ".made"
        subprocess.run(
            [samekey, "forensics", "generate", "--rows", str(rows), "--seed", "1", "--out", made],
            check=True,
        )
        os.rename(made, path)
    size = os.path.getsize(path)
    print(f"{rows} rows, {size / 2**30:.2f} GiB, {threads} threads, best of {repeats}")

    programs = {
        "samekey": [samekey, "forensics", path, "--format", "text", "--threads", threads],
        "DuckDB": [sys.executable, "-c", GROUPING_DUCKDB.format(path=path, threads=threads)],
        "Polars": [sys.executable, "-c", GROUPING_POLARS.format(path=path)],
    }
    runs = {name: [] for name in programs}
    # Once unmeasured each: the file and the programs are then in memory for all alike.
    for command in programs.values():
        run(command, POLARS_MAX_THREADS=threads)
    for _ in range(repeats):
        for name, command in programs.items():
            runs[name].append(run(command, POLARS_MAX_THREADS=threads))
    own, _, own_cpu = best(runs["samekey"])
    print(f"\n{'':8} {'time':>8} {'ratio':>6} {'cpu':>8} {'ratio':>6} {'memory':>9}")
    for name, list_of_runs in runs.items():
        took, memory, cpu = best(list_of_runs)
        print(
            f"{name:8} {took:6.2f} s {took / own:6.2f} {cpu:6.2f} s {cpu / own_cpu:6.2f}"
            f" {memory:5.0f} MiB"
        )
    print("(ratio: above 1 is slower than samekey)")

    print("\ntime per row by size, as a ratio to the smallest")
    first = None
    for part in (100_000, 1_000_000, rows):
        if part > rows:
            continue
        part_path = os.path.join(work, f"payments-{part}.csv")
        if not os.path.exists(part_path):
            subprocess.run(
                [samekey, "forensics", "generate", "--rows", str(part), "--seed", "1", "--out", part_path],
                check=True,
            )
        command = [samekey, "forensics", part_path, "--threads", threads]
        took, memory, _ = best([run(command) for _ in range(repeats)])
        per_row = took / part
        first = first or per_row
        print(f"{part:>10} rows {per_row * 1e6:6.2f} µs/row {per_row / first:6.2f} {memory:5.0f} MiB")


main()
