#!/bin/bash
# Direct reads held to LIMIT a second by their cgroup, on a disk that answers in 150 us.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
simdisk_up 256 read=150 write=150 chan=8
cg blkio
echo "$DEVT ${LIMIT:-50}" > "$CG/blkio.throttle.read_iops_device"
bg sh -c "echo \$\$ > $CG/cgroup.procs; exec fio --name=reader --filename=$DEV --ioengine=psync --direct=1 --rw=randread --bs=4k \
    --time_based --runtime=$T --output=$RUN/fio.txt"
wait "$LAST" || true
