"""polling-sender.py SECONDS CONNECTIONS ADDRESS PORT ROLE CALL: an event loop (CALL: epoll or poll) that sends over that many
connections to a process that does not read. ROLE client: the event loop opens the connections; server: the process that does not read
does, and the event loop waits for other clients meanwhile; idle: the event loop opens them, and both sides only wait for requests."""
import os, select, socket, sys, time
seconds, count, address, port, role, call = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6]
server = socket.create_server((address, port), backlog=count)
def accept(): return [server.accept()[0] for _ in range(count)]
def connect():
    time.sleep(0.5)
    return [socket.create_connection((address, port)) for _ in range(count)]
child = os.fork()
if child == 0:
    with open('/proc/self/comm', 'w') as name: name.write('sink')
    connections = connect() if role == 'server' else accept()
    time.sleep(seconds)
    os._exit(0)
with open('/proc/self/comm', 'w') as name: name.write('shipper')
connections = accept() if role == 'server' else connect()
if role != 'server': server.close()
poller = select.epoll() if call == 'epoll' else select.poll()
wanted = select.EPOLLIN | (0 if role == 'idle' else select.EPOLLOUT)
for connection in connections:
    connection.setblocking(False)
    poller.register(connection, wanted)
by_number = {connection.fileno(): connection for connection in connections}
end = time.monotonic() + seconds
while time.monotonic() < end:
    for number, events in poller.poll():
        try:
            if events & select.EPOLLOUT: by_number[number].send(b'x' * 65536)
        except BlockingIOError: pass
        except OSError: sys.exit(0)
        if events & ~select.EPOLLOUT: sys.exit(0)
