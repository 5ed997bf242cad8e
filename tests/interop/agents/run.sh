#!/usr/bin/env bash
# Drives other people's agents inside of rejoin: tests/interop/agents/run.sh BINARY [AGENT...]
#
# Installs the agents beside this file, as the lock file names them. Each one runs in a folder of its
# own with an empty home and a model server on loopback, and whatever it leaves running is ended.
# With `install` for BINARY it only installs them; with `alone` it is measured what the agents bring
# back without rejoin; with LATER in the environment, more than a minute passes between two lives of an
# agent.
set -euo pipefail
exec </dev/null

if (($# == 0)); then
    echo "usage: $0 BINARY|alone|install [AGENT...]" >&2
    exit 2
fi
what=$1
if [[ $what == alone ]]; then
    test=(bare.mjs)
    binary=()
else
    test=(wrapped.mjs)
    binary=("$(realpath "$1")")
fi
shift
if [[ -n ${SDK_CLIENT:-} ]]; then
    SDK_CLIENT=$(realpath "$SDK_CLIENT")
    export SDK_CLIENT
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
# shellcheck source=../common.sh
source ../common.sh
seconds_for_an_agent=300

# Installed once for each content of the lock file.
install() {
    local stamp
    stamp=$(cksum <package-lock.json)
    if [[ $(cat node_modules/.installed 2>/dev/null) == "$stamp" ]]; then return; fi
    echo "installing the agents"
    npm ci --no-fund --no-audit --loglevel=error
    echo "$stamp" >node_modules/.installed
}

start=$SECONDS
install
echo "installed in $((SECONDS - start)) s, $(du -sm node_modules | cut -f1) MB"
if [[ $what == install ]]; then exit; fi
node=$(echo "$PWD"/node_modules/node-linux-*/bin/node)
"$node" harness.mjs
# `subagents:NAME` is about the subagents of an agent, `versions:NAME` about them in both versions of
# the protocol, `cleared:NAME` about an agent that clears its context, `sdk:NAME` has the Rust SDK's
# client drive an agent (SDK_CLIENT is its path),
# `places:NAME` forks a session at a cursor and goes back in it,
# `imported:NAME` about a conversation that the agent had alone, `handover:NAME` about one
# with which each of the other agents goes on, `resumed:NAME` about one that goes on in a terminal.
if (($# == 0)); then
    set -- claude gemini codex-zed opencode codex qwen kimi
    if ((${#binary[@]} > 0)); then
        set -- "$@" {subagents,versions}:{claude,codex} cleared:claude
        set -- "$@" places:{claude,codex,opencode,gemini,qwen,kimi}
        set -- "$@" imported:{claude,codex,gemini,kimi,opencode,qwen}
        set -- "$@" resumed:{claude,codex,gemini,kimi,opencode,qwen}
        set -- "$@" handover:{claude,gemini,codex-zed,opencode,codex,qwen,kimi}
        if [[ -n ${SDK_CLIENT:-} ]]; then set -- "$@" sdk:{claude,codex}; fi
    fi
fi
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT

one() {
    local name=$1 script=("${test[@]}") folder start code=0
    if [[ $name == *:* ]]; then script=("${name%%:*}.mjs"); fi
    folder=$scratch/${name/:/-}
    mkdir "$folder"
    start=${EPOCHREALTIME/[.,]/}
    INTEROP_DIR=$folder timeout --kill-after=5 "$seconds_for_an_agent" \
        "$node" "${script[@]}" "${name#*:}" "${binary[@]}" >"$folder/output" 2>&1 || code=$?
    end_leftovers "$folder"
    if verdict "$name" "$code" "$start" "$folder/output"; then
        grep -v '^ok - ' "$folder/output" | sed 's/^/      /' || true
    else
        tail -n 20 "$folder"/life-*.stderr 2>/dev/null | sed 's/^/      /'
        return 1
    fi
}

side_by_side "$scratch" "$@"
