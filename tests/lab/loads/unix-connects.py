"""unix-connects.py SECONDS CLIENTS SECONDS_PER_REQUEST: a server on a Unix socket with a backlog of 5, which serves one connection after the
other, and threads that connect, wait for the answer, and connect again. 0 seconds a request: it serves none but the first."""
import ctypes, os, signal, socket, sys, tempfile, threading, time
seconds, count, request = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
path = os.path.join(tempfile.mkdtemp(prefix='unix-connects'), 'app.sock')
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(5)
child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its parent
    with open('/proc/self/comm', 'w') as name: name.write('app')
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = listener.accept()[0]
        connection.recv(100)
        time.sleep(request or seconds)
        connection.send(b'answer')
        connection.close()
    os._exit(0)
listener.close()
with open('/proc/self/comm', 'w') as name: name.write('client')
def ask():
    while True:
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            client.send(b'request')
            client.recv(100)
            client.close()
        except OSError: return
        time.sleep(0.01)
for _ in range(count): threading.Thread(target=ask, daemon=True).start()
os.waitpid(child, 0)
