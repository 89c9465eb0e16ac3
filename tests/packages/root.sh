# Sourced: clean roots of Debian, and systemd running in one. For root alone; all is in namespaces of its own and ends with the
# script. A root is made once by debootstrap and kept as an archive in $STALLTOP_TOOLS.

place=$(mktemp -d /tmp/stalltop-packages.XXXXXX)
init=
finish() {
  [ -z "$init" ] || kill -9 "$init" 2>/dev/null || true
  rm -rf --one-file-system "$place"
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}
ok() { printf 'ok: %s\n' "$*"; }
# skipped WHY: what cannot be tried here; it fails where nothing may be left out (.ci/release in CI).
skipped() {
  printf 'skipped: %s\n' "$*"
  [ -z "${STALLTOP_NO_SKIP-}" ] || exit 1
}
skip() {
  skipped "$*"
  exit 0
}
# promptly NAME COMMAND: the first true verdict comes within 10 s of the command. Returns the command's exit code.
promptly() {
  local name=$1 begun code=0 took
  shift
  begun=$(date +%s%N)
  "$@" || code=$?
  took=$((($(date +%s%N) - begun) / 1000000))
  [ $took -le 10000 ] || fail "$name took $took ms" >&2
  ok "$name: the first verdict after $took ms" >&2
  return $code
}

# A minimal Debian has no systemd. rpm is for rpm.sh, the others have the tools that the pages compare with: procps, sysstat, iproute2,
# and zstd for tar.
root_packages=systemd,rpm,procps,sysstat,iproute2,zstd

# clean_root DIR: a minimal Debian with these packages.
clean_root() {
  # Named after the packages: a change of the list makes another one.
  local archive=${STALLTOP_TOOLS:-$HOME/.cache/stalltop-tools}/bookworm-$root_packages.tar made
  if [ ! -e "$archive" ]; then
    command -v debootstrap >/dev/null || apt-get install -yq --no-install-recommends debootstrap >/dev/null 2>&1 || true
    command -v debootstrap >/dev/null || skip 'debootstrap cannot be installed'
    made=$place/debootstrap
    if ! debootstrap --variant=minbase --include="$root_packages" bookworm "$made" >"$place/debootstrap.log" 2>&1; then
      tail -n 3 "$place/debootstrap.log"
      skip 'debootstrap cannot make a root'
    fi
    rm -rf "$made"/var/cache/apt/archives/*.deb "$made"/var/lib/apt/lists/*
    mkdir -p "${archive%/*}"
    tar --create --numeric-owner --directory "$made" . >"$archive.new" && mv "$archive.new" "$archive"
    rm -rf --one-file-system "$made"
  fi
  mkdir -p "$1" && tar --extract --numeric-owner --file "$archive" --directory "$1"
}

# boot DIR: starts its systemd in namespaces (pid, mount, network, cgroup, …); `inside COMMAND` runs in them.
boot() {
  booted=$1
  cat >"$place/boot.sh" <<'END'
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
cd "$root"
# Not chroot: a unit with a mount namespace of its own starts only where / is a mount.
pivot_root . tmp
exec env -i container=stalltop PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'umount --lazy /tmp && mount -t tmpfs tmpfs /tmp &&
  exec /lib/systemd/systemd'
END
  unshare --pid --fork --mount --cgroup --uts --ipc --net sh "$place/boot.sh" "$booted" >"$place/boot.log" 2>&1 </dev/null &
  local outer=$! state tries
  for tries in $(seq 300); do
    init=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null) || init=
    init=${init%% *}
    if [ -n "$init" ]; then
      state=$(inside systemctl is-system-running 2>/dev/null) || true
      case $state in running | degraded) return 0 ;; esac
    fi
    sleep 0.2
  done
  tail -n 5 "$place/boot.log"
  return 1
}
inside() {
  nsenter --target "$init" --mount --pid --cgroup --uts --ipc --net \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}

# connect: gives them an interface beside the loopback, as a machine has.
connect() {
  command -v ip >/dev/null || apt-get install -yq --no-install-recommends iproute2 >/dev/null 2>&1 || true
  nsenter --target "$init" --net sh -c 'ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up'
}

# entrance USER FILE: makes a program that runs its arguments in them as a user who has just logged in.
entrance() {
  cat >"$2" <<END
#!/bin/sh
exec nsenter --target $init --mount --pid --cgroup --uts --ipc --net env -i LANG=C.UTF-8 TERM=xterm-256color \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin setpriv --reuid=$1 --regid=$1 --init-groups "\$@"
END
  chmod +x "$2"
}

# files: what is in the root, but for what the system itself keeps: its logs, package data bases and caches.
files() {
  (cd "$1" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./run -o -path ./tmp -o -path ./dev -o -path ./var/log \
    -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./usr/lib/sysimage -o -path ./var/lib/systemd \
    -o -path ./var/lib/private -o -path ./var/tmp \) -prune -o -print | sort)
}

service=stalltop-record.service
# main_pid [SERVICE]
main_pid() { inside systemctl show --property MainPID --value "${1:-$service}"; }
# Whether SERVICE runs as another process than PID.
other_pid() { [ "$(main_pid "$1")" != 0 ] && [ "$(main_pid "$1")" != "$2" ]; }
# Whether the service that serves metrics answers on the loopback interface of the root.
served() {
  inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/9709 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && grep -q "^stalltop_cpus " <&3'
}
# A condition that must become true within 20 s.
soon() {
  local tries
  for tries in $(seq 100); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  return 1
}
