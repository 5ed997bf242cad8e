#!/usr/bin/env bash
# Builds the archive of a release for this system with `dist`, of the release build, installs it with the
# installer, which gets it from a server on this machine, and makes the packages for npm and Python of it.
# On Linux with glibc, a program for glibc takes the place of the static one, for which Rust's own
# toolchain has no standard library without a download.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
work=$(mktemp -d)
server=""
finish() {
    if [[ -n $server ]]; then kill "$server"; fi
    rm -rf "$work"
}
trap finish EXIT
target=$(rustc -vV | sed -n 's/^host: //p')

fail() {
    echo "not ok - $1" >&2
    exit 1
}

# A copy of the sources, of which only the release's targets differ.
mkdir -p "$work/tree" target
git checkout-index --all --prefix="$work/tree/"
cd "$work/tree"
sed -i.bak "s/\"${target/gnu/musl}\"/\"$target\"/" dist-workspace.toml
# The archive of the sources is made of a commit.
git init --quiet
git add --all
git -c user.name=rejoin -c user.email= commit --quiet --message=copy
ln -s "$root/target" target

(cd "$root" && cargo build --quiet --locked --release)
packaging/share/build target/release/rejoin target/share
# Packs that program: a build of this copy, with the profile of a release and for a target that is named,
# would compile all of it again.
cargo=$(command -v cargo)
mkdir "$work/bin"
cat >"$work/bin/cargo" <<END
#!/usr/bin/env bash
set -o pipefail
if [[ \$1 != build ]]; then exec "$cargo" "\$@"; fi
arguments=()
while ((\$#)); do
    case \$1 in
        --profile) arguments+=(--release) && shift ;;
        --profile=*) arguments+=(--release) ;;
        --target) shift ;;
        --target=*) ;;
        *) arguments+=("\$1") ;;
    esac
    shift
done
cd "$root"
"$cargo" "\${arguments[@]}" | sed "s#path+file://$root#path+file://$work/tree#"
END
chmod +x "$work/bin/cargo"
export CARGO="$work/bin/cargo" PATH="$work/bin:$PATH"
dist build --artifacts=local --target="$target" >/dev/null
dist build --artifacts=global >/dev/null
mkdir "$work/served"
find target/distrib -maxdepth 1 -type f -exec cp {} "$work/served" \;
(cd "$work/served" && sha256sum --quiet --check --ignore-missing sha256.sum) || fail "checksums"
echo "ok - dist makes archives, installers and checksums"

tar -xzf "$work/served/rejoin-$target.tar.gz" -C "$work"
unpacked="$work/rejoin-$target"
version=$("$unpacked/rejoin" --version)
for name in LICENSE README.md completions/_rejoin man/rejoin.1; do
    [[ -s $unpacked/$name ]] || fail "the archive has $name"
done
echo "ok - the archive has the program, the manual and completions"

python3 tests/packages/names.py target/distrib || fail "names"
echo "ok - cargo binstall asks for the archives by their names"

(cd "$work/served" && exec python3 -u -m http.server --bind 127.0.0.1 0) >"$work/port" 2>/dev/null &
server=$!
until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/port") && [[ -n $port ]]; do
    kill -0 "$server" || fail "the server starts"
    sleep 0.1
done
env -i HOME="$work/home" PATH=/usr/bin:/bin CARGO_HOME="$work/home/.cargo" REJOIN_NO_MODIFY_PATH=1 \
    REJOIN_DOWNLOAD_URL="http://127.0.0.1:$port" sh "$work/served/rejoin-installer.sh" >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "the installer"; }
[[ $("$work/home/.cargo/bin/rejoin" --version) == "$version" ]] || fail "the installed program"
echo "ok - the installer installs it"

# As the archive of a release is called.
if [[ $target != "${target/gnu/musl}" ]]; then
    mv "$work/served/rejoin-$target.tar.gz" "$work/served/rejoin-${target/gnu/musl}.tar.gz"
fi
packaging/release "$work/served" "$work/packages" >/dev/null
tar -tzf "$work"/packages/rejoin-0*.tgz package/man/rejoin-wrap.1 >/dev/null || fail "the packages have the manual"
if ! command -v uv >/dev/null; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet --only-binary :all: --require-hashes \
        -r tests/packages/requirements.txt
    PATH="$work/venv/bin:$PATH"
fi
npm_config_loglevel=error packaging/publish "$work/packages" >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "publishing"; }
echo "ok - the packages are made of the archives, and published if asked to"
