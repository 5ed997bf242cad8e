#!/usr/bin/env bash
# Tries the newest version of each tool whose conversations rejoin reads, and writes docs/tools.md:
# tests/interop/drift/run.sh BINARY FOLDER [SOURCE...]
#
# The tools are installed below FOLDER. Each one runs with an empty home and the tests' model server on
# loopback. With names of sources, docs/tools.md is not written. The exit code is 1 if something that a
# tool's own client saw is not read, or a record is of an unknown kind.
set -euo pipefail
exec </dev/null

if (($# < 2)); then
    echo "usage: $0 BINARY FOLDER [SOURCE...]" >&2
    exit 2
fi
binary=$(realpath "$1")
mkdir -p "$2"
modules=$(realpath "$2")
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
# shellcheck source=../common.sh
source ../common.sh
seconds_for_a_tool=300
# Its Node is the one that the tools run with, too.
../agents/run.sh install
node=$(echo "$here"/../agents/node_modules/node-linux-*/bin/node)
all=$("$node" tools.mjs)
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT

# The newest version of a package that can be installed: a registry may have a version before it has what
# that needs. The others follow. Those of Python go into an environment of their own.
install() {
    local folder=$1 first=$2 version
    shift 2
    rm -rf "$folder"
    mkdir -p "$folder"
    if [[ $first == python:* ]]; then
        set -- "$first" "$@"
        python3 -m venv "$folder/python" && "$folder/python/bin/python" -m pip install --quiet \
            --disable-pip-version-check "${@/#python:/}" >"$folder.log" 2>&1
        return
    fi
    cp ../agents/.npmrc "$folder/"
    echo '{"private":true}' >"$folder/package.json"
    for version in latest $(npm view "$first" versions --json | "$node" -p '
        JSON.parse(require("fs").readFileSync(0)).filter((of) => !of.includes("-")).slice(-4, -1).reverse().join(" ")'); do
        if npm install --prefix "$folder" --no-save --no-fund --no-audit --loglevel=error \
            "$first@$version" "${@/%/@latest}" >"$folder.log" 2>&1; then
            return
        fi
    done
    return 1
}

one() {
    local name=$1 folder=$scratch/$1 start code=0
    mkdir "$folder"
    start=${EPOCHREALTIME/[.,]/}
    # shellcheck disable=SC2046 # each word is a package
    if ! install "$modules/$name" $("$node" tools.mjs "$name"); then
        echo "FAIL  $name: cannot be installed"
        tail -n 5 "$modules/$name.log" | sed 's/^/      /'
        return 1
    fi
    AGENT_MODULES=$modules/$name/node_modules INTEROP_DIR=$folder timeout --kill-after=5 "$seconds_for_a_tool" \
        "$node" drift.mjs "$name" "$binary" "$scratch/$name.json" >"$folder/output" 2>&1 || code=$?
    end_leftovers "$folder"
    verdict "$name" "$code" "$start" "$folder/output"
}

failed=0
# shellcheck disable=SC2086 # each word is a source
if (($# > 0)); then
    side_by_side "$scratch" "$@"
else
    side_by_side "$scratch" $all || failed=1
    "$node" table.mjs "$scratch" "$(date -u +%Y-%m-%d)" >../../../docs/tools.md
fi
exit "$failed"
