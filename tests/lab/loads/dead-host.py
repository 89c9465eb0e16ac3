"""dead-host.py SECONDS THREADS ADDRESS PORT [TIMEOUT]: threads in connect to a host that does not answer; with a timeout in poll, and
again and again."""
import socket, sys, threading, time
seconds, count, address, port = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
timeout = float(sys.argv[5]) if len(sys.argv) > 5 else None
def connect():
    while True:
        try: socket.create_connection((address, port), timeout).close()
        except OSError: pass
for _ in range(count):
    threading.Thread(target=connect, daemon=True).start()
    # Attempts of all threads at one moment would keep step with the samples.
    if timeout: time.sleep(timeout / count)
time.sleep(seconds)
