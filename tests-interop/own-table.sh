#!/usr/bin/env bash
# The guide docs/guides/own-table.md, word by word.
#
# needs: python3 python3-pip python3-venv psql=postgresql-client curl
set -euo pipefail
LANE=own-table
. tests-interop/lib/lane.bash

folder=$(mktemp -d)
trap 'ended; rm -rf "$folder"' EXIT

shop=$(database own_table)
# What the guide installs are the pinned releases.
PIP_FIND_LINKS=$(python_wheels fastapi)
export PIP_FIND_LINKS PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH="$SAMEKEY_PROGRAMS:$PATH"
python3 tests-interop/lib/guide.py docs/guides/own-table.md "$folder" \
    "9000=$(free_port)" "8080=$(free_port)" "postgres://app:secret@127.0.0.1:5432/shop=$shop"
