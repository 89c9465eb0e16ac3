#!/usr/bin/env bash
# Records ten seconds of each scenario of the lab into tests/recordings/lab; tests/lab_recordings.rs evaluates them again on
# any machine, without root. Needs root and an otherwise idle machine; prints how many CPUs were busy before each scenario.
#
#   tests/recordings/make.sh [NAME...]      all, or those named
#
# Arguments of commands are left out (--redact). Check the findings of a new recording before it is committed:
#   target/debug/stalltop check tests/recordings/lab/NAME.stalltop
set -euo pipefail
cd "$(dirname "$0")/../.."
lab=tests/lab
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

# record_scenario NAME SCENARIO SECONDS [VARIABLE=VALUE...]: records 10 s of it, begun SECONDS after it is on
record_scenario() {
  local name=$1 scenario=$2 before=$3 file=$folder/$1.stalltop; shift 3
  [ "$wanted" = "  " ] || [[ "$wanted" == *" $name "* ]] || return 0
  echo "== $name: the machine used $(busy) CPUs before"
  state=$(mktemp -d)
  # A session of its own, so that all it runs ends at once.
  local script=$lab/scenarios/$scenario.sh
  [ -e "$script" ] || script=$lab/loads/$scenario.sh
  setsid env SECONDS_TO_RUN=$((before + 16)) "$@" bash "$script" 2>/dev/null & local load=$!
  if [ "$scenario" = 01-commit-serialised-db ]; then
    while [ ! -e "$work/run/$scenario/ready" ]; do sleep 0.2; done
  fi
  sleep 1
  if [ "$before" -ge 14 ]; then # the baseline of the disk at one request at a time is learned first: it takes ten seconds
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

record_scenario 01-commit-serialised-db 01-commit-serialised-db 3
record_scenario 03-fio-sync32 03-fio-sync32 3
record_scenario 06-vfork-thousand 06-vfork-thousand 6
record_scenario 07-one-hot-thread-pinned 07-one-hot-thread-pinned 1
record_scenario 08-one-hot-thread-migrating 08-one-hot-thread-migrating 1
# The recording keeps the baseline that it was begun with.
record_scenario 09-depth1 09-util100-not-saturated 14 DEPTHS=1 SECONDS_TO_RUN=90
record_scenario 09-depth4 09-util100-not-saturated 17 "DEPTHS=1 4 4" SECONDS_TO_RUN=51
record_scenario 09-depth64 09-util100-not-saturated 17 "DEPTHS=1 64 64" SECONDS_TO_RUN=51
record_scenario 10-half 10-nic-saturation 3
record_scenario 10-full 10-nic-saturation 3 MODE=full
record_scenario 10-bbr 10-nic-saturation 3 CC=bbr
record_scenario 10-udp 10-nic-saturation 3 UDP=60M
record_scenario 11-listen-overflow 11-listen-overflow 4
record_scenario 12-hide-from-clock 12-hide-from-clock 3
record_scenario 13-cgroup-throttled 13-cgroup-throttled 2
record_scenario 14-memory-thrash memory-thrash 10
record_scenario 15-lock-convoy 15-lock-convoy 3
record_scenario 16-idle-pool 16-idle-pool 2
