#!/bin/bash
# A cgroup as Docker and the kubelet name it (LAYOUT=docker|pod), with a state file of the runtime; a task in it with a quota of
# QUOTA_US in periods of 100 ms. STATE=no: without the file.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
ID=5ta1170b0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef01234567; ID=${ID//t/f}
case ${LAYOUT:-docker} in
docker) LEAF=docker/$ID; FILE=/var/lib/docker/containers/$ID/config.v2.json; TEXT='{"ID":"'$ID'","Name":"/web-1"}';;
pod) LEAF=kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/$ID
  FILE=/run/containerd/io.containerd.runtime.v2.task/k8s.io/$ID/config.json
  TEXT='{"annotations":{"io.kubernetes.cri.container-name":"api","io.kubernetes.cri.sandbox-name":"api-7d9f","io.kubernetes.cri.sandbox-namespace":"shop"}}';;
esac
# The folders that are made here are removed, those of a real runtime are not.
make() { local path=$1; [ -d "$path" ] && return; make "$(dirname "$path")"; mkdir "$path"; undo "rmdir $path"; }
GROUP=/sys/fs/cgroup/cpu/$LEAF
make "$GROUP"
undo "for p in \$(cat $GROUP/cgroup.procs); do echo \$p > /sys/fs/cgroup/cpu/cgroup.procs; done"
if [ "${STATE:-yes}" = yes ]; then make "$(dirname "$FILE")"; echo "$TEXT" > "$FILE"; undo "rm $FILE"; fi
echo 100000 > "$GROUP/cpu.cfs_period_us"
echo "${QUOTA_US:-20000}" > "$GROUP/cpu.cfs_quota_us"
say "spin in $GROUP quota ${QUOTA_US:-20000}/100000 us, ${T}s"
bg sh -c "echo \$\$ > $GROUP/cgroup.procs; exec $BIN/spin $T"
wait "$LAST" || true
