#!/usr/bin/env bash
# Stripe's SDKs for Python and Node with their base address on the gateway: their own retries keep one key,
# their own error classes tell what happened, and Stripe-Should-Retry is obeyed.
#
# needs: nodejs npm=npm python3 python3-venv
#
# SDK -> wire.py, which takes first answers away -> gateway -> upstream.py, which counts what it made.
set -euo pipefail
LANE=stripe-sdks
. tests-interop/lib/lane.bash

folder=$(mktemp -d)
trap 'ended; rm -rf "$folder"' EXIT

new=$(python_packages stripe)
old=$(python_packages stripe-old)
node=$(node_packages tests-interop/stripe)

sha() { printf %s "$1" | sha256sum | cut -d ' ' -f 1; }
cat >"$folder/samekey.toml" <<TOML
listen = "127.0.0.1:0"
database = "sqlite:$folder/keys.db"

[[token]]
sha256 = "$(sha sk_test_shop)"
org = "shop"

[[token]]
sha256 = "$(sha sk_test_other)"
org = "other"

[[route]]
name = "charges"
path = "/v1/charges"

[[route]]
name = "payment-intents"
path = "/v1/payment_intents"
mismatch_status = 400
TOML

# against NAME COMMAND...: runs a check with an upstream, a gateway and a wire of its own, and gives it
# the addresses of wire and upstream.
against() {
    local name=$1 upstream gateway wire
    shift
    python3 tests-interop/stripe/upstream.py >"$folder/$name.upstream" 2>&1 &
    started $!
    upstream=$(said "$folder/$name.upstream" "listening on ")
    rm -f "$folder"/keys.db*
    "$SAMEKEY_PROGRAMS/samekey" gateway --config "$folder/samekey.toml" --upstream "$upstream" \
        >"$folder/$name.gateway" 2>&1 &
    started $!
    gateway=$(said "$folder/$name.gateway" "listening on ")
    python3 tests-interop/stripe/wire.py "$gateway" >"$folder/$name.wire" 2>&1 &
    started $!
    wire=$(said "$folder/$name.wire" "listening on ")
    timeout 120 "$@" "$wire" "$upstream" "$node"
    ended
    STARTED=()
}

against python "$new/bin/python" tests-interop/stripe/check.py
against python-old "$old/bin/python" tests-interop/stripe/check.py
against node node tests-interop/stripe/check.mjs stripe StripeAPIError
against node-old node tests-interop/stripe/check.mjs stripe-old StripeIdempotencyError
