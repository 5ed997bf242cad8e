#!/usr/bin/env bash
# Drives rejoin with real clients: tests/interop/run.sh BINARY [TEST...]
#
# Installs the clients beside this file, as the lock files name them; with `install` for BINARY, no more. Each test is one file; it runs
# in a folder of its own with an empty home and an empty store, and whatever it leaves running is
# ended. A failed test's output is shown. A test named `wrapped:TEST` is the same with a rejoin that
# is wrapped around another one.
set -euo pipefail
exec </dev/null

if (($# == 0)); then
    echo "usage: $0 BINARY|install [TEST...]" >&2
    exit 2
fi
what=$1
binary=$(realpath "$what")
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
# shellcheck source=common.sh
source common.sh
seconds_for_a_test=180

# Installed once for each content of the lock files.
install() {
    local stamp
    stamp=$(cat package-lock.json requirements.txt | cksum)
    if [[ -x .venv/bin/python && $(cat node_modules/.installed 2>/dev/null) == "$stamp" ]]; then
        return
    fi
    echo "installing the clients"
    npm ci --no-fund --no-audit --loglevel=error
    python3 -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --only-binary :all: --require-hashes -r requirements.txt
    echo "$stamp" >node_modules/.installed
}

# acpx needs Node.js 22.13; the one that is installed as a package will do where there is none.
find_node() {
    local candidate
    for candidate in "$(command -v node || true)" node_modules/node-linux-*/bin/node; do
        if [[ -x $candidate ]] && "$candidate" -e '
            const [major, minor] = process.versions.node.split(".").map(Number);
            process.exit(major > 22 || (major === 22 && minor >= 13) ? 0 : 1)'; then
            realpath "$candidate"
            return
        fi
    done
    echo "no Node.js of version 22.13 or newer" >&2
    return 1
}

run() {
    local file=$1 folder=$2 environment=()
    mkdir -p "$folder/home" "$folder/cwd"
    local interpreter=("$node")
    if [[ $3 == wrapped:* ]]; then environment=(INTEROP_WRAPPED=1); fi
    if [[ $file == *.py ]]; then interpreter=("$here/.venv/bin/python" -B); fi
    (
        cd "$folder/cwd"
        env -u XDG_DATA_HOME -u XDG_CONFIG_HOME -u XDG_STATE_HOME -u XDG_CACHE_HOME \
            "${environment[@]}" INTEROP_DIR="$folder" HOME="$folder/home" REJOIN_STORE="$folder/store" \
            timeout --kill-after=5 "$seconds_for_a_test" \
            "${interpreter[@]}" "$here/$file" "$binary"
    ) >"$folder/output" 2>&1
}

install
if [[ $what == install ]]; then exit; fi
node=$(find_node)
if (($# == 0)); then
    set -- harness checklist sdk_restart sdk_v2 sdk_sessions recorded python_sdk acpx shared mcp recall ccusage power_cut \
        wrapped:checklist wrapped:sdk_restart wrapped:sdk_sessions wrapped:recorded wrapped:python_sdk wrapped:acpx
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

one() {
    local name=$1 file folder start code=0
    file=${name#wrapped:}.mjs
    if [[ -e ${file%.mjs}.py ]]; then file=${file%.mjs}.py; fi
    folder=$(realpath "$scratch")/$name
    start=${EPOCHREALTIME/[.,]/}
    run "$file" "$folder" "$name" || code=$?
    end_leftovers "$folder"
    verdict "$name" "$code" "$start" "$folder/output"
}

side_by_side "$scratch" "$@"
