#!/usr/bin/env bash
# Makes the role samekey_service and the login `gateway` that is in it, as the owner of the tables and after
# `samekey migrate`. Run again, it makes what is missing, gives the role what newer tables need, and sets the password anew.
#   PGPASSWORD=… GATEWAY_PASSWORD=… login.sh CONNECTION ROLES_SQL
#
# The login may not be called samekey: PostgreSQL would look for its tables among the keys first.
set -euo pipefail

connection=$1 roles=$2
ask() { psql "$connection" --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 "$@"; }

if [ "$(ask -c "select count(*) from pg_roles where rolname = 'samekey_service'")" = 0 ]; then
    ask -f "$roles"
else
    grep -v '^create role' "$roles" | ask
fi
if [ "$(ask -c "select count(*) from pg_roles where rolname = 'gateway'")" = 0 ]; then
    ask -c 'create role gateway login in role samekey_service'
fi
# The password does not come into any list of processes.
ask --set "password=$GATEWAY_PASSWORD" <<<"alter role gateway password :'password'"
