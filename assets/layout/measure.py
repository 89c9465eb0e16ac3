#!/usr/bin/env python3
"""Makes warm.ld: the functions of a live monitor, side by side. Callgrind looks at the release build in a few worlds (asleep, at
work, in trouble, without root) and at what is on its screens; each function that ran is put down with the others of its kind:
of the start, of each second, of what is asked for. Needs root, valgrind, gcc and the project's harness (shared/perf, beside
this repository); takes four minutes.

    cargo build --release && assets/layout/measure.py

What is not in the list lies behind it, where nothing of each second is; so a list that is out of date costs memory, no more."""
import bisect, collections, contextlib, fcntl, os, pathlib, pty, re, shutil, signal, struct, subprocess, sys, tempfile, termios, threading, time

HERE = pathlib.Path(__file__).resolve().parent
HOUSE = HERE.parent.parent
BINARY = pathlib.Path(os.environ.get("STALLTOP", HOUSE / "target/release/stalltop"))
PERF = pathlib.Path(os.environ.get("PERF", HOUSE.parent / "shared/perf"))
SIZE, START, WATCHED, NOBODY = (200, 50), 12, 20, 65534

# (processes, threads, busy), as root or not, trouble or none, and the keys that are typed at the end
WORLDS = [
    ((2000, 0, 0), True, False, ""),
    ((300, 0, 100), True, True, "R123456j\r\x1b/f\x1b?"),
    ((0, 2000, 50), False, True, "23\r\x1b"),
]
# Of a generic function each instance has a name of its own only by the hash at its end. Where the others are as large as this
# (bytes), those that ran are put down with their hash, which holds for one compiler.
OTHERS = 12 << 10

TROUBLE = """
import os, threading
lock, parent = threading.Lock(), os.getppid()
def writer(place):
    file = os.open(place, os.O_CREAT | os.O_WRONLY, 0o600)
    while os.getppid() == parent:
        with lock:
            os.pwrite(file, b"x" * 4096, 0)
            os.fsync(file)
for number in range(16):
    threading.Thread(target=writer, args=(f"{os.environ['PLACE']}/{number}",)).start()
"""


@contextlib.contextmanager
def world(numbers, trouble, place):
    sys.path.insert(0, str(PERF))
    from populate import Load

    with Load(*numbers):
        writers = [sys.executable, "-c", TROUBLE] if trouble else ["sleep", "infinity"]
        busy = subprocess.Popen(writers, env=dict(os.environ, PLACE=str(place)))
        try:
            yield
        finally:
            busy.kill()
            busy.wait()


def watch(place, root, keys):
    """Addresses of the program's instructions that ran: at the start, in the seconds after it, and after the keys."""
    pid, terminal = pty.fork()
    if pid == 0:
        if not root:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        os.environ.update(HOME=str(place), XDG_STATE_HOME=str(place), TERM="xterm-256color", LC_ALL="C.UTF-8")
        os.chdir(place)
        words = ["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={place}/ran", str(place / "stalltop")]
        os.execvp(words[0], words)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    time.sleep(START)
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    base = min(int(line.split("-")[0], 16) for line in maps.splitlines() if line.endswith("/stalltop"))
    dump(pid, root)
    time.sleep(WATCHED)
    dump(pid, root)
    for key in keys:
        os.write(terminal, key.encode())
        time.sleep(3)
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    # The last is written as the program ends, and has no number.
    return [ran(place / name, base) for name in ("ran.1", "ran.2", "ran")]


def dump(pid, root):
    """Asked by who runs it: another one's, root's too, would wait for ever."""
    who = {} if root else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    words = ["callgrind_control", "--dump", str(pid)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who)


def drain(terminal):
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def ran(path, base):
    """Callgrind's positions are relative to the one before; those of other objects (libc) are left out. It counts those in
    .text from the start of the file's image, but takes .text.warm for nobody's."""
    found, objects, origin, address = set(), {}, None, 0
    for line in path.read_text().splitlines():
        if at := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?", line):
            called, number, name = at.groups()
            if name:
                objects[number] = name
            if not called:
                origin = 0 if objects[number].endswith("/stalltop") else base if objects[number] == "???" else None
        elif at := re.match(r"(0x|\+|-|\*)([0-9a-f]*) ", line):
            sign, digits = at.groups()
            step = int(digits or "0", 16 if sign == "0x" else 10)
            address = step if sign == "0x" else address + (-step if sign == "-" else step)
            if origin is not None:
                found.add(address - origin)
    return found


def symbols():
    lines = subprocess.run(["nm", "-S", str(BINARY)], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return sorted({(int(w[0], 16), int(w[1], 16), w[3]) for w in words if len(w) == 4 and w[2] in "tTwW"})


def without_hash(name):
    """The name for any compiler: both ways of writing it (legacy, v0) have a hash in it."""
    name = re.sub(r"17h[0-9a-f]{16}E(\.llvm\.\d+)?$", "17h*", name)
    return re.sub(r"Cs[0-9A-Za-z]{1,13}_", "Cs*_", name)


def patterns(all_symbols, addresses):
    """For the functions in which there are such addresses."""
    starts = [start for start, _, _ in all_symbols]
    hit = set()
    for address in addresses:
        at = bisect.bisect_right(starts, address) - 1
        if at >= 0 and address < starts[at] + all_symbols[at][1]:
            hit.add(at)
    groups = collections.defaultdict(list)
    for at, (_, _, name) in enumerate(all_symbols):
        groups[without_hash(name)].append(at)
    found = set()
    for name in {without_hash(all_symbols[at][2]) for at in hit}:
        others = sum(all_symbols[at][1] for at in groups[name] if at not in hit)
        found |= {name} if others < OTHERS else {all_symbols[at][2] for at in groups[name] if at in hit}
    return found


def script(kinds):
    lines = ["/* Which functions lie side by side. Made by measure.py, which says why; not to be edited. */", "SECTIONS", "{"]
    lines += ["  .text.warm :", "  {", "    *(.text)"]
    put = set()
    for title, names in kinds:
        lines.append(f"    /* {title} */")
        lines += [f"    *(.text.{name} .text.unlikely.{name})" for name in sorted(names - put)]
        put |= names
    return "\n".join([*lines, "  }", "}", "INSERT BEFORE .text;", ""])


def main():
    if os.geteuid() != 0 or not BINARY.exists() or not (PERF / "populate.py").exists() or not shutil.which("valgrind"):
        sys.exit(f"measure.py: needs root, valgrind, {BINARY} and {PERF}/populate.py")
    start, second, asked = set(), set(), set()
    for numbers, root, trouble, keys in WORLDS:
        with tempfile.TemporaryDirectory(prefix="stalltop-layout-") as name:
            place = pathlib.Path(name)
            shutil.copy(BINARY, place / "stalltop")
            place.chmod(0o777)
            with world(numbers, trouble, place):
                for kind, addresses in zip((start, second, asked), watch(place, root, keys)):
                    kind |= addresses
    known = symbols()
    kinds = [
        ("each second", patterns(known, second)),
        ("at the start", patterns(known, start)),
        ("where it is asked for", patterns(known, asked)),
    ]
    (HERE / "warm.ld").write_text(script(kinds))
    print(*(f"{title}: {len(names)}" for title, names in kinds), sep=", ")


if __name__ == "__main__":
    main()
