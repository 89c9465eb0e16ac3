"""name-lookups.py SECONDS THREADS SERVER [answer]: threads that look names up at a name server, with a resolv.conf of their own in a
mount namespace. With "answer" the server runs here and answers each query: there is no such name."""
import ctypes, os, socket, sys, tempfile, threading, time
seconds, count, server = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_PRIVATE_RECURSIVE = 0x20000, 0x1000, 0x44000
def check(result):
    if result: raise OSError(ctypes.get_errno(), "mount")
check(libc.unshare(CLONE_NEWNS))
check(libc.mount(b"none", b"/", None, MS_PRIVATE_RECURSIVE, None))
def bind(text, path):
    file = tempfile.NamedTemporaryFile("w", delete=False)
    file.write(text)
    file.close()
    os.chmod(file.name, 0o644)
    check(libc.mount(file.name.encode(), os.path.realpath(path).encode(), None, MS_BIND, None))
    os.unlink(file.name)
bind(f"nameserver {server}\n", "/etc/resolv.conf")
if os.path.exists("/etc/nsswitch.conf"): bind("hosts: files dns\n", "/etc/nsswitch.conf")
def answer(listener):
    while True:
        query, client = listener.recvfrom(4096)
        # The query, as a response: no such name.
        listener.sendto(query[:2] + b"\x81\x83" + query[4:], client)
idle = []
if "answer" in sys.argv:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((server, 53))
    threading.Thread(target=answer, args=(listener,), daemon=True).start()
    # A socket that is kept open without a lookup, beside a thread that waits for something else.
    kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    kept.connect((server, 53))
    idle.append(kept)
def look_up(number):
    attempt = 0
    while True:
        attempt += 1
        try: socket.getaddrinfo(f"host{number}-{attempt}.example.net", 80, type=socket.SOCK_STREAM)
        except OSError: pass
        if idle: time.sleep(0.2)
for number in range(count): threading.Thread(target=look_up, args=(number,), daemon=True).start()
time.sleep(seconds)
