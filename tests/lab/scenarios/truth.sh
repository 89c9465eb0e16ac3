#!/bin/bash
# truth.sh SCENARIO.sh : runs it and measures it with independent tools; result in $LAB_WORK/truth
S=$1; N=$(basename $S .sh); HERE=$(cd "$(dirname "$0")" && pwd); WORK=${LAB_WORK:-/tmp/stalltop-lab}; O=$WORK/truth/$N.truth; W=$WORK/truth/$N.d; rm -rf $W; mkdir -p $W; T=${SECONDS_TO_RUN:-16}; export SECONDS_TO_RUN=$T WARM=${WARM:-3} LEN=${LEN:-8}
grep . /proc/loadavg > $W/load0; cat /proc/pressure/{cpu,io,memory} > $W/psi_before
bash $S > $W/scenario.txt 2>&1 & SP=$!
sleep $WARM; for i in $(seq 60); do [ -z "${READY:-}" ] || [ -e $WORK/run/$N/ready ] && break; sleep 0.25; done; [ -z "${READY:-}" ] || sleep 2
cat /proc/pressure/{cpu,io,memory} > $W/psi0; cat /proc/stat > $W/stat0; cat /proc/diskstats > $W/disk0; cat /proc/net/netstat /proc/net/snmp > $W/net0; cat /proc/vmstat > $W/vm0
mpstat -P ALL $LEN 1 > $W/mpstat & iostat -x -y -d $LEN 1 > $W/iostat & pidstat -u -h $LEN 1 > $W/pidstat 2>&1 & pidstat -w -h $LEN 1 > $W/pidstatw 2>&1 & vmstat 2 $((LEN/2)) > $W/vmstat & sar -n DEV,EDEV $LEN 1 > $W/sarnet 2>&1 &
(sleep 1; python3 $HERE/sample_waits.py 4 0.5 > $W/states0; head -12 $W/states0 > $W/states) &
if [ -n "${BT:-}" ]; then timeout -s INT $((LEN-1)) bpftrace -e "$BT" > $W/bt 2>&1 & fi
sleep $LEN; sleep 0.5
cat /proc/pressure/{cpu,io,memory} > $W/psi1; cat /proc/stat > $W/stat1; cat /proc/diskstats > $W/disk1; cat /proc/net/netstat /proc/net/snmp > $W/net1; cat /proc/vmstat > $W/vm1; cat /proc/loadavg > $W/load1
[ -n "${EXTRA:-}" ] && eval "$EXTRA" > $W/extra 2>&1
wait $SP; echo "rc=$?" >> $W/scenario.txt
{ echo "### $N $(date +%T)"; cat $W/scenario.txt; echo "-- loadavg before/after"; cat $W/load0 $W/load1; echo "-- mpstat"; grep -E '^Average' $W/mpstat; echo "-- iostat"; grep -E 'Device|loop|vda' $W/iostat | awk '{ if ($1=="Device"||$2+$8+$14+$20>0) print}'; echo "-- psi delta us/s (cpu some/full io some/full mem some/full)"; paste <(sed 's/.*total=//' $W/psi0) <(sed 's/.*total=//' $W/psi1) | awk -v l=$LEN '{printf "%.1f%% ",($2-$1)/(l+0.7)/1e4} END{print ""}'; echo "-- states"; cat $W/states; echo "-- pidstat top"; grep -v '^#' $W/pidstat | sort -k8 -rn | head -6; [ -f $W/bt ] && { echo "-- bpftrace"; tail -60 $W/bt; }; [ -f $W/extra ] && { echo "-- extra"; cat $W/extra; }; } > $O; cat $O
