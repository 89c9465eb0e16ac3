#!/usr/bin/env python3
"""What stuck threads cost: CPU ms per refresh with 64 threads parked on a condition variable, in which nothing is wrong, and with 64
behind one mutex, without and with a timeout, and where the holder sleeps 100 ms at a time. The loads are measured in turn, so that a
change of the machine's speed meets all of them. Needs root, gcc and a release build (or STALLTOP=path).

    benches/cost/stuck.py [ROUNDS]"""
import os, pathlib, statistics, subprocess, sys, tempfile

HARNESS = pathlib.Path(__file__).resolve().parent
ROOT = HARNESS.parent.parent
BINARY = pathlib.Path(os.environ.get("STALLTOP", ROOT / "target/release/stalltop"))
sys.path.insert(0, str(HARNESS))
SIZE, WARM, TAKE, THREADS = (200, 50), 12, 10, 64

# name, mode of tests/lab/loads/mutexes.c
LOADS = [
    ("parked on a condition variable: nothing is wrong", "condition"),
    ("behind one mutex whose holder sleeps for long", "long-sleep"),
    ("the same, in a deadlock of two", "deadlock"),
    ("behind one mutex that is handed over every 100 ms", "sleep"),
    ("the same, with a timeout", "timed"),
]


def stuck(binary, program, rounds):
    """By load, the CPU ms per refresh of each round."""
    import measure

    found = {name: [] for name, _ in LOADS}
    for _ in range(rounds):
        for name, mode in LOADS:
            load = subprocess.Popen([program, mode, str(THREADS), "600"], stdout=subprocess.PIPE)
            try:
                load.stdout.readline()
                found[name].append(measure.run("", {"cmd": [str(binary)]}, SIZE, TAKE, WARM, False))
            finally:
                load.kill()
                load.wait()
    return found


def compile_load(folder):
    program = f"{folder}/mutexes"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, str(ROOT / "tests/lab/loads/mutexes.c")], check=True)
    return program


def table(found):
    lines = [f"| {THREADS} threads | CPU ms per refresh, median | lowest, highest | more than where nothing is wrong |", "| --- | --: | --: | --: |"]
    first = None
    for name, runs in found.items():
        cpu = [run["cpu_ms"] for run in runs if "error" not in run]
        if not cpu:
            lines.append(f"| {name} | {runs[0].get('error', '-')[:60]} | | |")
            continue
        middle = statistics.median(cpu)
        first = middle if first is None else first
        lines.append(f"| {name} | {middle:.2f} | {min(cpu):.2f}, {max(cpu):.2f} | {middle - first:+.2f} |")
    return "\n".join(lines)


def main():
    if os.geteuid() != 0 or not BINARY.exists():
        sys.exit(f"stuck.py: needs root and {BINARY}")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory(prefix="stalltop-stuck-") as folder:
        print(table(stuck(BINARY, compile_load(folder), rounds)))


if __name__ == "__main__":
    main()
