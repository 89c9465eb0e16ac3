#!/bin/bash
# A server on labA that accepts at once, and SYNs from forged addresses at the other end: its SYN queue is full, its accept queue empty.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
ip netns del labsyn 2>/dev/null || true
ip netns add labsyn
undo "ip netns del labsyn"
ip link add labA type veth peer name labB netns labsyn
undo "ip link del labA"
ip addr add 10.99.0.1/24 dev labA
ip link set labA up
ip -n labsyn addr add 10.99.0.2/24 dev labB
ip -n labsyn link set labB up
ip route add 198.18.0.0/15 via 10.99.0.2
say "${RATE:-1500} SYNs a second from ${ADDRESSES:-5000} addresses to port ${PORT:-18092}, backlog ${BACKLOG:-128}"
bg python3 -c "
import socket
server = socket.create_server(('10.99.0.1', ${PORT:-18092}), backlog=${BACKLOG:-128})
while True: server.accept()[0].close()"
sleep 0.5
bg ip netns exec labsyn "$BIN/synflood" "$T" "${RATE:-1500}" "${ADDRESSES:-5000}" 10.99.0.1 ${PORT:-18092}
wait "$LAST" || true
