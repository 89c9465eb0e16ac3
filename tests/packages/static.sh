#!/usr/bin/env bash
# static.sh BINARY: runs a static binary where there is nothing: in a root that holds this file, /proc and /sys alone, also as
# nobody, read-only, without HOME, TERM and terminfo, on a terminal, and in other userlands: Debian's, one of busybox alone (Debian's
# busybox-static, which is linked to glibc), and one whose only library is musl, with a program that runs by it and the same busybox.
# A binary for another processor runs under qemu-user and reads captured trees of /proc. With busybox the pages' commands run as
# printed. Needs root.
set -euo pipefail
binary=$(realpath "$1")
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/packages/root.sh"
. "$here/tests/packages/pages.sh"
[ "$(id -u)" = 0 ] || skip 'a root of its own needs root'
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml" | head -n 1)

root=$place/empty
mkdir -p "$root/proc" "$root/sys" "$root/given/trees"
cp "$binary" "$root/stalltop"
# What is read in it: a recording and captured trees.
cp "$here/tests/recordings/lab/01-commit-serialised-db.stalltop" "$root/given/database.stalltop"
cp -r "$here/tests/kernel/trees/." "$root/given/trees"

machine=$(readelf --file-header "$binary" | sed -n 's/.*Machine: *//p')
emulator=()
case $machine in
  *X86-64*) native=x86_64 ;;
  AArch64) native=aarch64 ;;
  *) fail "$binary is for $machine" ;;
esac
if [ "$(uname -m)" != $native ]; then
  command -v qemu-$native-static >/dev/null || apt-get install -yq --no-install-recommends qemu-user-static >/dev/null 2>&1 || true
  command -v qemu-$native-static >/dev/null || skip 'qemu-user-static cannot be installed'
  cp "$(command -v qemu-$native-static)" "$root/emulator"
  emulator=(/emulator)
fi

# try CODES NAME COMMAND: in the root $root, in a mount namespace of its own, without an environment; the exit code is one of
# CODES, and standard error has no panic. `user` and `read_only` are set by the caller.
user=0 read_only=
try() {
  local codes=$1 name=$2 code=0
  shift 2
  user=$user read_only=$read_only root=$root unshare --mount sh -c '
    mount --make-rprivate / && mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" &&
    { [ -z "$read_only" ] || mount -o remount,bind,ro "$root"; } &&
    exec env -i /usr/sbin/chroot --userspec="$user:$user" "$root" "$@"' sh "${emulator[@]}" /stalltop "$@" \
    >"$place/out" 2>"$place/err" </dev/null || code=$?
  if [[ ",$codes," != *",$code,"* ]] || grep -q panicked "$place/err"; then
    head -n 20 "$place/out" "$place/err"
    fail "$name: stalltop $*: exit code $code, expected $codes"
  fi
}

# verdict NAME WHAT COMMAND: is prompt, but for an emulator.
verdict() {
  local name="$1, $2"
  shift 2
  if [ ${#emulator[@]} = 0 ]; then promptly "$name" "$@"; else "$@"; fi
}

# suite NAME: everything that ends by itself. What a tree or a recording has is the same on every machine.
suite() {
  local name=$1 tree
  try 0 "$name" --version
  [ "$(cat "$place/out")" = "stalltop $version" ] || fail "$name: --version: $(cat "$place/out")"
  try 0 "$name" --help
  try 0 "$name" doctor
  verdict "$name" 'check --for 2s' try 0,1,2 "$name" check --for 2s
  grep -q 'CPUs busy' "$place/out" || fail "$name: check: $(cat "$place/out")"
  # Its recording is written to a temporary file.
  if [ -z "$read_only" ] && [ -d "$root/tmp" ]; then
    verdict "$name" 'demo 1' try 0 "$name" demo 1
    grep -q 'idle but blocked' "$place/out" || fail "$name: demo 1: $(cat "$place/out")"
  fi
  try 0 "$name" table cpu 1 2
  try 0,1,2 "$name" check --json /given/database.stalltop
  cp "$place/out" "$place/${name// /-}.json"
  grep -q '"kind":"idle-but-blocked"' "$place/out" || fail "$name: the recording's finding is not found"
  try 0 "$name" table disk --from /given/database.stalltop --format csv
  try 0 "$name" report /given/database.stalltop -o -
  try 0 "$name" info --verify /given/database.stalltop
  # There is no terminal. screen has one, and tests/frames the drawing, under qemu-user too.
  try 2 "$name" replay /given/database.stalltop
  grep -q "cannot replay: .*: for text try 'stalltop check FILE'$" "$place/err" || fail "$name: replay: $(cat "$place/err")"
  try 0 "$name" record --for 1s -
  for tree in "$root"/given/trees/*; do
    [ -e "$tree/proc/stat" ] || continue # of one subject alone
    try 0,1,2 "$name" check --root "/given/trees/${tree##*/}" --for 1s
  done
  ok "$native, $name"
}

suite 'an empty root'
# The same findings as any other build has: the answer of the first root is compared with the others.
user=65534 read_only=yes
suite 'nobody, read-only'
cmp "$place/an-empty-root.json" "$place/nobody,-read-only.json" || fail 'another user gets another answer about a recording'

# screen NAME ARGUMENTS: the full screen, as nobody, on a terminal of a kind that nothing knows. `script` gives the terminal.
screen() {
  local name=$1
  shift
  (trap '' PIPE && while sleep 1; do printf q 2>/dev/null || exit 0; done) | root=$root script -qefc "stty cols 80 rows 24; exec unshare --mount sh -c '
    mount --make-rprivate / && mount -t proc proc $root/proc &&
    exec env -i TERM=of-unknown-kind /usr/sbin/chroot --userspec=65534:65534 $root /stalltop $*'" "$place/screen" \
    >/dev/null || fail "$name: exit code $?"
  grep -q $'\e\[?1049h' "$place/screen" && grep -q $'\e\[?1049l' "$place/screen" || fail "$name: it is not opened and closed"
  ok "$native, $name, without terminfo"
}
if [ ${#emulator[@]} != 0 ]; then
  echo "skipped: the screen of $native: qemu-user does not know the terminal's TCGETS2"
elif command -v script >/dev/null; then
  screen 'the live screen'
  screen 'a replay' replay /given/database.stalltop
fi

if [ ${#emulator[@]} = 0 ]; then
  user=0 read_only=
  empty=$root
  root=$place/debian
  clean_root "$root"
  cp -r "$empty/stalltop" "$empty/given" "$root"
  suite 'Debian'
  command -v busybox >/dev/null || apt-get install -yq --no-install-recommends busybox-static >/dev/null 2>&1 || true
  command -v musl-gcc >/dev/null || apt-get install -yq --no-install-recommends musl-tools >/dev/null 2>&1 || true
  command -v busybox >/dev/null || skip 'busybox-static cannot be installed'

  # busybox_root DIR: becomes the root, with the programs of busybox.
  busybox_root() {
    root=$1
    mkdir -p "$root"/{bin,proc,sys,dev,etc,tmp}
    chmod 1777 "$root/tmp"
    cp "$(command -v busybox)" "$root/bin/busybox"
    chroot "$root" /bin/busybox --install -s /bin
    cp -r "$empty/stalltop" "$empty/given" "$root"
  }
  # busybox_pages NAME: the pages' commands in it, with the binary where a user puts it.
  busybox_pages() {
    ln -s /stalltop "$root/bin/stalltop"
    cat >"$place/enter" <<END
#!/bin/sh
exec unshare --mount sh -c '
  mount --make-rprivate / && mount --bind "$root" "$root" && mount -t proc proc "$root/proc" &&
  mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
  exec env -i PATH=/bin TERM=xterm-256color LANG=C.UTF-8 /usr/sbin/chroot --userspec=65534:65534 "$root" "\$@"' sh "\$@"
END
    chmod +x "$place/enter"
    # It has no sysstat, procps and iproute2: their commands may be left out.
    STALLTOP_NO_SKIP='' pages "$1" "$place/enter"
  }

  busybox_root "$place/busybox"
  suite 'busybox'
  busybox_pages 'busybox'
  if command -v musl-gcc >/dev/null; then
    # As on Alpine: the dynamic linker, which is the library, beside busybox.
    busybox_root "$place/musl"
    mkdir "$root/lib"
    cp -L /lib/ld-musl-x86_64.so.1 "$root/lib"
    printf '#include <stdio.h>\nint main(void) { return puts("runs by musl") < 0; }\n' >"$place/program.c"
    musl-gcc -o "$root/bin/program" "$place/program.c"
    [ "$(chroot "$root" /bin/program)" = 'runs by musl' ] || fail 'musl: its program does not run'
    [ ! -e "$root/lib64" ] || fail 'musl: there is a glibc'
    suite 'musl'
    busybox_pages 'musl and busybox'
  else
    skipped 'musl-tools cannot be installed'
  fi
fi
