#!/usr/bin/env bash
# The service's PostgreSQL tests through pgbouncer in transaction mode: every transaction may run on
# another connection of the server, so nothing that belongs to a connection may be relied on.
#
# needs: pgbouncer python3
#
# Only the services under test go through the pooler. The tests count effects past it.
set -euo pipefail

# As many as the tests of one process need at a time, and few enough that connections are shared.
SERVER_CONNECTIONS=4

upstream=${SAMEKEY_TEST_POSTGRES##*@}
server_port=${upstream%%/*}
server_port=${server_port##*:}
login=${SAMEKEY_TEST_POSTGRES#*://}
login=${login%@*}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# pgbouncer does not run as root, and the account that it runs as has to reach its files.
folder=$(mktemp -d)
trap 'kill "${pooler:-}" 2>/dev/null || true; wait "${pooler:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cat >"$folder/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$server_port user=${login%%:*} password=${login#*:}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = $SERVER_CONNECTIONS
max_client_conn = 500
server_idle_timeout = 5
stats_users = stats
log_connections = 0
log_disconnections = 0
INI
as=()
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$folder"
    as=(-u nobody)
fi
pgbouncer "${as[@]}" "$folder/pgbouncer.ini" >"$folder/log" 2>&1 &
pooler=$!
ready=false
for _ in $(seq 100); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        ready=true
        break
    fi
    sleep 0.1
done
if [ "$ready" = false ]; then
    echo "pgbouncer: found nothing on port $port after ten seconds; its log says:" >&2
    cat "$folder/log" >&2
    exit 1
fi

SAMEKEY_TEST_POOLER=127.0.0.1:$port cargo nextest run -p samekey --all-features \
    -E 'test(on_postgres) | test(/^external::.*::postgres::/) | test(/^transactions::/) | test(/p17/)'

# Nothing was tested if nothing went through.
transactions=$(python3 - "$port" <<'PYTHON'
import socket
import struct
import sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10)
start = b"\0\3\0\0user\0stats\0database\0pgbouncer\0\0"
connection.sendall(struct.pack("!i", len(start) + 4) + start)
query = b"show totals\0"
connection.sendall(b"Q" + struct.pack("!i", len(query) + 4) + query)
data = b""
ready = 0
while ready < 2:
    data += connection.recv(65536)
    ready, at, found = 0, 0, None
    while at + 5 <= len(data):
        size = struct.unpack("!i", data[at + 1 : at + 5])[0] + 1
        body = data[at + 5 : at + size]
        if data[at : at + 1] == b"Z":
            ready += 1
        if data[at : at + 1] == b"D" and b"xact_count" in body and b"avg" not in body:
            found = body
        at += size
print("".join(c for c in found.decode("latin1").split("xact_count")[1] if c.isdigit()) if found else 0)
PYTHON
)
echo "pgbouncer: $transactions transactions went through, by $SERVER_CONNECTIONS connections a database"
[ "$transactions" -gt 100 ]
