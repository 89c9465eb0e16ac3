#!/bin/bash
# THREADS busy processes that may use CPU 1 only: by MODE=cpuset or taskset.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
if [ "${MODE:-cpuset}" = cpuset ]; then
  cg cpuset
  cat /sys/fs/cgroup/cpuset/cpuset.mems > "$CG/cpuset.mems"
  echo 1 > "$CG/cpuset.cpus"
  SET="echo \$\$ > $CG/cgroup.procs"
else
  SET="taskset -p 2 \$\$ > /dev/null"
fi
say "${THREADS:-4} for one CPU by ${MODE:-cpuset}"
for _ in $(seq "${THREADS:-4}"); do bg sh -c "$SET; exec $BIN/spin $T"; done
wait || true
