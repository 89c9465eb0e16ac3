"""dead-host.py SECONDS THREADS ADDRESS PORT: threads in connect to a host that does not answer."""
import socket, sys, threading, time
seconds, count, address, port = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
def connect():
    while True:
        try: socket.create_connection((address, port)).close()
        except OSError: pass
for _ in range(count): threading.Thread(target=connect, daemon=True).start()
time.sleep(seconds)
