#!/usr/bin/env bash
# install.sh DIR: the install script of a release's files in DIR, from the directory and from a server on 127.0.0.1: with curl, with
# busybox alone (its shell, wget, tar and sha256sum), for both processors, and refused with a wrong, a missing and an unknown file.
# tests/commands/install.rs tries it with made-up files.
set -euo pipefail
dist=$(realpath "$1")
place=$(mktemp -d /tmp/stalltop-install.XXXXXX)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$place"
}
trap finish EXIT
fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}
ok() { printf 'ok: %s\n' "$*"; }

cp -r "$dist" "$place/files"
python3 -u -m http.server --bind 127.0.0.1 --directory "$place/files" 0 >"$place/server" 2>&1 &
server=$!
for _ in $(seq 100); do
  port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$place/server")
  [ -n "$port" ] && break
  sleep 0.1
done
version=$(cargo pkgid | sed 's/.*[#@]//')

# From the directory in which it is, as README.md has it.
STALLTOP_BIN=$place/bin sh "$dist/install.sh" >"$place/out"
[ "$("$place/bin/stalltop" --version)" = "stalltop $version" ] || fail "$(cat "$place/out")"
rm "$place/bin/stalltop"
ok 'installed from a directory'

# From a server, with what this machine has.
export STALLTOP_URL=http://127.0.0.1:$port
STALLTOP_BIN=$place/bin sh "$dist/install.sh" >"$place/out"
[ "$("$place/bin/stalltop" --version)" = "stalltop $version" ] || fail "$(cat "$place/out")"
grep -q 'is not in PATH' "$place/out" || fail 'it does not say that the directory is not in PATH'
# Over the one that is there, while it runs.
"$place/bin/stalltop" record --for 1m "$place/running.stalltop" 2>/dev/null &
running=$!
STALLTOP_BIN=$place/bin sh "$dist/install.sh" >/dev/null
kill "$running"
wait "$running" 2>/dev/null || true
ok 'installed, and again while it runs'

# An Alpine-like machine: busybox and nothing else.
if command -v busybox >/dev/null; then
  mkdir "$place/applets"
  busybox --install -s "$place/applets"
  env -i PATH="$place/applets" HOME="$place/home" STALLTOP_URL="$STALLTOP_URL" STALLTOP_BIN="$place/home/bin" \
    "$place/applets/sh" "$dist/install.sh" >/dev/null
  [ -x "$place/home/bin/stalltop" ] || fail 'not installed with busybox'
  ok 'installed with busybox alone'
else
  echo 'skipped: no busybox'
  [ -z "${STALLTOP_NO_SKIP-}" ] || exit 1
fi

# refused SAYS: the script fails, says SAYS and installs nothing. `uname` may be another one.
refused() {
  local code=0
  rm -rf "$place/bin"
  STALLTOP_BIN=$place/bin PATH="$place/fake:$PATH" sh "$dist/install.sh" >"$place/out" 2>&1 || code=$?
  [ $code = 1 ] && grep -q "$1" "$place/out" || fail "not refused with '$1': exit code $code, $(cat "$place/out")"
  [ ! -e "$place/bin/stalltop" ] || fail "refused with '$1', but installed"
  ok "refused: $(tail -n 1 "$place/out" | sed "s|$place||g")"
}
mkdir "$place/fake"
printf '#!/bin/sh\n[ "$1" = -m ] && echo riscv64 || echo Linux\n' >"$place/fake/uname"
chmod +x "$place/fake/uname"
refused 'no binary for riscv64'
# The other processor's archive is loaded and verified. Its binary does not run here, unless qemu is registered for it.
other=aarch64
[ "$(uname -m)" = x86_64 ] || other=x86_64
printf '#!/bin/sh\n[ "$1" = -m ] && echo %s || echo Linux\n' $other >"$place/fake/uname"
STALLTOP_BIN=$place/bin PATH="$place/fake:$PATH" sh "$dist/install.sh" >"$place/out" 2>&1 ||
  grep -q "stalltop-$version-$other.* does not run" "$place/out" || fail "$(cat "$place/out")"
ok "$other has its own binary"
rm "$place/fake/uname"

archive=stalltop-$version-$(uname -m)-unknown-linux-musl.tgz
printf x >>"$place/files/$archive"
refused 'the checksum of'
cp "$dist/$archive" "$place/files"
sed -i "/$archive/d" "$place/files/SHA256SUMS"
refused 'names no archive for'
rm "$place/files/SHA256SUMS"
refused 'cannot load'
