#!/bin/bash
# Two network namespaces, the first of which routes to the second and drops there: a token bucket with a short queue (QUEUE bytes).
# SENDER=host|namespace: iperf3 in this namespace sends to the second one, or the other way. FAMILY=4|6. RATE in Mbit/s.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
FAMILY=${FAMILY:-4}
for ns in labRouter labFar; do ip netns add $ns; undo "ip netns del $ns"; done
ip link add labNear type veth peer name near netns labRouter; undo "ip link del labNear"
ip -n labRouter link add far type veth peer name eth0 netns labFar
if [ "$FAMILY" = 4 ]; then HOST=10.177.0.1 VIA=10.177.0.2 GATE=10.178.0.1 FAR=10.178.0.2 BITS=24 NET=10.178.0.0/24; else HOST=fd17:7::1 VIA=fd17:7::2 GATE=fd17:8::1 FAR=fd17:8::2 BITS=64 NET=fd17:8::/64; fi
NODAD=$([ "$FAMILY" = 6 ] && echo nodad || true)
ip addr add $HOST/$BITS dev labNear $NODAD; ip link set labNear up
ip -n labRouter addr add $VIA/$BITS dev near $NODAD; ip -n labRouter addr add $GATE/$BITS dev far $NODAD
ip -n labFar addr add $FAR/$BITS dev eth0 $NODAD
ip -n labRouter link set near up; ip -n labRouter link set far up; ip -n labFar link set eth0 up
ip netns exec labRouter sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip -$FAMILY route add $NET via $VIA; ip -n labFar -$FAMILY route add default via $GATE
if [ "${SENDER:-host}" = host ]; then SERVER="ip netns exec labFar" CLIENT="" TO=$FAR OUT=far; else SERVER="" CLIENT="ip netns exec labFar" TO=$HOST OUT=near; fi
ip netns exec labRouter tc qdisc add dev $OUT root tbf rate "${RATE:-20}mbit" burst 16kb limit "${QUEUE:-20kb}"
bg $SERVER iperf3 -s -1 -p ${PORT:-18105}
sleep 1
bg $CLIENT iperf3 -c $TO -p ${PORT:-18105} -P 4 -t "$T"
say "iperf3 sends to $TO over a router that takes ${RATE:-20} Mbit/s"
wait "$LAST" || true
