#!/bin/bash
# One process reads more than its memory limit from end to end: the limit is met all the time, and nothing is read twice.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
simdisk_up 8192 read=1000 write=1000 chan=4
cg memory
echo $((64 << 20)) > "$CG/memory.limit_in_bytes"
bg sh -c "echo \$\$ > $CG/cgroup.procs; exec dd if=$DEV of=/dev/null bs=1M"
wait "$LAST" || true
