# Sourced by the other scripts: named steps with their times, and a summary at the end.

STEP_SUMMARY=""

# step NAME COMMAND...: runs the command, tells how long it took, stops the script when it fails.
step() {
    local name=$1 begun=$SECONDS code=0
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    # Not in an `if`: that would switch off `set -e` inside functions that are run as a step.
    set +e
    (set -e; "$@")
    code=$?
    set -e
    local took=$((SECONDS - begun))
    STEP_SUMMARY+="$(printf '%6d s  %s' "$took" "$name")"$'\n'
    if [ "$code" -ne 0 ]; then
        printf '== %s: FAILED after %d s (exit code %d): %s\n' "$name" "$took" "$code" "$*" >&2
        printf '%s' "$STEP_SUMMARY" >&2
        exit "$code"
    fi
    printf '== %s: ok, %d s\n' "$name" "$took"
}

# summary TITLE: the time of every step so far.
summary() {
    printf '\n== %s: %d s in all\n%s' "$1" "$SECONDS" "$STEP_SUMMARY"
}

# The folder that cargo builds into, and the tools that scripts/setup put below it.
TARGET=${CARGO_TARGET_DIR:-target}
export PATH="$PATH:$PWD/target/tools/bin"
