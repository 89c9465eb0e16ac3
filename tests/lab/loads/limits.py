"""limits.py MODE SECONDS: work that a limit of the kernel fails. MODE: tasks (a cgroup with pids.max 40, whose forks fail), tasks-few
(half as many, none fails), files (a process with all descriptors that it may open), files-many (three quarters of them), ports and
ports-few (connections from all or half of the local ports to one port; changes net.ipv4.ip_local_port_range: only inside a network
namespace of its own)."""
import glob, os, resource, signal, socket, sys, time
mode, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds
def title(name):
    with open('/proc/self/comm', 'w') as file: file.write(name)
def pids_group():
    for line in open('/proc/self/mountinfo'):
        fields, rest = line.split(' - ')
        kind, _, options = rest.split()[:3]
        if kind == 'cgroup' and 'pids' in options.split(','): return fields.split()[4]
    for line in open('/proc/self/mountinfo'):
        if ' - cgroup2 ' in line: return line.split()[4]
if mode.startswith('tasks'):
    title('forker')
    for old in glob.glob(os.path.join(pids_group(), 'stalltop-limits-*')):
        try: os.rmdir(old)
        except OSError: pass
    group = os.path.join(pids_group(), f'stalltop-limits-{os.getpid()}')
    os.mkdir(group)
    children = []
    def leave(*_):
        for child in children: os.kill(child, signal.SIGKILL)
        for child in children: os.waitpid(child, 0)
        with open(os.path.join(os.path.dirname(group), 'cgroup.procs'), 'w') as file: file.write(str(os.getpid()))
        os.rmdir(group)
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    with open(os.path.join(group, 'pids.max'), 'w') as file: file.write('40')
    with open(os.path.join(group, 'cgroup.procs'), 'w') as file: file.write(str(os.getpid()))
    def child():
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(seconds)
            os._exit(0)
        children.append(pid)
    for _ in range(39 if mode == 'tasks' else 25): child()
    print('ready', flush=True)
    while time.monotonic() < end:
        try:
            if mode == 'tasks': child()
        except OSError: pass
        time.sleep(0.1)
    leave()
elif mode.startswith('files'):
    title('opener')
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    opened = []
    def open_all():
        try:
            while mode == 'files' or len(opened) < 150: opened.append(os.open('/dev/null', os.O_RDONLY))
        except OSError: pass
    open_all()
    print('ready', flush=True)
    while time.monotonic() < end:
        open_all()
        time.sleep(0.1)
elif mode.startswith('ports'):
    title('client')
    with open('/proc/sys/net/ipv4/ip_local_port_range', 'w') as file: file.write('40000 40999')
    server = socket.create_server(('127.0.0.1', 15432), backlog=4096)
    kept = []
    def connect_all():
        try:
            while mode == 'ports' or len(kept) < 1000:
                kept.append(socket.create_connection(('127.0.0.1', 15432)))
                kept.append(server.accept()[0])
        except OSError: pass
    connect_all()
    print('ready', flush=True)
    while time.monotonic() < end:
        connect_all()
        time.sleep(0.1)
