#!/bin/sh
# Installs stalltop: a static binary for this processor, for any Linux (glibc or musl), after its checksum is verified.
#
#   sh install.sh               into /usr/local/bin as root, else into ~/.local/bin
#
# STALLTOP_BIN=DIR     another directory
# STALLTOP_URL=URL     another place of the release's files, for a mirror
# It needs curl or wget, tar with gzip, and sha256sum or shasum or openssl. It changes nothing else.
set -eu
# Set by .ci/release, from Cargo.toml.
version=
url=${STALLTOP_URL-}

fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

main() {
  [ -n "$version" ] || fail 'this is the source of install.sh: take the one of a release'
  [ -n "$url" ] || fail 'no place to load from: set STALLTOP_URL to the address of the directory with the files of the release'
  [ "$(uname -s)" = Linux ] || fail "stalltop is for Linux, and this is $(uname -s)"
  # The binaries are static: one for each processor, whatever the C library is.
  case $(uname -m) in
    x86_64 | amd64) target=x86_64-unknown-linux-musl ;;
    aarch64 | arm64) target=aarch64-unknown-linux-musl ;;
    *) fail "there is no binary for $(uname -m): build it with Rust, 'cargo install --locked stalltop'" ;;
  esac
  name=stalltop-$version-$target
  archive=$name.tgz
  if [ -n "${STALLTOP_BIN-}" ]; then
    bin=$STALLTOP_BIN
  elif [ "$(id -u)" = 0 ]; then
    bin=/usr/local/bin
  else
    bin=${HOME:?is not set: set STALLTOP_BIN to a directory}/.local/bin
  fi

  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  trap 'exit 1' INT TERM HUP
  load "$url/SHA256SUMS" "$place/SHA256SUMS"
  load "$url/$archive" "$place/$archive"
  # One line of it: the name is the whole second word.
  expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$place/SHA256SUMS")
  [ -n "$expected" ] || fail "SHA256SUMS does not name $archive: nothing is installed"
  actual=$(sha256 "$place/$archive")
  [ "$actual" = "$expected" ] || fail "the checksum of $archive is $actual, expected $expected: nothing is installed"

  tar -xzf "$place/$archive" -C "$place" || fail "cannot unpack $archive"
  mkdir -p "$bin" || fail "cannot make $bin: set STALLTOP_BIN to another directory"
  # Beside its place and renamed: a stalltop that runs keeps its file.
  new=$bin/.stalltop.new.$$
  cp "$place/$name/stalltop" "$new" && chmod 755 "$new" && mv -f "$new" "$bin/stalltop" || {
    rm -f "$new"
    fail "cannot write $bin/stalltop: set STALLTOP_BIN to another directory"
  }
  printf '%s is installed as %s\n' "$("$bin/stalltop" --version)" "$bin/stalltop"
  case ":$PATH:" in
    *":$bin:"*) ;;
    *) printf '%s is not in PATH: add it, or run %s\n' "$bin" "$bin/stalltop" ;;
  esac
}

load() {
  if has curl; then
    curl --fail --silent --show-error --location --output "$2" "$1" || fail "cannot load $1"
  elif has wget; then
    wget -q -O "$2" "$1" || fail "cannot load $1"
  else
    fail 'needs curl or wget'
  fi
}

sha256() {
  if has sha256sum; then
    sum=$(sha256sum "$1")
  elif has shasum; then
    sum=$(shasum -a 256 "$1")
  elif has openssl; then
    sum=$(openssl dgst -sha256 -r "$1")
  else
    fail 'needs sha256sum, shasum or openssl to verify what it has loaded'
  fi
  printf '%s\n' "${sum%% *}"
}

# A file that is loaded in part runs nothing.
main
