//! Servers and processes that wait for a process that neither runs nor is on storage (loads/held.py), and their counterparts.

use std::path::Path;
use std::process::Command;

use crate::attempt::Attempt;
use crate::check_result::CheckResult;
use crate::disk_load::{Cgroup, Load};
use crate::scenario::Lab;

fn check(mode: &str, count: u32, verify: impl FnMut(&mut CheckResult)) {
    let Some(_lab) = Lab::open(&["python3"]) else { return };
    check_load(mode, count, verify);
}

/// The caller has opened the lab.
fn check_load(mode: &str, count: u32, mut verify: impl FnMut(&mut CheckResult)) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/held.py");
    let mut command = Command::new("python3");
    command.arg(source).args([mode, &count.to_string(), "60"]);
    let _load = Load::start(command);
    let state = tempfile::tempdir().expect("a folder");
    Attempt { seconds: 5, ..Attempt::new(&format!("held-{mode}"), state.path()) }.check(|_, said| verify(said));
}

#[test]
fn connections_of_a_stopped_server() {
    check("stop", 50, |said| {
        let stuck = said.must("stuck-server", "server", "critical");
        said.evidence(&stuck, "waiting_connections", 50.0, 50.0);
        said.says(&stuck, &["server (", ") is stopped (SIGSTOP)", ": 50 connections wait for it"]);
    });
}

#[test]
fn a_stopped_process_without_clients() {
    if !crate::long() {
        return;
    }
    check("stop-quiet", 1, |said| said.must_not("stuck-server"));
}

/// A quota of 0.2 CPU, and a server that computes for 20 ms of CPU time per request: its clients are outside its cgroup.
#[test]
fn connections_of_a_server_that_its_quota_throttles() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["python3"]) else { return };
    let Some(group) = Cgroup::make("cpu", "lab-held") else { return };
    group.write("cpu.cfs_quota_us", "20000");
    check_load("quota", 30, |said| {
        let throttled = said.must("cpu-throttled", "lab-held", "warning");
        said.evidence(&throttled, "waiting_connections", 25.0, 30.0);
        said.says(&throttled, &["in it: server (", " connections wait for server ("]);
    });
    check_load("quota-quiet", 1, |said| {
        let throttled = said.must("cpu-throttled", "lab-held", "warning");
        said.evidence(&throttled, "waiting_connections", 0.0, 0.0);
    });
}

/// Four threads; the holder of their mutex sleeps for 100 ms at a time.
#[test]
fn connections_of_a_server_that_sleeps_under_its_mutex() {
    if !crate::long() {
        return;
    }
    check("sleep-lock", 40, |said| {
        let stuck = said.must("stuck-server", "server", "warning");
        // Ten are answered in a second, and do not count for a while then.
        said.evidence(&stuck, "waiting_connections", 20.0, 40.0);
        // It holds it for 100 ms: each of them in turn.
        let holder = ["threads wait for a mutex, held by server/", ", which sleeps for a fixed time (clock_nanosleep); "];
        said.says(&stuck, &[&holder[..], &["connections wait for it"]].concat());
    });
}

#[test]
fn connections_of_a_server_behind_the_file_lock_of_a_process_that_sleeps() {
    if !crate::long() {
        return;
    }
    check("flock-server", 10, |said| {
        let stuck = said.must("stuck-server", "server", "warning");
        said.evidence(&stuck, "waiting_connections", 10.0, 10.0);
        said.says(&stuck, &["1 thread waits for the lock of /tmp/held-", ", held by holder (", "; 10 connections wait for it"]);
        said.must_not("file-lock-queue");
    });
}

#[test]
fn processes_behind_the_file_lock_of_a_process_that_sleeps() {
    check("flock", 6, |said| {
        let queue = said.must("file-lock-queue", "worker", "warning");
        said.evidence(&queue, "waiting_threads", 5.9, 6.1);
        said.says(&queue, &["6 threads of worker (6 processes) wait for the lock of /tmp/held-", ", held by holder ("]);
        said.must_not("stuck-server");
    });
}

/// They are siblings of one executable, so that only one of the two queues is known.
#[test]
fn two_processes_in_a_deadlock() {
    check("deadlock", 2, |said| {
        let queue = said.must("file-lock-queue", "import", "warning");
        said.says(&queue, &["2 threads of", "wait for the lock of /tmp/held-", "which waits for the lock of a file itself"]);
    });
}

#[test]
fn two_processes_that_pass_two_locks_on() {
    if !crate::long() {
        return;
    }
    check("ordered", 2, |said| said.must_not("file-lock-queue"));
}

/// Threads at a condition variable, and connections on which nothing is asked.
#[test]
fn a_parked_pool_with_silent_clients() {
    check("pool", 20, |said| {
        said.must_not("stuck-server");
        said.must_not("file-lock-queue");
        said.must_not("idle-but-blocked");
    });
}

/// Thirty threads; the holder of their mutex sleeps for 20 ms at a time, and no client asks.
#[test]
fn a_mutex_whose_holder_sleeps() {
    if !crate::long() {
        return;
    }
    check("mutex", 30, |said| {
        let blocked = said.must("idle-but-blocked", "host", "critical");
        // A look at the moment of a hand-over names no holder, so that the count is a lower bound.
        said.evidence(&blocked, "blocked_threads", 24.0, 29.5);
        said.says(
            &blocked,
            &["sleeper (", "threads wait for a lock (one mutex, by the futex call) behind ", "which sleeps for a fixed time"],
        );
        said.must_not("mutex-queue");
    });
}

/// The same threads, each of which sleeps after it has released the mutex.
#[test]
fn a_mutex_that_is_held_shortly() {
    if !crate::long() {
        return;
    }
    check("mutex-short", 30, |said| {
        said.must_not("mutex-queue");
        said.must_not("idle-but-blocked");
    });
}

/// dd in a loop of reads and writes, and what is attached to it.
fn traced(tracer: &str, verify: impl Fn(&mut CheckResult)) {
    let name = tracer.split(' ').next().unwrap_or_default();
    let Some(_lab) = Lab::open(&["dd", name]) else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "dd if=/dev/zero of=/dev/null bs=512 2>/dev/null & exec $TRACER $! >/dev/null 2>&1"]);
    let _load = Load::start_silent(command.env("TRACER", tracer));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let state = tempfile::tempdir().expect("a folder");
    Attempt { seconds: 5, ..Attempt::new(&format!("traced-{name}"), state.path()) }.check(|_, said| verify(said));
}

#[test]
fn a_process_under_strace() {
    traced("strace -f -o /dev/null -p", |said| {
        let traced = said.must("traced-process", "dd", "warning");
        said.says(&traced, &["dd (", ") is traced by strace (", "stopped ", "of the time, at system calls or signals"]);
    });
}

/// perf counts the same process, and stops nothing.
#[test]
fn a_process_under_perf() {
    if !crate::long() {
        return;
    }
    traced("perf stat -p", |said| said.must_not("traced-process"));
}
