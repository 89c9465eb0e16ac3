#!/bin/bash
# weights.sh LIGHT HEAVY LIGHT_THREADS HEAVY_THREADS SECONDS: loops in two groups with these cpu.shares.
set -e
top=/sys/fs/cgroup/cpu
for g in light heavy; do mkdir -p $top/lab-$g; done
trap 'kill $(jobs -p) 2>/dev/null; wait; sleep 0.2; rmdir $top/lab-light $top/lab-heavy' EXIT
echo "$1" >$top/lab-light/cpu.shares
echo "$2" >$top/lab-heavy/cpu.shares
run() { # group count
    for _ in $(seq "$2"); do (echo $BASHPID >$top/lab-$1/cgroup.procs; exec -a "$1" "$BIN/spin" "$seconds") & done
}
seconds=$5
BIN=${BIN:-/tmp/stalltop-lab/bin}
run light "$3"
run heavy "$4"
sleep "$seconds"
