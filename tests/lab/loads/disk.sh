#!/bin/bash
# A simulated disk with a file system on it, until ended. The loads of tests/lab/chain.rs work there.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
simdisk_up 1024 read="${READ_US:-2000}" write="${WRITE_US:-500}" flush="${FLUSH_US:-10000}" chan=8
mkfs.ext4 -q -F "$DEV"
mkdir -p "$RUN/mnt"
mount -o noatime "$DEV" "$RUN/mnt"
# The last of a killed load may still be in its last request.
undo "for _ in \$(seq 200); do umount $RUN/mnt && break; sleep 0.05; done"
# What a test may have left: a stopped disk and a frozen file system cannot be unmounted.
undo "kill -CONT $SIMPID; fsfreeze -u $RUN/mnt"
echo "$RUN/mnt" > "$RUN/folder"
echo "$SIMPID" > "$RUN/hardware"
echo "$DEVT" > "$RUN/device"
touch "$RUN/ready"
sleep "$T" 9>&- &
PIDS+=($!)
wait $!
