#!/bin/sh
# Installs stalltop: one static file, for any Linux (glibc or musl) on x86_64 or aarch64, after its checksum is verified.
#
#   sh DIR/install.sh                      from the files of a release, where this script lies among them
#   sh install.sh --from DIR-or-URL        from another directory, or from a server
#
# It goes into /usr/local/bin as root, else into ~/.local/bin. STALLTOP_BIN=DIR: another directory. STALLTOP_URL=URL is --from URL.
# It needs tar with gzip, sha256sum or shasum or openssl, and for a URL curl or wget. It changes nothing else.
# Exit codes: 0 installed; 1 nothing is installed, and why is said; 2 wrong usage.
set -eu
# Where the files of this version are, set by .ci/release.
url=

fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

main() {
  beside=$(dirname -- "$0")
  if [ -n "${STALLTOP_URL-}" ]; then
    from=$STALLTOP_URL
  elif [ "${0##*/}" = install.sh ] && [ -e "$beside/SHA256SUMS" ]; then
    from=$beside
  else
    from=$url
  fi
  usage='Usage: sh install.sh [--from DIR-or-URL]    (a directory or an address with the files of a release)'
  case $#,${1-} in
    0,) ;;
    2,--from) from=$2 ;;
    1,--from=?*) from=${1#--from=} ;;
    1,-h | 1,--help)
      echo "$usage"
      exit
      ;;
    *)
      echo "$usage" >&2
      exit 2
      ;;
  esac
  [ -n "$from" ] || fail "no files of a release beside it: say where they are, 'sh install.sh --from DIR-or-URL'"
  [ "$(uname -s)" = Linux ] || fail "stalltop is for Linux, and this is $(uname -s)"
  # The binaries are static: one for each processor, whatever the C library is.
  case $(uname -m) in
    x86_64 | amd64) target=x86_64-unknown-linux-musl ;;
    aarch64 | arm64) target=aarch64-unknown-linux-musl ;;
    *) fail "there is no binary for $(uname -m), only for x86_64 and aarch64: build it in its source tree, 'cargo install --path . --locked'" ;;
  esac
  if [ -n "${STALLTOP_BIN-}" ]; then
    bin=$STALLTOP_BIN
  elif [ "$(id -u)" = 0 ]; then
    bin=/usr/local/bin
  else
    [ -n "${HOME-}" ] || fail 'HOME is not set: set STALLTOP_BIN to a directory'
    bin=$HOME/.local/bin
  fi

  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  trap 'exit 1' INT TERM HUP
  load "$from/SHA256SUMS" "$place/SHA256SUMS"
  # `CHECKSUM  stalltop-VERSION-TARGET.tgz`, once.
  line=$(awk -v end="-$target.tgz" '
    { name = $2; sub(/^\*/, "", name) }
    index(name, "stalltop-") == 1 && name !~ /\// && substr(name, length(name) - length(end) + 1) == end { print $1, name }
  ' "$place/SHA256SUMS")
  expected=${line%% *} archive=${line#* }
  case $line in
    '') fail "SHA256SUMS names no archive for $target: nothing is installed" ;;
    *' '*' '*) fail "SHA256SUMS names more than one archive for $target: nothing is installed" ;;
  esac
  load "$from/$archive" "$place/$archive"
  actual=$(sha256 "$place/$archive")
  [ "$actual" = "$expected" ] || fail "the checksum of $archive is $actual, expected $expected: nothing is installed"

  tar -xzf "$place/$archive" -C "$place" || fail "cannot unpack $archive"
  mkdir -p "$bin" || fail "cannot make $bin: set STALLTOP_BIN to another directory"
  # Beside its place and renamed: a stalltop that runs keeps its file.
  new=$bin/.stalltop.new.$$
  trap 'rm -rf "$place" "$new"' EXIT
  cp "$place/${archive%.tgz}/stalltop" "$new" && chmod 755 "$new" ||
    fail "cannot write into $bin: set STALLTOP_BIN to another directory"
  installed=$("$new" --version) || fail "the binary of $archive does not run in $bin: nothing is installed"
  mv -f "$new" "$bin/stalltop" || fail "cannot write $bin/stalltop: set STALLTOP_BIN to another directory"
  printf '%s is installed as %s\n' "$installed" "$bin/stalltop"
  case ":$PATH:" in
    *":$bin:"*) ;;
    *) printf '%s is not in PATH: add it, or run %s\n' "$bin" "$bin/stalltop" ;;
  esac
}

# load FROM FILE: from a server or a directory.
load() {
  case $1 in
    *://*) ;;
    *)
      cp -- "$1" "$2" || fail "cannot read $1"
      return
      ;;
  esac
  if has curl; then
    curl --fail --silent --show-error --location --output "$2" "$1" || fail "cannot load $1"
  elif has wget; then
    wget -q -O "$2" "$1" || fail "cannot load $1"
  else
    fail 'needs curl or wget to load from a server'
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
main "$@"
