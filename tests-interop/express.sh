#!/usr/bin/env bash
# The guide docs/guides/express.md, word by word.
#
# needs: nodejs npm=npm python3 psql=postgresql-client curl
set -euo pipefail
LANE=express
. tests-interop/lib/lane.bash

folder=$(mktemp -d)
trap 'ended; rm -rf "$folder"' EXIT

shop=$(database shop)
# What the guide installs are the pinned releases.
cp tests-interop/express/package-lock.json "$folder"
export PATH="$SAMEKEY_PROGRAMS:$PATH" npm_config_cache="$SAMEKEY_LANE/npm" npm_config_prefer_offline=true \
    npm_config_ignore_scripts=true npm_config_update_notifier=false
python3 tests-interop/lib/guide.py docs/guides/express.md "$folder" \
    "9000=$(free_port)" "8080=$(free_port)" "8081=$(free_port)" \
    "postgres://app:secret@127.0.0.1:5432/shop=$shop"
cmp "$folder/package-lock.json" tests-interop/express/package-lock.json
