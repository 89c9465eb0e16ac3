#!/usr/bin/env python3
"""The time from a key to the first byte of the answer, in a real pseudo-terminal, with 10,000 threads on the screen and a process
that is blocked in a FUSE file system that never answers, as a dead mount blocks it. Needs root and gcc; prints a line a size.

    benches/cost/keys.py [-t THREADS] [-k KEYS] [--slow-mount no]"""
import argparse, ctypes, os, pathlib, random, shutil, subprocess, sys, tempfile, time

from measure import Terminal
from populate import Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("STALLTOP", str(ROOT / "target/release/stalltop"))
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
# Each changes the screen, in this order from the first row: one that changes nothing would be measured until the next sample.
KEYS = [b"j", b"j", b"k", b"j", b"\x1b[6~", b"\x1b[5~", b"g", b"1", b"5"]


def hung_mount(place):
    """Mounts it in a mount namespace of this process; returns what keeps it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        sys.exit("keys.py: no mount namespace: " + os.strerror(ctypes.get_errno()))
    daemon = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={daemon},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"dead", str(place).encode(), b"fuse", 0, options):
        sys.exit("keys.py: no FUSE: " + os.strerror(ctypes.get_errno()))
    return daemon, subprocess.Popen(["cat", str(place / "file")], stderr=subprocess.DEVNULL, cwd="/")


def answers(size, threads, keys, home):
    """Seconds from each key to the first byte, sorted."""
    env = dict(os.environ, TERM="xterm-256color", XDG_STATE_HOME=home, XDG_CONFIG_HOME=home)
    times = []
    with Load(0, threads, 0):
        terminal = Terminal([BINARY], env, size)
        try:
            terminal.read_until(time.monotonic() + 5)
            os.write(terminal.master, b"5tg")
            terminal.read_until(time.monotonic() + 3)
            for at in range(keys):
                # At all times between two samples, and not while the answer to the last one is still written.
                terminal.read_until(time.monotonic() + random.uniform(0.04, 0.14))
                before, begin = terminal.total, time.monotonic()
                os.write(terminal.master, KEYS[at % len(KEYS)])
                while terminal.total == before and time.monotonic() < begin + 5:
                    terminal.read_until(time.monotonic() + 0.0002)
                times.append(time.monotonic() - begin)
        finally:
            terminal.end()
    return sorted(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-t", type=int, default=10_000, help="threads")
    parser.add_argument("-k", type=int, default=500, help="keys for each size")
    parser.add_argument("--slow-mount", choices=["yes", "no"], default="yes")
    options = parser.parse_args()
    place = pathlib.Path(tempfile.mkdtemp(prefix="stalltop-keys-"))
    (place / "dead").mkdir()
    daemon, stuck = hung_mount(place / "dead") if options.slow_mount == "yes" else (None, None)
    try:
        for size in [(80, 24), (200, 50)]:
            times = answers(size, options.t, options.k, str(place / f"home-{size[0]}"))
            at = lambda share: times[min(len(times) - 1, int(share * len(times)))] * 1000
            print(f"{size[0]}×{size[1]}, {options.t} threads, {len(times)} keys: median {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, longest {at(1):.1f} ms", flush=True)
    finally:
        if stuck:
            # Without its daemon the file system fails all requests.
            os.close(daemon)
            stuck.wait()
            subprocess.run(["umount", "-l", str(place / "dead")])
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
