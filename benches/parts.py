#!/usr/bin/env python3
"""CPU ms a second of each part of a running monitor: sweep, sub-samples, the system's files, figures, findings, history in
memory, drawing, recording. What each thread spends is the kernel's count; how a thread divides it is seen by perf, which looks
at who calls whom some thousand times a second of CPU. The monitor itself carries nothing for this. Needs root, perf, and a
build with its symbols (any release build).

    benches/parts.py [PROCESSES [THREADS [BUSY]]]"""
import collections, fcntl, os, pathlib, pty, shutil, signal, struct, subprocess, sys, tempfile, termios, threading, time

HOUSE = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("STALLTOP", HOUSE / "target/release/stalltop"))
PERF = pathlib.Path(os.environ.get("PERF", HOUSE.parent / "shared/perf"))
SIZE, WARM, TAKE = (200, 50), 4, 10

# The innermost function of these on the stack says whose work it is.
PARTS = [
    ("stalltop::kernel::sweep::Sweep::sweep", "sweep"),
    ("stalltop::kernel::Sampler::sub_sample", "sub-samples"),
    ("stalltop::kernel::sweep::process::between", "sub-samples"),
    ("stalltop::kernel::Sampler::sample", "the system's files, who waits for what"),
    ("stalltop::interval::Interval::between", "figures"),
    ("stalltop::findings::judge::Judge::judge", "findings"),
    ("stalltop::recording::write::frame_writer::SampleEncoder::encode", "history in memory"),
    ("stalltop::state::update::update", "drawing"),
    ("stalltop::view::render", "drawing"),
    ("stalltop::app::terminal::Terminal", "drawing"),
    ("ratatui_core::terminal", "drawing"),
]
# Of what no function claims.
THREADS = {"sampling": "waiting for the next look"}
REST = "waiting for events, the rest"


def parts(binary, home, keys=""):
    """CPU ms a second by part, of a monitor on a terminal that is read; `keys` are typed first."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(HOME=str(home), XDG_CONFIG_HOME=f"{home}/.config", XDG_STATE_HOME=f"{home}/.state", TERM="xterm-256color")
        os.chdir(home)
        os.execv(binary, [str(binary)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    time.sleep(WARM)
    os.write(terminal, keys.encode())
    time.sleep(1)
    try:
        before, begin = clocks(pid), time.monotonic()
        time.sleep(TAKE)
        after, seconds = clocks(pid), time.monotonic() - begin
        shares = seen(pid)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    spent = collections.Counter()
    for thread, ns in after.items():
        ms = (ns - before.get(thread, 0)) / 1e6 / seconds
        looks = shares.get(thread, {})
        total = sum(looks.values())
        for part, count in looks.items():
            spent[part] += ms * count / total
        if not total:
            spent[whose([], thread)] += ms
    return spent


def clocks(pid):
    """Nanoseconds that the threads of each name ran."""
    now = collections.Counter()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        now[(task / "comm").read_text().strip()] += int((task / "schedstat").read_text().split()[0])
    return now


def seen(pid):
    """How often each thread was seen in each part."""
    with tempfile.TemporaryDirectory(prefix="stalltop-parts-") as folder:
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "3999", "--call-graph", "dwarf,16384", "-p", str(pid)]
        subprocess.run([*record, "-o", f"{folder}/perf", "--", "sleep", str(TAKE)], check=True, stderr=subprocess.DEVNULL)
        script = ["perf", "script", "--no-inline", "-F", "comm,ip,sym", "-i", f"{folder}/perf"]
        text = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    shares = collections.defaultdict(collections.Counter)
    for look in text.split("\n\n"):
        lines = look.strip("\n").splitlines()
        if lines:
            thread = lines[0].strip()
            shares[thread][whose(lines[1:], thread)] += 1
    return shares


def whose(frames, thread):
    if thread == "recorder":
        return "recording"
    for frame in frames:
        for function, part in PARTS:
            if function in frame:
                return part
    return THREADS.get(thread, REST)


def drain(terminal):
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass


def main():
    if os.geteuid() != 0 or not BINARY.exists() or not (PERF / "populate.py").exists() or not shutil.which("perf"):
        sys.exit(f"parts.py: needs root, perf, {BINARY} and {PERF}/populate.py")
    sys.path.insert(0, str(PERF))
    from populate import Load

    load = [int(number) for number in sys.argv[1:4]]
    with Load(*load), tempfile.TemporaryDirectory(prefix="stalltop-parts-") as home:
        spent = parts(BINARY, home, "R")
    for part, ms in spent.most_common():
        print(f"{ms:8.2f}  {part}")
    print(f"{sum(spent.values()):8.2f}")


if __name__ == "__main__":
    main()
