#!/usr/bin/env python3
"""CPU ms per second of each part of a running stalltop: scan, sub-samples, other files, intervals, findings, history, drawing,
recording. The kernel counts what each thread uses; perf samples the stacks and shows how a thread's time divides. Needs root,
perf, and a build with symbols (any release build).

    benches/cost/parts.py [PROCESSES [THREADS [BUSY]]]"""
import collections, fcntl, os, pathlib, pty, shutil, signal, struct, subprocess, sys, tempfile, termios, threading, time

HARNESS = pathlib.Path(__file__).resolve().parent
BINARY = pathlib.Path(os.environ.get("STALLTOP", HARNESS.parent.parent / "target/release/stalltop"))
SIZE, WARM, TAKE = (200, 50), 4, 10

# The innermost of these functions on the stack decides the part.
PARTS = [
    ("stalltop::kernel::scan::TaskScanner::scan", "scan"),
    ("stalltop::kernel::Sampler::sub_sample", "sub-samples"),
    ("stalltop::kernel::scan::process::between", "sub-samples"),
    ("stalltop::kernel::Sampler::sample", "other files, waits"),
    ("stalltop::interval::Interval::between", "intervals"),
    ("stalltop::findings::", "findings"),
    ("stalltop::recording::write::frame_writer::SampleEncoder::encode", "history in memory"),
    ("stalltop::state::update::update", "drawing"),
    ("stalltop::view::render", "drawing"),
    ("stalltop::app::terminal::Terminal", "drawing"),
    ("ratatui_core::terminal", "drawing"),
]
# Where none of these functions is on the stack.
THREADS = {"sampling": "waiting for the next sub-sample"}
REST = "waiting for events, the rest"


def parts(binary, home, keys=""):
    """CPU ms per second by part, of stalltop on a terminal that is read; `keys` are typed first."""
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
        shares = stack_samples(pid)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    spent = collections.Counter()
    for thread, ns in after.items():
        ms = (ns - before.get(thread, 0)) / 1e6 / seconds
        samples = shares.get(thread, {})
        total = sum(samples.values())
        for part, count in samples.items():
            spent[part] += ms * count / total
        if not total:
            spent[part_of([], thread)] += ms
    return spent


def clocks(pid):
    """CPU ns of the threads, by thread name."""
    now = collections.Counter()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        now[(task / "comm").read_text().strip()] += int((task / "schedstat").read_text().split()[0])
    return now


def stack_samples(pid):
    """How many stack samples of each thread fell into each part."""
    with tempfile.TemporaryDirectory(prefix="stalltop-parts-") as folder:
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "3999", "--call-graph", "dwarf,16384", "-p", str(pid)]
        subprocess.run([*record, "-o", f"{folder}/perf", "--", "sleep", str(TAKE)], check=True, stderr=subprocess.DEVNULL)
        script = ["perf", "script", "--no-inline", "-F", "comm,ip,sym", "-i", f"{folder}/perf"]
        text = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    shares = collections.defaultdict(collections.Counter)
    for sample in text.split("\n\n"):
        lines = sample.strip("\n").splitlines()
        if lines:
            thread = lines[0].strip()
            shares[thread][part_of(lines[1:], thread)] += 1
    return shares


def part_of(frames, thread):
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
    if os.geteuid() != 0 or not BINARY.exists() or not shutil.which("perf"):
        sys.exit(f"parts.py: needs root, perf and {BINARY}")
    from populate import Load

    load = [int(number) for number in sys.argv[1:4]]
    with Load(*load), tempfile.TemporaryDirectory(prefix="stalltop-parts-") as home:
        spent = parts(BINARY, home, "R")
    for part, ms in spent.most_common():
        print(f"{ms:8.2f}  {part}")
    print(f"{sum(spent.values()):8.2f}")


if __name__ == "__main__":
    main()
