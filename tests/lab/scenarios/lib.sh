# Sourced by every scenario and load script: time limit, list of started processes, cleanup on exit, simulated disk, cgroup.
LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd); WORK=${LAB_WORK:-/tmp/stalltop-lab}; BIN=$WORK/bin; NAME=$(basename "$0" .sh); RUN=$WORK/run/$NAME; T=${SECONDS_TO_RUN:-30}
export PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 1; }
mkdir -p $BIN; make -s -C $LAB/loads BIN=$BIN >/dev/null
mkdir -p $WORK/run; exec 9>$WORK/run/.lock; flock -n 9 || { echo "another scenario is running"; exit 75; }
rm -rf "$RUN"; mkdir -p "$RUN"
PIDS=(); UNDO=()
undo() { UNDO+=("$*"); }
bg() { setsid "$@" 9>&- & LAST=$!; PIDS+=($LAST); }   # own session, so that the group can be ended by its id
cleanup() { rc=$?; trap - EXIT INT TERM; set +e
  for p in "${PIDS[@]}"; do kill -TERM -- -"$p" 2>/dev/null; done
  for p in "${PIDS[@]}"; do for _ in $(seq 40); do kill -0 -- -"$p" 2>/dev/null || break; sleep 0.05; done; kill -KILL -- -"$p" 2>/dev/null; done
  for ((i=${#UNDO[@]}-1;i>=0;i--)); do eval "${UNDO[i]}" >/dev/null 2>&1; done
  rm -rf "$RUN"; echo "== $NAME: cleaned up"; exit $rc; }
trap cleanup EXIT; trap 'exit 130' INT; trap 'exit 143' TERM
say() { echo "== $NAME: $*"; }
# simdisk_up SIZE_MB key=val... : sets DEV (/dev/loopN) ; a block device with known service times (see loads/simdisk.c)
simdisk_up() { local mb=$1; shift; mkdir -p $RUN/fuse
  setsid chrt -f 40 $BIN/simdisk $RUN/fuse $RUN/backing $mb "$@" 9>&- & SIMPID=$!
  undo "kill -TERM $SIMPID; for _ in \$(seq 6); do kill -0 $SIMPID || break; sleep 0.05; done; kill -KILL $SIMPID; umount -l $RUN/fuse"
  for _ in $(seq 100); do [ -e $RUN/fuse/disk ] && break; sleep 0.05; done
  DEV=$(losetup -f --show --direct-io=on $RUN/fuse/disk); undo "losetup -d $DEV"; DEVN=$(basename $DEV); DEVT=$(cat /sys/block/$DEVN/dev)
  say "simulated disk $DEV ($DEVT) $* (simdisk pid $SIMPID plays the hardware)"; }
# cg CONTROLLER : makes a v1 cgroup, sets CG
cg() { CG=/sys/fs/cgroup/$1/lab-$NAME; mkdir -p $CG; undo "for p in \$(cat $CG/cgroup.procs); do echo \$p > /sys/fs/cgroup/$1/cgroup.procs; done; rmdir $CG"; }
