"""held.py MODE COUNT SECONDS: processes and servers that wait for a process that neither runs nor is on storage, and their harmless
counterparts.
stop, freeze: a server with COUNT clients that is stopped by SIGSTOP; by the freezer of its cgroup. stop-quiet: the same without clients.
sleep-lock: a server of four threads that sleeps under its mutex. flock-server: a server that waits for the lock of a file that another
process holds asleep. flock: COUNT processes that wait for that lock. deadlock: two processes that each hold a lock and wait for that of
the other one; ordered: the same in one order, so that the locks are passed on. mutex: COUNT threads that each sleep for 20 ms under one
mutex; mutex-short: that sleep after they released it. pool: a server of COUNT threads parked at a condition variable, with clients that
ask nothing. quota: a server that computes for each request of COUNT clients, in the cgroup lab-held (v1) with a CPU quota;
quota-quiet: it computes there without clients."""
import ctypes, fcntl, os, signal, socket, sys, threading, time
mode, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
children = []
def name(words):
    with open('/proc/self/comm', 'w') as comm: comm.write(words)
def child(work, words):
    pid = os.fork()
    if pid:
        children.append(pid)
        return pid
    ctypes.CDLL(None).prctl(1, 9)  # ends with its parent
    name(words)
    work()
    os._exit(0)
def forever():
    while True: time.sleep(1000)
lock_file = '/tmp/held-%d.lock' % os.getpid()
def hold():
    lock = open(lock_file, 'w')
    fcntl.flock(lock, fcntl.LOCK_EX)
    forever()
def queue():
    time.sleep(0.3)
    lock = open(lock_file, 'w')
    fcntl.flock(lock, fcntl.LOCK_EX)

def pair(first, second):
    """Takes two locks, and keeps both for 50 ms."""
    locks = [open(lock_file + word, 'w') for word in (first, second)]
    while True:
        for lock in locks:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if mode == 'deadlock': time.sleep(0.3)
        time.sleep(0.05)
        for lock in locks: fcntl.flock(lock, fcntl.LOCK_UN)

def sleeper():
    def turn():
        while True:
            libc.pthread_mutex_lock(mutex)
            if mode == 'mutex': time.sleep(0.02)
            libc.pthread_mutex_unlock(mutex)
            if mode != 'mutex': time.sleep(0.02)
    for _ in range(count): threading.Thread(target=turn, daemon=True).start()
    forever()

listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(256)
address = listener.getsockname()
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)  # PTHREAD_MUTEX_INITIALIZER
condition = threading.Condition()
def serve(connections):
    """Like a call of a remote service under a lock, in 100 ms."""
    while True:
        for connection in connections:
            connection.recv(4096)
            libc.pthread_mutex_lock(mutex)
            time.sleep(0.1)
            libc.pthread_mutex_unlock(mutex)
            connection.send(b'answer')
def compute(connections):
    """20 ms of CPU time for each request."""
    while True:
        for connection in connections or [None]:
            if connection: connection.recv(4096)
            end = time.process_time() + 0.02
            while time.process_time() < end: pass
            if connection: connection.send(b'answer')
def park():
    with condition: condition.wait()
def server():
    connections = [listener.accept()[0] for _ in range(0 if mode.endswith('-quiet') else count)]
    if mode == 'sleep-lock':
        for part in range(4): threading.Thread(target=serve, args=(connections[part::4],), daemon=True).start()
    elif mode.startswith('quota'):
        compute(connections)
    elif mode == 'flock-server':
        queue()
    elif mode == 'pool':
        for _ in range(count): threading.Thread(target=park, daemon=True).start()
    forever()
def clients():
    connections = []
    for _ in range(count):
        connection = socket.socket()
        connection.connect(address)
        connections.append(connection)
    if mode == 'pool': forever()
    time.sleep(0.5)
    for connection in connections: connection.send(b'question')
    while True:
        for connection in connections:
            connection.recv(64)
            connection.send(b'question')
name('held')
freezer = '/sys/fs/cgroup/freezer/lab-held'
if mode in ('flock', 'flock-server'): child(hold, 'holder')
if mode == 'flock':
    for _ in range(count): child(queue, 'worker')
elif mode.startswith('mutex'):
    child(sleeper, 'sleeper')
elif mode in ('deadlock', 'ordered'):
    child(lambda: pair('a', 'b'), 'import')
    child(lambda: pair(*('ab' if mode == 'ordered' else 'ba')), 'export')
else:
    pid = child(server, 'server')
    if not mode.endswith('-quiet'): child(clients, 'clients')
    listener.close()
    time.sleep(0.3)
    if mode.startswith('stop'): os.kill(pid, signal.SIGSTOP)
    if mode.startswith('quota'):
        with open('/sys/fs/cgroup/cpu/lab-held/cgroup.procs', 'w') as procs: procs.write(str(pid))
    if mode == 'freeze':
        os.makedirs(freezer, exist_ok=True)
        with open(freezer + '/cgroup.procs', 'w') as procs: procs.write(str(pid))
        with open(freezer + '/freezer.state', 'w') as state: state.write('FROZEN')
def end(*_):
    if mode == 'freeze':
        with open(freezer + '/freezer.state', 'w') as state: state.write('THAWED')
    for pid in children: os.kill(pid, signal.SIGKILL)
    for pid in children: os.waitpid(pid, 0)
    if mode == 'freeze': os.rmdir(freezer)
    for path in (lock_file, lock_file + 'a', lock_file + 'b'):
        if os.path.exists(path): os.unlink(path)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
time.sleep(1)
print('ready', flush=True)
time.sleep(seconds)
end()
