"""udp-overflow.py SECONDS ADDRESS PORT RATE READ_RATE: a socket that reads READ_RATE datagrams per second, and a sender of RATE. The
reader is a process of its own, named collector."""
import ctypes, os, signal, socket, sys, time
seconds, address, port, rate, read_rate = float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
reader = socket.socket(family, socket.SOCK_DGRAM)
reader.bind((address, port))
end = time.monotonic() + seconds
def at_rate(rate, step):
    done, begin = 0, time.monotonic()
    while (now := time.monotonic()) < end:
        while done < (now - begin) * rate:
            step()
            done += 1
        time.sleep(0.01)
if os.fork() == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its parent
    with open('/proc/self/comm', 'w') as name: name.write('collector')
    reader.settimeout(0.5)
    def receive():
        try: reader.recv(2048)
        except TimeoutError: pass
    at_rate(read_rate, receive)
    os._exit(0)
with open('/proc/self/comm', 'w') as name: name.write('exporter')
reader.close()
sender = socket.socket(family, socket.SOCK_DGRAM)
at_rate(rate, lambda: sender.sendto(b'x' * 1000, (address, port)))
