"""unix-sends.py SECONDS THREADS KIND READS_PER_SECOND: a receiver on a Unix socket, and as many threads that send to it. KIND: stream
or datagram. With 0 reads a second it reads nothing."""
import ctypes, os, signal, socket, sys, tempfile, threading, time
seconds, count, kind, rate = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
path = os.path.join(tempfile.mkdtemp(prefix='unix-sends'), 'sink.sock')
stream = kind == 'stream'
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
receiver.bind(path)
if stream: receiver.listen(count)
child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its parent
    with open('/proc/self/comm', 'w') as name: name.write('sink')
    sockets = [receiver.accept()[0] for _ in range(count)] if stream else [receiver]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in sockets if rate else []: one.recv(262144)
        time.sleep(1 / rate if rate else 0.05)
    os._exit(0)
receiver.close()
with open('/proc/self/comm', 'w') as name: name.write('sender')
def send():
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    sender.connect(path)
    try:
        while True: sender.send(b'x' * 1000)
    except OSError: pass
for _ in range(count): threading.Thread(target=send, daemon=True).start()
os.waitpid(child, 0)
