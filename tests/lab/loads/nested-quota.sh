#!/bin/bash
# The quota (QUOTA_US in periods of 100 ms) is the parent's; the task is in a child that has none.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
cg cpu
PARENT=$CG
echo 100000 > "$PARENT/cpu.cfs_period_us"
echo "${QUOTA_US:-30000}" > "$PARENT/cpu.cfs_quota_us"
mkdir -p "$PARENT/inner"
undo "rmdir $PARENT/inner"
say "a quota of ${QUOTA_US:-30000} us above the task's own group"
bg sh -c "echo \$\$ > $PARENT/inner/cgroup.procs; exec $BIN/spin $T"
wait "$LAST" || true
