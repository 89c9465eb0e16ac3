"""clients.py PORT FOLDER SECONDS COUNT: threads that ask a server and wait for its answer, beside one that commits."""
import os
import socket
import sys
import threading
import time


def ask(port):
    connection = socket.create_connection(("127.0.0.1", port))
    while True:
        connection.sendall(b"?")
        connection.recv(1)


def commit(path):
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        os.pwrite(file, b"x" * 4096, 0)
        os.fsync(file)


def main():
    port, folder, seconds, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    for _ in range(count):
        threading.Thread(target=ask, args=(port,), daemon=True).start()
    threading.Thread(target=commit, args=(folder + "/clients",), daemon=True).start()
    print("ready", flush=True)
    time.sleep(seconds)


main()
