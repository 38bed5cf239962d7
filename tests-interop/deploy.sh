#!/usr/bin/env bash
# What deploy/ says, as far as it runs without a container daemon and without systemd as process 1: the build
# from a copy of the sources alone, the unit's own command line and settings, the login that compose makes, and
# the check of health.
#
# needs: systemd-analyze=systemd psql=postgresql-client python3 curl git
set -euo pipefail
LANE=deploy
. tests-interop/lib/lane.bash

# As systemd counts: below 2 of 10 is what it calls OK.
EXPOSURE_MAX=20

folder=$(mktemp -d)
trap 'ended; rm -rf "$folder"' EXIT

# ready PORT: the check of health of compose.yaml, with its own words.
ready() {
    local check
    check=$(sed -n 's/^ *test: \["CMD", "bash", "-c", "\(.*\)"\]$/\1/p' deploy/compose.yaml)
    [ -n "$check" ]
    # As compose and JSON read it.
    check=${check//\\\"/\"}
    check=${check//\\\\/\\}
    check=${check//\$\$/\$}
    bash -c "${check//8081/$1}"
}

echo "== the build, from what is committed, in a folder of its own"
source=$SAMEKEY_LANE/source
rm -rf "$source" "$SAMEKEY_LANE/bin"
mkdir -p "$source"
git archive HEAD | tar -x -C "$source"
SAMEKEY_PROFILE=dev CARGO_TARGET_DIR=$SAMEKEY_LANE/target CARGO_PROFILE_DEV_DEBUG=0 \
    "$source/deploy/build.sh" "$SAMEKEY_LANE/bin"
samekey=$SAMEKEY_LANE/bin/samekey
"$samekey" --version
# The image's build has no other step.
[ "$(sed -n '/ AS build$/,/^FROM /p' deploy/Dockerfile | grep '^RUN ')" = "RUN deploy/build.sh /out" ]

echo "== the login of the gateway, made twice"
owner=$(database keys_owner)
psql --quiet "$SAMEKEY_TEST_POSTGRES" -c 'alter role keys_owner createrole'
"$samekey" migrate --database "$owner" >/dev/null
for time in first again; do
    GATEWAY_PASSWORD=pass-of-$time deploy/login.sh "$owner" crates/store/sql/postgres/roles.sql
done
server=${owner##*@}
login="postgres://gateway:pass-of-again@$server"

echo "== the unit, as systemd reads it"
unit=deploy/samekey-gateway.service
sed "s#/usr/local/bin/samekey#$samekey#" "$unit" >"$folder/samekey-gateway.service"
systemd-analyze verify "$folder/samekey-gateway.service"
systemd-analyze security --offline=true --no-pager --threshold="$EXPOSURE_MAX" \
    "$folder/samekey-gateway.service" | tail -n 1

echo "== its command line, with its environment file and the settings beside it"
mkdir "$folder/credentials"
cp deploy/samekey.toml "$folder/credentials/samekey.toml"
port=$(free_port)
upstream=$(free_port)
admin=$(free_port)
"$samekey" lab api --listen "127.0.0.1:$upstream" >"$folder/upstream" 2>&1 &
started $!
said "$folder/upstream" "listening on " >/dev/null
cat >"$folder/gateway.env" <<ENV
SAMEKEY_DATABASE=$login
SAMEKEY_OUTBOUND_SECRET=a-secret-of-the-lane
SAMEKEY_UPSTREAM=http://127.0.0.1:$upstream
SAMEKEY_LISTEN=127.0.0.1:$port
SAMEKEY_ADMIN=127.0.0.1:$admin
ENV
command=$(sed -n 's/^ExecStart=//p' "$folder/samekey-gateway.service")
if ready "$admin" 2>/dev/null; then
    echo "deploy: the check of health says ready where nothing listens" >&2
    exit 1
fi
# Its own user reads nothing of this lane's, so it gets the two folders that it needs.
run=(env -i)
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    # Without privileges, as with DynamicUser: the program and its settings have to be readable for it.
    cp "$samekey" "$folder/samekey"
    command=${command/$samekey/$folder/samekey}
    chown -R 65534 "$folder/credentials"
    chmod 711 "$folder"
    run=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all env -i)
fi
(
    # shellcheck disable=SC2046
    exec "${run[@]}" $(xargs <"$folder/gateway.env") CREDENTIALS_DIRECTORY="$folder/credentials" \
        bash -c "exec $command"
) >"$folder/gateway" 2>&1 &
gateway=$!
started "$gateway"
said "$folder/gateway" "listening on " >/dev/null
ready "$admin"
# The lab knows no orders: a final answer, which is kept.
for marker in 0 1; do
    status=$(curl -sS -D "$folder/head" -o "$folder/answer" -w '%{http_code}' "http://127.0.0.1:$port/orders" \
        -H 'Idempotency-Key: k' -d '{}')
    if [ "$status" != 404 ] || [ "$(grep -ci '^idempotent-replayed' "$folder/head")" != "$marker" ]; then
        echo "deploy: expected 404 and $marker marker of a replay, found $status:" >&2
        cat "$folder/head" "$folder/answer" >&2
        exit 1
    fi
done
kill -TERM "$gateway"
wait "$gateway"
echo "deploy: built, verified, run and stopped"
