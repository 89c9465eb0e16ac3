#!/usr/bin/env bash
# contents.sh TRIED.deb OTHER.deb TRIED.rpm OTHER.rpm BINARY: looks into the packages for a processor on which they cannot be
# installed here: they have BINARY, and all else as those that deb.sh and rpm.sh have installed. Needs rpm.
set -euo pipefail
tried_deb=$(realpath "$1") other_deb=$(realpath "$2") tried_rpm=$(realpath "$3") other_rpm=$(realpath "$4") binary=$(realpath "$5")
. "$(dirname "$0")/root.sh"
command -v rpm >/dev/null || apt-get install -yq --no-install-recommends rpm >/dev/null 2>&1 || true
command -v rpm >/dev/null || skip 'rpm cannot be installed'

# As readelf, Debian and rpm name it.
machine=$(readelf --file-header "$binary" | sed -n 's/.*Machine: *//p')
case $machine in
  AArch64) deb_name=arm64 rpm_name=aarch64 ;;
  *X86-64*) deb_name=amd64 rpm_name=x86_64 ;;
  *) fail "$binary is for $machine" ;;
esac

# same WHAT A B: two files, and what differs if they do.
same() { diff "$2" "$3" || fail "$1: other than in the package that is tried"; }

# compare KIND TRIED OTHER: what both have installed, as directories.
compare() {
  local kind=$1 tried=$2 other=$3 file
  (cd "$tried" && find . -printf '%y %m %p\n' | sort) >"$place/tried.list"
  (cd "$other" && find . -printf '%y %m %p\n' | sort) >"$place/other.list"
  same "$kind: its files" "$place/tried.list" "$place/other.list"
  # Licences are those of the crates that a processor has.
  diff --recursive --brief --exclude=THIRD-PARTY.txt "$tried" "$other" >"$place/differ" || true
  ! grep -v '/usr/bin/stalltop differ$' "$place/differ" || fail "$kind: its files are others"
  cmp "$binary" "$other/usr/bin/stalltop" || fail "$kind: it has another binary"
  for file in usr/bin/stalltop usr/share/man/man1/stalltop.1 usr/lib/systemd/system/stalltop-record.service \
    usr/lib/systemd/system/stalltop-armed.service usr/lib/systemd/system/stalltop-serve.service \
    usr/share/bash-completion/completions/stalltop etc/stalltop/config.toml; do
    grep -q "^f [67][45][45] \./$file\(\.gz\)\?$" "$place/other.list" || fail "$kind: $file is not in it"
  done
  ok "$kind: $(grep -c '^f' "$place/other.list") files, those of the package that is tried, with the binary for $machine"
}

architecture=$(dpkg-deb --field "$other_deb" Architecture)
[ "$architecture" = "$deb_name" ] || fail "the .deb is for $architecture"
for which in tried other; do
  deb=${which}_deb
  dpkg-deb --raw-extract "${!deb}" "$place/$which-deb"
  grep -v -e '^Architecture: ' -e '^Installed-Size: ' "$place/$which-deb/DEBIAN/control" >"$place/$which.control"
  rm "$place/$which-deb/DEBIAN/control"
done
same 'the .deb: its fields' "$place/tried.control" "$place/other.control"
# With the maintainer's scripts.
compare "the .deb for $deb_name" "$place/tried-deb" "$place/other-deb"

rpm --checksig "$other_rpm" | tee "$place/signature"
grep -q 'digests OK' "$place/signature" || fail 'rpm --checksig'
architecture=$(rpm --query --queryformat '%{ARCH}' --package "$other_rpm")
[ "$architecture" = "$rpm_name" ] || fail "the .rpm is for $architecture"
for which in tried other; do
  rpm=${which}_rpm
  mkdir "$place/$which-rpm"
  rpm2archive - <"${!rpm}" | tar --extract --gzip --directory "$place/$which-rpm"
  rpm --query --scripts --requires --configfiles --list --queryformat '%{NAME} %{VERSION}-%{RELEASE} %{SUMMARY}\n' \
    --package "${!rpm}" >"$place/$which.query"
done
same 'the .rpm: its scripts, requirements and files' "$place/tried.query" "$place/other.query"
compare "the .rpm for $rpm_name" "$place/tried-rpm" "$place/other-rpm"
