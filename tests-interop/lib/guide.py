"""Runs a guide: what it says is done, in its order, and what it promises has to come out.

    guide.py GUIDE FOLDER [FROM=TO]...

The words behind the language of a fenced block say what it is:

    ```python shop.py       a file (its name has a dot); it is written into FOLDER
    ```sh terminal 9000     a program in a terminal of its own; it runs until the guide is over, and has
                            to listen on that port before the next step
    ```sh                   a step: bash, in FOLDER; it has to end with 0
    ```sh ends 1            a step that ends with this exit code
    ```text                 what the step before printed: each of these lines, in this order; … is anything

A block within a comment of the guide is run too: it is for the lane alone. Any other block is for readers only, and must not be sh, toml, sql or a program's source: so nothing that a
reader would type goes untested. FROM=TO replaces text in all blocks (ports, addresses), each at least once.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

STEP_TIME_MAX_S = 120
LISTEN_TIME_MAX_S = 30
END_TIME_MAX_S = 10
RUN_OR_WRITTEN = {"sh", "bash", "toml", "sql", "python", "js", "javascript", "json"}
FENCE = re.compile(r"^```(\S*) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def main():
    guide, folder, *replaced = sys.argv[1:]
    with open(guide, encoding="utf-8") as file:
        text = file.read()
    for pair in replaced:
        old, new = pair.split("=", 1)
        if old not in text:
            fail(guide, f"{old} is nowhere in it, so that it would be run elsewhere than it says")
        text = text.replace(old, new)
    terminals, printed, steps = [], None, 0
    try:
        for match in FENCE.finditer(text):
            language, words, block = match.group(1), match.group(2).split(), match.group(3)
            place = f"{guide}, the block {first_line(block)!r}"
            if language == "sh" and words[:1] == ["terminal"]:
                terminals.append(terminal(place, block, folder, int(words[1])))
                steps += 1
            elif language == "sh" and words[:1] in ([], ["ends"]):
                printed = step(place, block, folder, int(words[1]) if words else 0)
                steps += 1
            elif language == "text" and printed is not None:
                expect(place, block, printed)
            elif words and "." in words[0]:
                with open(os.path.join(folder, words[0]), "w", encoding="utf-8") as file:
                    file.write(block)
            elif language in RUN_OR_WRITTEN:
                fail(place, "it is neither run nor written; name its file, or make it text")
    finally:
        for process in terminals:
            end(process)
    if steps == 0:
        fail(guide, "found no step in it")
    print(f"guide {guide}: {steps} steps did what it says")


def first_line(block):
    return block.strip().splitlines()[0] if block.strip() else ""


def fail(place, sentence):
    sys.exit(f"guide: {place}: {sentence}")


def bash(block, folder, **more):
    # A session of its own, so that it is ended with all that it has started.
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", block], cwd=folder, start_new_session=True, text=True, **more
    )


def terminal(place, block, folder, port):
    log = open(os.path.join(folder, f"terminal-{port}.log"), "w+", encoding="utf-8")
    process = bash(block, folder, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    until = time.monotonic() + LISTEN_TIME_MAX_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        if process.poll() is not None or time.monotonic() > until:
            end(process)
            log.seek(0)
            fail(place, f"nothing listens on port {port}; it said:\n{log.read()}")
        time.sleep(0.05)


def step(place, block, folder, expected):
    process = bash(block, folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        out, errors = process.communicate(timeout=STEP_TIME_MAX_S)
    except subprocess.TimeoutExpired:
        end(process)
        fail(place, f"it has not ended after {STEP_TIME_MAX_S} s")
    if process.returncode != expected:
        fail(place, f"expected exit code {expected}, found {process.returncode}; it said:\n{out}{errors}")
    return out


def expect(place, block, printed):
    lines = iter(printed.splitlines())
    for wanted in block.splitlines():
        if not wanted.strip():
            continue
        pattern = ".*".join(re.escape(part) for part in wanted.strip().split("…"))
        if not any(re.fullmatch(pattern, line.strip()) for line in lines):
            fail(place, f"expected the line\n{wanted}\nit printed:\n{printed}")


def end(process):
    for word in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, word)
        except ProcessLookupError:
            break
        try:
            process.wait(END_TIME_MAX_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait(END_TIME_MAX_S)


main()
