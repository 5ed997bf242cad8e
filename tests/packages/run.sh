#!/usr/bin/env bash
# Packs a binary for npm and for Python, installs the packages into empty folders and runs them.
#
#   tests/packages/run.sh BINARY
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$binary" --version)

fail() {
    echo "not ok - $1" >&2
    exit 1
}

"$root/packaging/npm/build" "$binary" "$work/out" >/dev/null
"$root/packaging/wheel/build" "$binary" "$work/out" >/dev/null
mkdir "$work/again"
"$root/packaging/npm/build" "$binary" "$work/again" >/dev/null
"$root/packaging/wheel/build" "$binary" "$work/again" >/dev/null
diff -r "$work/out" "$work/again" || fail "the same binary gives the same packages"
echo "ok - the same binary gives the same packages"

for refused in "$root/Cargo.toml" "$work/nothing"; do
    for kind in npm wheel; do
        if "$root/packaging/$kind/build" "$refused" "$work/refused" 2>"$work/err"; then
            fail "$kind: $refused is refused"
        fi
        grep -q "^$refused: " "$work/err" || fail "$kind: the error names the file"
    done
done
echo "ok - what is not a program is refused"

packages=("$work"/out/*.tgz)
export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false

# The binary itself is on the path, with no Node process before it.
mkdir "$work/scripts" "$work/plain"
for way in scripts plain; do
    (
        cd "$work/$way"
        echo '{}' >package.json
        options=()
        if [[ $way == plain ]]; then options=(--ignore-scripts); fi
        npm install --silent "${options[@]}" "${packages[@]}"
    )
    [[ $("$work/$way/node_modules/.bin/rejoin" --version) == "$version" ]] || fail "npm, $way: --version"
done
cmp -s "$binary" "$work/scripts/node_modules/.bin/rejoin" || fail "npm: the launcher is the binary"
cmp -s "$binary" "$work/plain/node_modules/.bin/rejoin" && fail "npm: no script has run"
echo "ok - npm puts the binary itself on the path"

npm install --silent --global --prefix "$work/global" "${packages[@]}"
[[ -e $work/global/share/man/man1/rejoin.1 ]] || fail "npm: the manual is installed"
echo "ok - npm installs the manual"

with=()
for package in "${packages[@]}"; do with+=(--package "$package"); done
shown=$(cd "$work/again" && npx --yes --silent "${with[@]}" rejoin --version)
[[ $shown == "$version" ]] || fail "npx: $shown"
echo "ok - npx runs it"

# Where npm runs no scripts, input, output, exit codes and signals still pass.
initialize='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
launcher="$work/plain/node_modules/.bin/rejoin"
for program in "$launcher" "$work/scripts/node_modules/.bin/rejoin"; do
    answer=$(echo "$initialize" | "$program" serve --store "$work/store" 2>"$work/err")
    [[ $answer == *'"agentInfo"'* ]] || fail "npm: $program serves: $answer"
    code=0
    "$program" sessions show nothing --store "$work/store" 2>"$work/err" || code=$?
    [[ $code == 3 ]] || fail "npm: $program ends with $code"
done
mkfifo "$work/input" "$work/output"
"$launcher" serve --store "$work/store" <"$work/input" >"$work/output" &
server=$!
exec 3>"$work/input" 4<"$work/output"
echo "$initialize" >&3
read -r <&4
kill -TERM "$server"
code=0
wait "$server" || code=$?
exec 3>&- 4<&-
[[ $code == 0 || $code == 143 ]] || fail "npm: a signal ends the launcher with $code"
echo "ok - the launcher passes on input, output, exit codes and signals"

wheel=("$work"/out/*.whl)
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-index "${wheel[0]}"
[[ $("$work/venv/bin/rejoin" --version) == "$version" ]] || fail "pip: --version"
cmp -s "$binary" "$work/venv/bin/rejoin" || fail "pip: the program is the binary"
for name in man/man1/rejoin-wrap.1 bash-completion/completions/rejoin; do
    [[ -s $work/venv/share/$name ]] || fail "pip: $name"
done
echo "ok - pip installs the binary, the manual and completions"

uvx=$(command -v uvx || true)
if [[ -z $uvx ]] && "$work/venv/bin/python" -m pip install --quiet --only-binary :all: \
    --require-hashes -r "$here/requirements.txt"; then
    uvx="$work/venv/bin/uvx"
fi
if [[ -n $uvx ]]; then
    shown=$(UV_CACHE_DIR="$work/uv" "$uvx" --quiet --offline --from "${wheel[0]}" rejoin --version)
    [[ $shown == "$version" ]] || fail "uvx: $shown"
    echo "ok - uvx runs it"
else
    echo "skipped - there is no uvx, and it cannot be installed"
fi
