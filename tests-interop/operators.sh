#!/usr/bin/env bash
# The guide docs/guides/operators.md, word by word, with the lab as the service behind two gateways.
#
# needs: python3 psql=postgresql-client pg_dump=postgresql-client sqlite3 curl
set -euo pipefail
LANE=operators
. tests-interop/lib/lane.bash

folder=$(mktemp -d)
trap 'ended; rm -rf "$folder"' EXIT

keys=$(database operators)
PATH="$SAMEKEY_PROGRAMS:$PATH" python3 tests-interop/lib/guide.py docs/guides/operators.md "$folder" \
    "9000=$(free_port)" "8080=$(free_port)" "8081=$(free_port)" "8180=$(free_port)" "8181=$(free_port)" \
    "postgres://app:secret@127.0.0.1:5432/keys=$keys"
