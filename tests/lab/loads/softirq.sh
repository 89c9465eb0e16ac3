#!/bin/bash
# Tiny UDP packets through so many filters that softirqs saturate CPU 1, to which receive packet steering sends them all. The
# sender has CPU 0. labA, the end that receives, is in this namespace.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
ip netns del labsoft 2>/dev/null || true
ip netns add labsoft
undo "ip netns del labsoft"
ip link add labA type veth peer name labB netns labsoft
undo "ip link del labA"
ip addr add 10.99.0.1/24 dev labA
ip link set labA up
ip -n labsoft addr add 10.99.0.2/24 dev labB
ip -n labsoft link set labB up
filters() { for port in $(seq 20001 $((20000 + $1))); do echo "filter add dev labA ingress protocol ip prio $port u32 match ip dport $port 0xffff classid 1:1"; done; }
if ! { tc qdisc add dev labA clsact && filters 1 | tc -b -; } 2>"$RUN/refused" || ! echo 2 > /sys/class/net/labA/queues/rx-0/rps_cpus; then
  say "skipped: this kernel has no clsact, cls_u32 or receive packet steering: $(tr '\n' ' ' <"$RUN/refused")"
  sleep 1 # so that it is heard
  exit 0
fi
tc filter del dev labA ingress
filters "${FILTERS:-1500}" | tc -b -
bg sh -c "exec iperf3 -s -B 10.99.0.1 >/dev/null 2>&1"
sleep 0.5
say "sends ${RATE:-60M} of 64 bytes each"
bg taskset -c 0 ip netns exec labsoft iperf3 -c 10.99.0.1 -u -l 64 -b "${RATE:-60M}" -t "$T" >/dev/null 2>&1
wait "$LAST" || true
