#!/usr/bin/env python3
"""The table of docs/cost.md, measured: what stalltop costs beside other monitors, as root and not, by its parts and with a
recording running. Needs root, gcc, perf, the harness (shared/perf, beside this repository, or PERF=) and a release build (or
STALLTOP=); the peers that are not installed are left out. Takes ten minutes on a quiet machine; a busy one shows in `load`.

    cargo build --release && benches/cost.py > table.md"""
import os, pathlib, shutil, subprocess, sys, tempfile, time

import parts

HOUSE = pathlib.Path(__file__).resolve().parent.parent
PERF = pathlib.Path(os.environ.get("PERF", HOUSE.parent / "shared/perf"))
BINARY = pathlib.Path(os.environ.get("STALLTOP", HOUSE / "target/release/stalltop"))
# The first seconds cost more: what is slow to be read of each process is read in portions.
SIZE, WARM, TAKE = (200, 50), 15, 10
NOBODY = "65534"

# name, processes asleep, threads of one process, busy ones among the processes, goal as root and not, peers beside it
LOADS = [
    ("200 processes", 200, 0, 0, 2, 2.5, ["top", "htop", "btop"]),
    ("2,000 processes, asleep", 2000, 0, 0, 4, 8, ["top", "htop", "btop"]),
    ("2,000 processes, 100 of them busy", 2000, 0, 100, 6, 12, []),
    ("10,000 threads in one process, asleep", 0, 10000, 0, 8, 8, []),
    ("2,000 processes + 10,000 threads", 2000, 10000, 0, 12, 20, ["top-H"]),
    # benches/threads.c, not the harness's
    ("10,000 threads, 50 of them running now and then", 0, (10000, 50), 0, 10, 45, []),
]


def main():
    if os.geteuid() != 0 or not BINARY.exists() or not (PERF / "measure.py").exists():
        sys.exit(f"cost.py: needs root, {BINARY} and {PERF}/measure.py")
    place = pathlib.Path(tempfile.mkdtemp(prefix="stalltop-cost-"))
    place.chmod(0o755)
    binary = place / "stalltop"
    shutil.copy(BINARY, binary)
    homes = {who: home(place / who) for who in ("root", "nobody", "recording")}
    shutil.chown(homes["nobody"], int(NOBODY), int(NOBODY))
    os.environ["PERF_HOME"] = str(homes["root"])
    sys.path.insert(0, str(PERF))
    import json, measure
    from populate import Load

    others = json.loads((PERF / "peers.json").read_text())
    drop = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", str(binary)]
    specs = {
        "root": {"cmd": [str(binary)], "env": places(homes["root"])},
        "nobody": {"cmd": drop, "env": places(homes["nobody"])},
        "recording": {"cmd": [str(binary)], "env": places(homes["recording"]), "keys": ["R"]},
    }
    try:
        print("CPU ms a refresh at 1 s, 200×50, with peak RSS and what reaches the terminal:\n")
        print("| load | root | goal | not root | goal | RSS MiB | B a refresh | first screen ms | peers in the same run | load |")
        print("| --- | --: | --: | --: | --: | --: | --: | --: | --- | --: |", flush=True)
        for name, processes, threads, busy, goal, goal_nobody, peers in LOADS:
            with load(place, Load, processes, threads, busy):
                run = lambda spec: measure.run("", spec, SIZE, TAKE, WARM, False)
                root, nobody = run(specs["root"]), run(specs["nobody"])
                beside = [f"{peer} {said(run(others[peer]), 'cpu_ms')}" for peer in peers]
                rss = root.get("hwm_kib", 0) / 1024
                print(
                    f"| {name} | {said(root, 'cpu_ms')} | {goal} | {said(nobody, 'cpu_ms')} | {goal_nobody} | {rss:.1f} "
                    f"| {said(root, 'tty_B')} | {said(root, 'ttff_ms')} | {', '.join(beside)} | {os.getloadavg()[0]:.1f} |",
                    flush=True,
                )
        with Load(2000, 0, 100):
            plain, recording = [measure.run("", specs[spec], SIZE, TAKE, WARM, False) for spec in ("root", "recording")]
            print(f"\n2,000 processes, 100 busy: {said(plain, 'cpu_ms')} ms, {said(recording, 'cpu_ms')} ms with a recording.")
        print("\nBy part, CPU ms a second, a recording running (benches/parts.py):\n")
        tables = []
        for _, processes, threads, busy, *_ in LOADS:
            with load(place, Load, processes, threads, busy):
                tables.append(parts.parts(binary, homes["root"], "R"))
        print("| part |" + "".join(f" {name} |" for name, *_ in LOADS) + "\n| --- |" + " --: |" * len(LOADS))
        for part in sorted(set().union(*tables), key=lambda part: -tables[2][part]):
            print(f"| {part} |" + "".join(f" {table[part]:.2f} |" for table in tables))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def load(place, Load, processes, threads, busy):
    return Threads(place, *threads) if isinstance(threads, tuple) else Load(processes, threads, busy)


class Threads:
    """A process of so many threads, some of which wake ten times a second."""

    def __init__(self, place, threads, busy):
        self.words = [str(place / "threads"), str(threads), str(busy)]
        subprocess.run(["gcc", "-O2", "-pthread", "-o", self.words[0], str(HOUSE / "benches/threads.c")], check=True)

    def __enter__(self):
        self.process = subprocess.Popen(self.words)
        time.sleep(3)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def home(path):
    path.mkdir()
    return path


def places(directory):
    return {"HOME": str(directory), "XDG_CONFIG_HOME": f"{directory}/.config", "XDG_STATE_HOME": f"{directory}/.state"}


def said(result, what):
    return result.get("error", "-")[:60] if result.get(what) is None else str(result[what])


if __name__ == "__main__":
    main()
