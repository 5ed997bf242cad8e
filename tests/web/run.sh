#!/usr/bin/env bash
# Drives the pages for the browser in Chromium: tests/web/run.sh BINARY [PICTURES]
#
# PICTURES is a folder for screenshots. Installs the driver beside this file, as the lock file names
# it, and Chromium from the distribution, if that is allowed; without one, it says so and does nothing.
set -euo pipefail
exec </dev/null

binary=$(realpath "$1")
pictures=${2:-}
if [[ -n $pictures ]]; then pictures=$(mkdir -p "$pictures" && realpath "$pictures"); fi
cd "$(dirname "${BASH_SOURCE[0]}")"

find_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome || true
}
browser=$(find_browser)
if [[ -z $browser && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "installing chromium"
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null; then
        browser=$(find_browser)
    fi
fi
if [[ -z $browser ]]; then
    echo "skipped: there is no Chromium, and it cannot be installed"
    exit 0
fi
npm ci --no-fund --no-audit --loglevel=error
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TZ=UTC timeout --kill-after=5 300 node pages.mjs "$binary" "$browser" "$scratch" "$pictures"
