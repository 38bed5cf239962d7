# Sourced by lanes: what several of them need. Everything that is started here is ended by the lane's trap.

# At most this long for a program to listen, in tenths of a second.
LISTEN_TRIES=300

STARTED=()

# ended: ends what this lane has started, by id, and waits for it.
ended() {
    local id
    for id in "${STARTED[@]}"; do
        kill "$id" 2>/dev/null || true
    done
    for id in "${STARTED[@]}"; do
        wait "$id" 2>/dev/null || true
    done
}

# started ID: the lane ends this process when it ends itself.
started() {
    STARTED+=("$1")
}

# said FILE PREFIX: waits until a line of the file begins so, and prints the rest of the line.
said() {
    local line
    for _ in $(seq "$LISTEN_TRIES"); do
        if line=$(grep -m 1 "^$2" "$1" 2>/dev/null); then
            printf '%s\n' "${line#"$2"}"
            return
        fi
        sleep 0.1
    done
    echo "$LANE: found no line \"$2\" after $((LISTEN_TRIES / 10)) s; this was said:" >&2
    cat "$1" >&2
    return 1
}

# listens PORT: waits until something accepts connections there.
listens() {
    for _ in $(seq "$LISTEN_TRIES"); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then
            return
        fi
        sleep 0.1
    done
    echo "$LANE: found nothing on port $1 after $((LISTEN_TRIES / 10)) s" >&2
    return 1
}

# free_port: a port that nothing listens on now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# python_packages NAME: a virtual environment with exactly what tests-interop/lock/NAME.txt names, by
# hash, kept in the lane's folder until that file changes. Prints its folder.
python_packages() {
    local lock=tests-interop/lock/$1.txt venv=$SAMEKEY_LANE/$1-venv
    if ! cmp --silent "$lock" "$venv/lock.txt"; then
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: \
            --requirement "$lock" >&2
        cp "$lock" "$venv/lock.txt"
    fi
    printf '%s\n' "$venv"
}

# python_wheels NAME: a folder with the wheels that tests-interop/lock/NAME.txt names, by hash, kept until
# that file changes. A guide's own `pip install` finds those, and nothing else. Prints the folder.
python_wheels() {
    local lock=tests-interop/lock/$1.txt wheels=$SAMEKEY_LANE/$1-wheels
    if ! cmp --silent "$lock" "$wheels/lock.txt"; then
        rm -rf "$wheels"
        python3 -m pip download --quiet --disable-pip-version-check --require-hashes --only-binary=:all: \
            --dest "$wheels" --requirement "$lock" >&2
        cp "$lock" "$wheels/lock.txt"
    fi
    printf '%s\n' "$wheels"
}

# node_packages FOLDER: what its package-lock.json names, kept in the lane's folder until that file
# changes. Prints the folder that has node_modules.
node_packages() {
    local kept=$SAMEKEY_LANE/node
    if ! cmp --silent "$1/package-lock.json" "$kept/node_modules/.lock"; then
        rm -rf "$kept"
        mkdir -p "$kept"
        cp "$1/package.json" "$1/package-lock.json" "$kept"
        npm ci --prefix "$kept" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
        cp "$1/package-lock.json" "$kept/node_modules/.lock"
    fi
    printf '%s\n' "$kept"
}

# database NAME: a database of its own for a role of its own, as a service has it. Prints its address.
database() {
    psql --quiet "$SAMEKEY_TEST_POSTGRES" -c "create role $1 login password 'secret'" \
        -c "create database $1 owner $1" >&2
    local server=${SAMEKEY_TEST_POSTGRES##*@}
    printf 'postgres://%s:secret@%s/%s\n' "$1" "${server%%/*}" "$1"
}
