"""blocked-sends.py SECONDS THREADS ADDRESS PORT BYTES_PER_SECOND: a receiver, and as many threads that send to it as fast as it
takes. With 0 bytes a second it reads nothing. The receiver is a process of its own, and may run in another network namespace."""
import ctypes, os, socket, sys, threading, time
seconds, count, address, port, rate = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
namespace = os.environ.get('RECEIVER_NETNS')
def receive():
    if namespace and ctypes.CDLL(None).setns(os.open(f'/run/netns/{namespace}', os.O_RDONLY), 0): sys.exit('setns failed')
    server = socket.create_server((address, port), backlog=count)
    connections = [server.accept()[0] for _ in range(count)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for connection in connections if rate else []: connection.recv(max(int(rate / 20), 1))
        time.sleep(0.05)
child = os.fork()
if child == 0:
    with open('/proc/self/comm', 'w') as name: name.write('sink')
    receive()
    os._exit(0)
with open('/proc/self/comm', 'w') as name: name.write('sender')
time.sleep(1)
def send():
    connection = socket.create_connection((address, port))
    try:
        while True: connection.sendall(b'x' * 65536)
    except OSError: pass
threads = [threading.Thread(target=send, daemon=True) for _ in range(count)]
for thread in threads: thread.start()
os.waitpid(child, 0)
