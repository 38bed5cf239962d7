#!/usr/bin/env bash
# Builds the command samekey from the source that this script lies in, and puts it into a folder:
#   deploy/build.sh /usr/local/bin
#
# SAMEKEY_PROFILE is cargo's profile, release by default. It needs the Rust that Cargo.toml names and a C
# compiler, and exactly the dependencies of Cargo.lock. The Dockerfile has no other build step.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "build.sh: found $# arguments; expected the folder that the program is put into" >&2
    exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile=${SAMEKEY_PROFILE:-release}
cargo build --quiet --locked --profile "$profile" -p samekey-cli
# Cargo calls the folder of its profile dev debug.
folder=$profile
[ "$profile" = dev ] && folder=debug
install -m 755 "${CARGO_TARGET_DIR:-target}/$folder/samekey" "$out/samekey"
