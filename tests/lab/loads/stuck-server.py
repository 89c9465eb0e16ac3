"""stuck-server.py MODE FOLDER CONNECTIONS SECONDS: a server that writes and syncs for each batch of requests, as Redis with
appendfsync always, and one process with so many clients that ask again as soon as they are answered.
MODE: tcp, tcp6, unix; lock: four threads that serve under one mutex; queue: connections that are not kept, so that they wait in the
accept queue; oneway: one client that streams to it. NETNS=name: both run in that network namespace."""
import ctypes, os, selectors, socket, sys, threading, time
mode, folder, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
if os.environ.get('NETNS') and ctypes.CDLL(None).setns(os.open('/run/netns/' + os.environ['NETNS'], os.O_RDONLY), 0):
    sys.exit('setns failed')
def name(words):
    with open('/proc/self/comm', 'w') as comm: comm.write(words)
if mode == 'unix':
    family, address = socket.AF_UNIX, os.path.join('/tmp', f'stuck-server-{os.getpid()}')
else:
    family, address = (socket.AF_INET6, ('::1', 0)) if mode == 'tcp6' else (socket.AF_INET, ('127.0.0.1', 0))
server = socket.socket(family, socket.SOCK_STREAM)
server.bind(address)
server.listen(256)
address = server.getsockname()
log = os.open(os.path.join(folder, 'log'), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
mutex = threading.Lock()

def commit(data):
    os.write(log, data)
    os.fdatasync(log)

def serve_all(connections):
    """One thread: reads what there is, commits once, answers."""
    ready = selectors.DefaultSelector()
    for connection in connections: ready.register(connection, selectors.EVENT_READ)
    while True:
        asked = [key.fileobj for key, _ in ready.select()][:8]
        commit(b''.join(connection.recv(4096) for connection in asked))
        for connection in asked: connection.send(b'+OK\r\n')

def serve_under_mutex(connections):
    ready = selectors.DefaultSelector()
    for connection in connections: ready.register(connection, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            data = key.fileobj.recv(4096)
            with mutex: commit(data)
            key.fileobj.send(b'+OK\r\n')

def serve_queue():
    while True:
        connection, _ = server.accept()
        commit(connection.recv(4096))
        connection.send(b'+OK\r\n')
        connection.close()

def receive():
    connection, _ = server.accept()
    while True: commit(connection.recv(1 << 20))

def ask_all():
    """One thread for all clients."""
    name('clients')
    ready = selectors.DefaultSelector()
    def open_one():
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.connect(address)
        connection.send(b'*1 set\r\n')
        ready.register(connection, selectors.EVENT_READ)
    for _ in range(count): open_one()
    while True:
        for key, _ in ready.select():
            connection = key.fileobj
            if connection.recv(64) and mode != 'queue':
                connection.send(b'*1 set\r\n')
            else:
                ready.unregister(connection)
                connection.close()
                open_one()

def stream():
    name('sender')
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.connect(address)
    while True: connection.sendall(b'x' * 65536)

child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(1, 9)  # ends with its parent
    time.sleep(0.5)
    stream() if mode == 'oneway' else ask_all()
name('server')
threading.Thread(target=lambda: (time.sleep(seconds), os.kill(child, 9), os._exit(0)), daemon=True).start()
print('ready', flush=True)
if mode == 'queue': serve_queue()
elif mode == 'oneway': receive()
connections = [server.accept()[0] for _ in range(count)]
if mode != 'lock': serve_all(connections)
for part in range(4): threading.Thread(target=serve_under_mutex, args=(connections[part::4],), daemon=True).start()
time.sleep(seconds)
