#!/usr/bin/env bash
# The guide docs/guides/provider.md, word by word, with the lab as the provider.
#
# needs: python3 curl
set -euo pipefail
LANE=provider
. tests-interop/lib/lane.bash

folder=$(mktemp -d)
trap 'ended; rm -rf "$folder"' EXIT

# The lab listens on 8021 by default, which the guide relies on, so it is told another address here only.
lab=$(free_port)
PATH="$SAMEKEY_PROGRAMS:$PATH" python3 tests-interop/lib/guide.py docs/guides/provider.md "$folder" \
    "samekey lab api=samekey lab api --listen 127.0.0.1:8021" "8021=$lab" "8090=$(free_port)"
