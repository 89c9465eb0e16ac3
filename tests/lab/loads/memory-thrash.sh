#!/bin/bash
# Four processes map a file that is larger than their memory limit and read it at random: a page comes back as soon as it is gone.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
simdisk_up 256 read="${READ_US:-1000}" write=1000 chan=8
cg memory
echo $((32 << 20)) > "$CG/memory.limit_in_bytes"
bg sh -c "echo \$\$ > $CG/cgroup.procs; exec fio --name=mapper --filename=$DEV --ioengine=mmap --rw=randread --bs=4k --size=256m \
    --numjobs=4 --time_based --runtime=$T --group_reporting --output=$RUN/fio.txt"
wait "$LAST" || true
