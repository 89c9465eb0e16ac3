#!/usr/bin/env python3
"""Measures the table of docs/cost.md: CPU, memory and terminal bytes per refresh, as root and as another user, beside other
monitors, by part, and with a recording running. Needs root, gcc, perf and a release build (or STALLTOP=path); monitors that
are not installed are left out. Takes ten minutes on an idle machine; the column `load` shows whether it was idle.

    cargo build --release && benches/cost.py > table.md

benches/cost/README.md describes the parts, each of which can be run alone."""
import argparse, os, pathlib, shutil, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HARNESS = ROOT / "benches/cost"
BINARY = pathlib.Path(os.environ.get("STALLTOP", ROOT / "target/release/stalltop"))
sys.path.insert(0, str(HARNESS))
# The first samples cost more: the expensive files of each process are read over several samples.
SIZE, WARM, TAKE = (200, 50), 15, 10
NOBODY = "65534"

# name, sleeping processes, threads of one process, busy processes among them, bound as root and as another user, other monitors
LOADS = [
    ("200 processes", 200, 0, 0, 3, 3, ["top", "htop", "btop"]),
    ("2,000 processes, asleep", 2000, 0, 0, 6, 8, ["top", "htop", "btop"]),
    ("2,000 processes, 100 of them busy", 2000, 0, 100, 9, 12, []),
    ("10,000 threads in one process, asleep", 0, 10000, 0, 8, 8, []),
    ("2,000 processes + 10,000 threads", 2000, 10000, 0, 12, 20, ["top-H"]),
    # made by threads.c, not by populate.c
    ("10,000 threads, 50 of them running now and then", 0, (10000, 50), 0, 10, 45, []),
]


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if os.geteuid() != 0 or not BINARY.exists() or not shutil.which("perf"):
        sys.exit(f"cost.py: needs root, perf and {BINARY}")
    place = pathlib.Path(tempfile.mkdtemp(prefix="stalltop-cost-"))
    place.chmod(0o755)
    binary = place / "stalltop"
    shutil.copy(BINARY, binary)
    homes = {name: home(place / name) for name in ("root", "nobody", "recording")}
    shutil.chown(homes["nobody"], int(NOBODY), int(NOBODY))
    os.environ["PERF_HOME"] = str(homes["root"])
    import json, measure, parts, stuck
    from populate import Load

    others = json.loads((HARNESS / "peers.json").read_text())
    drop = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", str(binary)]
    specs = {
        "root": {"cmd": [str(binary)], "env": places(homes["root"])},
        "nobody": {"cmd": drop, "env": places(homes["nobody"])},
        "recording": {"cmd": [str(binary)], "env": places(homes["recording"]), "keys": ["R"]},
    }
    try:
        print("CPU ms per refresh (1 s, 200×50), peak RSS, bytes to the terminal:\n")
        print("| load | root | bound | not root | bound | RSS MiB | bytes per refresh | first screen ms | other monitors in the same run | load |")
        print("| --- | --: | --: | --: | --: | --: | --: | --: | --- | --: |", flush=True)
        for name, processes, threads, busy, bound, bound_nobody, peers in LOADS:
            with load(place, Load, processes, threads, busy):
                run = lambda spec: measure.run("", spec, SIZE, TAKE, WARM, False)
                root, nobody = run(specs["root"]), run(specs["nobody"])
                beside = [f"{peer} {value(run(others[peer]), 'cpu_ms')}" for peer in peers]
                rss = root.get("hwm_kib", 0) / 1024
                print(
                    f"| {name} | {value(root, 'cpu_ms')} | {bound} | {value(nobody, 'cpu_ms')} | {bound_nobody} | {rss:.1f} "
                    f"| {value(root, 'tty_B')} | {value(root, 'ttff_ms')} | {', '.join(beside)} | {os.getloadavg()[0]:.1f} |",
                    flush=True,
                )
        with Load(2000, 0, 100):
            plain, recording = [measure.run("", specs[spec], SIZE, TAKE, WARM, False) for spec in ("root", "recording")]
            print(f"\n2,000 processes, 100 busy: {value(plain, 'cpu_ms')} ms, {value(recording, 'cpu_ms')} ms with a recording.")
        print("\n" + stuck.table(stuck.stuck(binary, stuck.compile_load(place), 3)))
        print("\nBy part, CPU ms per second, with a recording running (benches/cost/parts.py):\n")
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
    """A process with many threads, of which `busy` wake ten times a second."""

    def __init__(self, place, threads, busy):
        self.words = [str(place / "threads"), str(threads), str(busy)]
        subprocess.run(["gcc", "-O2", "-pthread", "-o", self.words[0], str(HARNESS / "threads.c")], check=True)

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


def value(result, what):
    return result.get("error", "-")[:60] if result.get(what) is None else str(result[what])


if __name__ == "__main__":
    main()
