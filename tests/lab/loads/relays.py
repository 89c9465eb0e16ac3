"""relays.py MODE SECONDS: threads that wait for a database in a network namespace of its own, 10.99.7.2:5432, which answers a request of N
seconds after N seconds. It ends with this process, and with it the namespace and the interface labRelay.
loop: 12 threads at a pthread mutex, whose holder asks the database (1 s) and waits in epoll, which also watches six idle connections to it.
loop-idle: the same without the request; the holder waits for events for a second. loop-several: it asks two remote ends. loop-clients: it
has sent last to its own clients.
proxy, threads, unix: the holder waits in recv for the process relay, which asks the database: an event loop (asyncio), a thread a connection,
the same over a Unix socket. relay-idle: the relay tells its clients something now and then, and none asks.
group, group-idle: eight threads without a mutex that ask relay, an event loop, and again; after 2 s the database does not answer for 90 s.
Prints "ready". With TRUTH=FILE it writes "relay PID" and, each time a thread takes the mutex, "holder TID"."""
import asyncio, ctypes, os, select, signal, socket, subprocess, sys, threading, time
mode, seconds = sys.argv[1], float(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
DATABASE, CACHE, RELAY = ('10.99.7.2', 5432), ('10.99.7.2', 6379), ('127.0.0.1', 16432)
truth = open(os.environ['TRUTH'], 'a', buffering=1) if 'TRUTH' in os.environ else None
def tell(words):
    if truth: truth.write(words + '\n')
def name(words):
    with open('/proc/thread-self/comm', 'w') as comm: comm.write(words)
def background(work, *arguments): threading.Thread(target=work, args=arguments, daemon=True).start()
def run(*words): subprocess.run(words, check=True)
def fork(work):
    child = os.fork()
    if child == 0:
        libc.prctl(1, signal.SIGKILL)  # ends with its parent
        work()
        time.sleep(seconds)
        os._exit(0)
    return child
def answer(connection):
    while request := connection.recv(64):
        time.sleep(float(request))
        connection.sendall(b'answer')
def serve(server):
    while True: background(answer, server.accept()[0])
def ask(connection, time):
    connection.sendall(time)
    return connection.recv(64)

def database():
    name('database')
    if libc.unshare(0x40000000): sys.exit('unshare failed')  # CLONE_NEWNET
    os.write(moved[1], b'!')
    os.read(linked[0], 1)
    run('ip', 'addr', 'add', '10.99.7.2/24', 'dev', 'eth0')
    run('ip', 'link', 'set', 'eth0', 'up')
    for address in (DATABASE, CACHE): background(serve, socket.create_server(address, backlog=64))
    os.write(moved[1], b'!')
moved, linked = os.pipe(), os.pipe()
subprocess.run(['ip', 'link', 'del', 'labRelay'], stderr=subprocess.DEVNULL)
remote = fork(database)
os.read(moved[0], 1)
run('ip', 'link', 'add', 'labRelay', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(remote))
run('ip', 'addr', 'add', '10.99.7.1/24', 'dev', 'labRelay')
run('ip', 'link', 'set', 'labRelay', 'up')
os.write(linked[1], b'!')
os.read(moved[0], 1)

def asked_before(address):
    connection = socket.create_connection(address)
    ask(connection, b'0.01')
    return connection

# The process that is asked, and asks the database.
async def pass_on(reader, writer):
    to_read, to_write = await asyncio.open_connection(*DATABASE)
    while request := await reader.read(64):
        to_write.write(request)
        writer.write(await to_read.read(64))
async def tell_news(reader, writer):
    while True:
        writer.write(b'news')
        await asyncio.sleep(2)
async def relay_loop():
    await asyncio.start_server(tell_news if mode == 'relay-idle' else pass_on, *RELAY)
    os.write(moved[1], b'!')
    await asyncio.sleep(seconds)
def relay_thread(connection):
    database = socket.create_connection(DATABASE)
    while request := connection.recv(64): connection.sendall(ask(database, request))
def relay():
    name('relay')
    if mode not in ('threads', 'unix'): asyncio.run(relay_loop())
    if mode == 'unix':
        server = socket.socket(socket.AF_UNIX)
        server.bind('\0relays')
        server.listen(64)
    else: server = socket.create_server(RELAY, backlog=64)
    os.write(moved[1], b'!')
    while True: background(relay_thread, server.accept()[0])
if not mode.startswith('loop'):
    tell(f'relay {fork(relay)}')
    os.read(moved[0], 1)
def to_relay():
    if mode != 'unix': return socket.create_connection(RELAY)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect('\0relays')
    return connection

# The threads that wait.
name('app')
mutex = ctypes.create_string_buffer(64)
idle = [asked_before(DATABASE) for _ in range(6)] if mode.startswith('loop') else []
asked = {'loop': [DATABASE], 'loop-several': [DATABASE, CACHE]}.get(mode, []) if idle else []
asked = [asked_before(address) for address in asked]
clients = []
if mode == 'loop-clients':
    server = socket.create_server(('127.0.0.1', 16433))
    for _ in range(2):
        clients.append((socket.create_connection(server.getsockname()), server.accept()[0]))
        clients[-1][0].sendall(b'hello')
        clients[-1][1].recv(64)
events = select.epoll()
for connection in idle + asked + [end for _, end in clients]: events.register(connection, select.EPOLLIN)
def hold_loop():
    for _, end in clients: end.sendall(b'news')
    for connection in asked: connection.sendall(b'1')
    if not asked: return events.poll(1)
    left = len(asked)
    while left:
        for descriptor, _ in events.poll(): left -= len(os.read(descriptor, 64)) > 0
def worker():
    name('worker')
    connection = None if idle else to_relay()
    while True:
        libc.pthread_mutex_lock(mutex)
        tell(f'holder {threading.get_native_id()}')
        if idle: hold_loop()
        elif mode == 'relay-idle': connection.recv(64)
        else: ask(connection, b'1')
        libc.pthread_mutex_unlock(mutex)
begin = time.monotonic()
def member():
    connection = to_relay()
    if mode == 'group-idle':
        ask(connection, b'0.01')
        while True: connection.recv(64)
    while True: ask(connection, b'0.05' if time.monotonic() < begin + 2 else b'90')
grouped = mode.startswith('group')
for _ in range(8 if grouped else 12): background(member if grouped else worker)
print('ready', flush=True)
time.sleep(seconds)
