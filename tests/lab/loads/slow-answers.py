"""slow-answers.py SECONDS THREADS PORT ANSWERED: a server, and as many threads of one process (app) that ask it again and again. After
ANSWERED seconds it reads the requests and answers no more. Beside them the process twins, whose threads also sleep in recv on connections
to it: subscribers, which are told something once a second, and three long polls; and an idle pool, of which no thread reads."""
import ctypes, os, socket, sys, threading, time
seconds, count, port, answered = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
begin = time.monotonic()
address = ('127.0.0.1', port)
def name(words):
    with open('/proc/self/comm', 'w') as comm: comm.write(words)
def serve(connection):
    while request := connection.recv(64):
        if request == b'subscribe':
            while True: connection.sendall(b'news'); time.sleep(1)
        if request == b'poll': time.sleep(seconds)
        if request == b'ask' and time.monotonic() - begin > answered: time.sleep(seconds)
        connection.sendall(b'answer')
def background(work, *arguments): threading.Thread(target=work, args=arguments, daemon=True).start()
def fork(work):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)  # ends with its parent
        work()
        time.sleep(seconds)
        os._exit(0)
def ask():
    connection = socket.create_connection(address)
    while True:
        connection.sendall(b'ask')
        connection.recv(64)
        time.sleep(0.1)
def app():
    name('app')
    for _ in range(count): background(ask)
def receive(words):
    connection = socket.create_connection(address)
    for word in words: connection.sendall(word); connection.recv(64)
    while True: connection.recv(64)
idle = []
def rest():
    idle.append(socket.create_connection(address))
    idle[-1].sendall(b'hello')
    idle[-1].recv(64)
def twins():
    name('twins')
    for _ in range(count): background(receive, [b'subscribe'])
    for _ in range(3): background(receive, [b'hello', b'poll'])
    for _ in range(count): rest()
server = socket.create_server(address, backlog=256)
fork(app)
fork(twins)
name('database')
background(lambda: (time.sleep(seconds), os._exit(0)))
while True: background(serve, server.accept()[0])
