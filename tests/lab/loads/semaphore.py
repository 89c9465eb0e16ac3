"""semaphore.py FOLDER SECONDS COUNT: one process per connection and one semaphore in shared memory, whose holder commits."""
import multiprocessing
import os
import sys
import time


def serve(semaphore, path):
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        with semaphore:
            os.pwrite(file, b"x" * 4096, 0)
            os.fsync(file)


def main():
    folder, seconds, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fork = multiprocessing.get_context("fork")
    semaphore = fork.Semaphore(1)
    for _ in range(count):
        fork.Process(target=serve, args=(semaphore, folder + "/python"), daemon=True).start()
    print("ready", flush=True)
    time.sleep(seconds)


main()
