#!/usr/bin/env bash
# Records the heart of each scenario of the lab into tests/recordings/lab: what tests/lab_recordings.rs judges again on any
# machine, without root. For root, on a machine that does nothing else; says by itself when it was not quiet.
#
#   STALLTOP_LAB=../shared/lab tests/recordings/make.sh [NAME...]      all, or those named
#
# Arguments of commands are left out (--redact). Look at what a new recording says before it is kept:
#   target/debug/stalltop check tests/recordings/lab/NAME.stalltop
set -euo pipefail
cd "$(dirname "$0")/../.."
lab=${STALLTOP_LAB:?where the lab is}
stalltop=${STALLTOP:-target/debug/stalltop}
folder=tests/recordings/lab
work=${LAB_WORK:-/tmp/stalltop-lab}
mkdir -p "$folder"
wanted=" $* "
state=

busy() { # CPUs used in a second
  local a b
  read -r -a a < /proc/stat; sleep 1; read -r -a b < /proc/stat
  awk -v n="$(nproc)" -v idle=$((b[4] + b[5] - a[4] - a[5])) -v all=$((b[1] + b[2] + b[3] + b[4] + b[5] + b[6] + b[7] + b[8] - a[1] - a[2] - a[3] - a[4] - a[5] - a[6] - a[7] - a[8])) \
    'BEGIN { printf "%.2f", n * (1 - idle / all) }'
}

# heart NAME SCENARIO SECONDS [VARIABLE=VALUE...]: records 10 s of it, begun SECONDS after it is on
heart() {
  local name=$1 scenario=$2 before=$3 file=$folder/$1.stalltop; shift 3
  [ "$wanted" = "  " ] || [[ "$wanted" == *" $name "* ]] || return 0
  echo "== $name: the machine used $(busy) CPUs before"
  state=$(mktemp -d)
  # A session of its own, so that all it runs ends at once.
  setsid env SECONDS_TO_RUN=$((before + 16)) "$@" bash "$lab/scenarios/$scenario.sh" 2>/dev/null & local load=$!
  if [ "$scenario" = 01-commit-serialised-db ]; then
    while [ ! -e "$work/run/$scenario/ready" ]; do sleep 0.2; done
  fi
  sleep 1
  if [ "$before" -ge 14 ]; then # what the disk does with one request at a time is learned first: it takes ten seconds
    XDG_STATE_HOME=$state "$stalltop" check --for 12s --interval 400ms > /dev/null || true
    before=$((before - 13))
  fi
  sleep "$before"
  rm -f "$file"
  XDG_STATE_HOME=$state "$stalltop" record --redact --interval 1s --for 10s "$file" > /dev/null
  kill -TERM -- -$load 2>/dev/null || true
  wait $load || true
  flock "$work/run/.lock" true
  rm -rf "$state"
  "$stalltop" check "$file" || true
}

heart 01-commit-serialised-db 01-commit-serialised-db 3
heart 03-fio-sync32 03-fio-sync32 3
heart 06-vfork-thousand 06-vfork-thousand 6
heart 07-one-hot-thread-pinned 07-one-hot-thread-pinned 1
heart 08-one-hot-thread-migrating 08-one-hot-thread-migrating 1
# The recording keeps the baseline that it was begun with.
heart 09-depth1 09-util100-not-saturated 14 DEPTHS=1 SECONDS_TO_RUN=90
heart 09-depth4 09-util100-not-saturated 17 "DEPTHS=1 4 4" SECONDS_TO_RUN=51
heart 09-depth64 09-util100-not-saturated 17 "DEPTHS=1 64 64" SECONDS_TO_RUN=51
heart 10-half 10-nic-saturation 3
heart 10-full 10-nic-saturation 3 MODE=full
heart 10-bbr 10-nic-saturation 3 CC=bbr
heart 10-udp 10-nic-saturation 3 UDP=60M
heart 11-listen-overflow 11-listen-overflow 4
heart 12-hide-from-clock 12-hide-from-clock 3
heart 13-cgroup-throttled 13-cgroup-throttled 2
heart 15-lock-convoy 15-lock-convoy 3
heart 16-idle-pool 16-idle-pool 2
