//! Wait chains, on loads whose chain is known by construction (loads/load.c).
//!
//! They run on a simulated disk (loads/disk.sh): a flush takes 10 ms, a read 2 ms, a write 0.5 ms, eight at once.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};

use crate::disk_load::{Cgroup, DiskLoad, Load, link, link_by_one_of};
use crate::long;
use crate::proc::{FLUSHES_COMPLETED, IN_FLIGHT, READS_COMPLETED, Stat, WRITES_COMPLETED, diskstat, processes, read};
use crate::watch::Place;

/// Eight processes and one lock file, whose holder commits: /proc/locks names the holder, its descriptor the file, the mount the
/// disk.
#[test]
fn processes_behind_the_lock_of_a_file() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let _load = ground.start("flock", 8);
    ground.until(FLUSHES_COMPLETED, 20);
    ground.check("flock", 5, |window, said| {
        let truth = window.disk(&ground.device);
        window.known("flush await", truth.flush_await, 0.0095, 0.0125);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.word(&stuck, "group", "load");
        said.word(&stuck, "device", &ground.device);
        said.word(&stuck, "limit", "flushes");
        said.word(&stuck, "chain_confidence", "high");
        let await_each = window.each(|span| span.disk(&ground.device).flush_await);
        said.evidence_in(&stuck, "limit_await_seconds", await_each.within(0.05));
        let waiters = window.readings(|place| place.channel == "locks_lock_inode_wait");
        said.evidence(&stuck, "group_behind_lock_threads", waiters.least - 0.5, 7.2);
        let holders = window.readings(|place| place.state == 'D');
        // One sub-sample of seven in which the next process is there already.
        said.evidence(&stuck, "group_on_storage_threads", holders.least.min(0.5), holders.most + 0.2);
        // The lock goes from process to process: a waiter may be its holder by the time /proc/locks is read.
        link(said, &stuck, &format!("wait for the lock of {}", ground.file("lock")), "the wait channel");
        link_by_one_of(said, &stuck, "fsync (", &["the kernel names its process", "inference: the thread seen on storage"]);
        link(said, &stuck, &format!("{}, on {}", ground.file("data"), ground.folder.display()), "descriptor");
        link(said, &stuck, &format!("{}: f_await 1", ground.device), "the mount of that file");
    });
}

/// The same with one process that keeps the lock and goes on committing: /proc/locks must name it.
#[test]
fn processes_behind_a_lock_that_is_kept() {
    if !crate::long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open() else { return };
    let _load = ground.start("flock-held", 8);
    ground.until(FLUSHES_COMPLETED, 20);
    let holder = holder_of_a_file_lock("load");
    ground.check("flock-held", 5, |window, said| {
        let truth = window.disk(&ground.device);
        window.known("flush await", truth.flush_await, 0.0095, 0.0125);
        window.known("waiters", window.mean(|place| place.channel == "locks_lock_inode_wait"), 6.9, 7.1);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.evidence(&stuck, "group_behind_lock_threads", 6.9, 7.1);
        said.evidence(&stuck, "holder_tid", f64::from(holder), f64::from(holder));
        said.word(&stuck, "chain_confidence", "high");
        link(said, &stuck, &format!("7 wait for the lock of {}", ground.file("lock")), "the wait channel and /proc/locks");
        link(said, &stuck, &format!("load/{holder} in fsync ("), "the kernel names its process");
        link(
            said,
            &stuck,
            &format!("{}, on {}", ground.file("data"), ground.folder.display()),
            "the file descriptor of its system call",
        );
        link(said, &stuck, &format!("{}: f_await 1", ground.device), "the mount of that file");
    });
}

/// The holder of the file lock that processes of this name wait for, by /proc/locks.
fn holder_of_a_file_lock(comm: &str) -> u32 {
    let locks = read("/proc/locks");
    let lines: Vec<Vec<&str>> = locks.lines().map(|line| line.split_whitespace().collect()).collect();
    let named = |pid: &str| read(&format!("/proc/{pid}/comm")).trim() == comm;
    let waits = lines.iter().find(|words| words.get(1) == Some(&"->") && words.get(5).is_some_and(|pid| named(pid)));
    let number = waits.map(|words| words[0]).expect("a process that waits");
    let holds = lines.iter().find(|words| words[0] == number && words[1] != "->").expect("a process that has it");
    holds[4].parse().expect("its pid")
}

/// Eight threads that append to one file directly: the inode's lock is held over the write (wait channel
/// ext4_file_write_iter, seven of them; __iomap_dio_rw, one).
#[test]
fn threads_behind_a_lock_of_the_kernel() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let _load = ground.start("append", 8);
    ground.until(WRITES_COMPLETED, 200);
    ground.check("append", 5, |window, said| {
        let waits = |place: &Place| place.channel == "ext4_file_write_iter";
        window.known("threads in ext4_file_write_iter", window.mean(waits), 5.0, 7.2);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.evidence_in(&stuck, "group_behind_lock_threads", window.readings(waits).give_or_take(0.6));
        let holders = window.readings(|place| place.state == 'D' && !waits(place));
        // The ten readings of one second, of which six to eight find one there, are few; those of all seconds are enough.
        said.evidence(&stuck, "group_on_storage_threads", 0.15, holders.most + 0.6);
        said.figure_is("blocked_threads", window.mean(|place| place.state == 'D'), 0.7);
        // The owner field, where a sub-sample finds one.
        let known_by = ["inference: the thread seen on storage", "the owner field of the kernel's rw-semaphore"];
        link_by_one_of(said, &stuck, "append/", &known_by);
        said.word(&stuck, "device", &ground.device);
        link(said, &stuck, "a lock inside the kernel", "the wait channel");
        said.must_not("hung-task");
    });
}

/// Six clients send requests to one server over pipes, or sockets, and wait for its answer; it commits first. All are children of one
/// parent.
#[test]
fn clients_behind_their_server() {
    let Some(mut ground) = DiskLoad::open() else { return };
    for mode in ["pipe", "socket"] {
        if mode == "socket" && !long() {
            continue;
        }
        let _load = ground.start(mode, 6);
        ground.until(FLUSHES_COMPLETED, 20);
        ground.check(mode, 5, |window, said| {
            let waits = |place: &Place| place.comm == "load" && place.state == 'S' && place.channel != "poll_schedule_timeout";
            // The main thread sleeps, too.
            let waiters = window.readings(waits).least - 1.0;
            let stuck = said.must("idle-but-blocked", "host", "critical");
            said.evidence(&stuck, "group_behind_peer_threads", waiters.min(4.0), 6.2);
            link(said, &stuck, &format!("the other end of a {mode}"), "the processes at the other end");
        });
    }
}

/// What must not be counted: workers that read from the pipe of a dispatcher, threads and processes; idle threads of a Go
/// runtime; condition variables of musl; rings with nothing in them. Beside each one thread that commits for itself.
#[test]
fn idle_pools_beside_a_thread_with_unrelated_io() {
    if !crate::long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open() else { return };
    for mode in ["pool", "pools", "go", "musl", "ring"] {
        let _load = ground.start(mode, 16);
        ground.until(FLUSHES_COMPLETED, 20);
        ground.check(mode, 3, |window, said| {
            window.known("threads in D", window.threads("unrelated", 'D'), 0.7, 1.1);
            said.figure("blocked_threads", 0.6, 1.25);
            said.at_most_a_note("idle-but-blocked", "host");
        });
    }
}

/// An io_uring service with requests that never complete: iowait and PSI are high, and nothing waits for storage.
#[test]
fn an_idle_io_uring_service_that_counts_as_iowait() {
    let Some(ground) = DiskLoad::open() else { return };
    let _load = ground.start("ring-waits", 4);
    ground.check("ring-waits", 5, |window, said| {
        let ticks = window.ticks("cpu");
        let iowait = ticks.share(ticks.iowait);
        // A CPU is counted where one of them went to sleep last.
        window.known("iowait", iowait, 0.4, 1.0);
        window.known("rings", window.mean(|place| place.channel == "io_cqring_wait"), 3.9, 4.1);
        window.known("requests on disks", window.each(|span| span.disk(&ground.device).queue).most, 0.0, 0.01);
        said.figure_is("iowait_ratio", iowait, 0.05);
        said.figure("idle_but_blocked_ratio", 0.0, 0.02);
        said.figure("free_ratio", 0.9, 1.0);
        said.must_not("idle-but-blocked");
        said.cross_check_says(&["nothing in flight", "an io_uring artefact of load (", "ignore it"]);
        said.nothing_wrong_but(&[]);
    });
}

/// A mutex whose holder uses CPU time: no thread is blocked on storage, but the holder is known.
#[test]
fn a_convoy_behind_a_busy_holder() {
    let Some(ground) = DiskLoad::open() else { return };
    let _load = ground.start("burn", 16);
    ground.check("burn", 4, |_, said| {
        said.figure("idle_but_blocked_ratio", 0.4, 0.52);
        let blocked = said.must("idle-but-blocked", "host", "warning");
        said.says(&blocked, &["wait for a lock", "behind burner/", ", which computes while it holds the lock"]);
    });
}

/// Blocked for 30 ms of each 100 ms, periodically: sub-samples with a fixed period would see it always, or never.
#[test]
fn a_writer_in_step_with_the_sub_samples() {
    if !crate::long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open_with(&[], &[("WRITE_US", "5000")]) else { return };
    for _ in 0..if long() { 3 } else { 1 } {
        // Each time at another phase.
        let _load = ground.start("beat", 1);
        ground.until(WRITES_COMPLETED, 20);
        ground.check("beat", 5, |window, said| {
            let queue = window.disk(&ground.device).queue;
            window.known("queue", queue, 0.3, 0.42);
            said.figure_is("blocked_threads", queue, 0.18);
            // A sixth of the host.
            said.must_not("idle-but-blocked");
        });
    }
}

/// Completions: four reads outstanding for one thread, by libaio and by io_uring. iowait counts the one not at all and the
/// other in part.
#[test]
fn asynchronous_readers() {
    if !crate::long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open() else { return };
    for engine in ["libaio", "io_uring"] {
        let mut fio = Command::new("fio");
        let fio = fio
            .args(["--name=reads", "--rw=randread", "--bs=4k", "--direct=1", "--time_based", "--runtime=60", "--iodepth=4"])
            .args(["--thread", "--size=16m", &format!("--ioengine={engine}")])
            .arg(format!("--directory={}", ground.folder.display()))
            .stdout(Stdio::null());
        let _load = Load::start_silent(fio);
        ground.until(READS_COMPLETED, 500);
        ground.check(engine, 5, |window, said| {
            window.known("queue", window.disk(&ground.device).queue, 3.5, 4.2);
            let stuck = said.must("idle-but-blocked", "host", "note");
            // It runs for 1/14 of the time: the ten readings of one second are few, those of all seconds are enough.
            said.evidence(&stuck, "group_aio_threads", 0.45, 1.1);
            let asleep =
                window.mean(|place| place.state == 'S' && ["read_events", "io_cqring_wait"].contains(&place.channel.as_str()));
            said.figure("blocked_threads", asleep - 0.3, asleep + 0.3);
            said.word(&stuck, "device", &ground.device);
            said.word(&stuck, "limit", "reads");
            link(said, &stuck, "waiting for asynchronous I/O", "the wait channel");
        });
    }
}

/// SIGSTOP of the disk: requests in flight, none completed. The cause is the device, not a limit above it.
#[test]
fn a_disk_that_completes_nothing() {
    let Some(mut ground) = DiskLoad::open() else { return };
    // Twice the number from which it is critical.
    let _load = ground.start("direct", 8);
    ground.until(WRITES_COMPLETED, 50);
    let hardware = ground.hardware();
    kill(hardware, Signal::SIGSTOP).expect("our own disk");
    let device = ground.device.clone();
    ground.scenario.until("has requests that are not answered", |_| diskstat(&device, IN_FLIGHT) >= 4);
    ground.check("dead", 8, |_, said| {
        let dead = said.must("disk-stalled", &device, "critical");
        said.evidence(&dead, "in_flight", 4.0, 12.0);
        let hung = said.must("hung-task", "load", "warning");
        said.says(&hung, &[&format!("{device} completes nothing"), "direct"]);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.word(&stuck, "device", &device);
        said.must_not("io-throttled");
    });
    kill(hardware, Signal::SIGCONT).expect("our own disk");
}

/// The same under committing processes: the journal thread of the file system, a kernel thread, hangs with its disk. The finding
/// names it, and it does not count as blocked work.
#[test]
fn a_kernel_thread_that_hangs_with_its_disk() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let _load = ground.start("flock", 4);
    ground.until(FLUSHES_COMPLETED, 20);
    let hardware = ground.hardware();
    kill(hardware, Signal::SIGSTOP).expect("our own disk");
    let (device, journal) = (ground.device.clone(), format!("jbd2/{}-8", ground.device));
    let in_d = || processes(&journal).into_iter().any(|pid| Stat::read_process(pid).is_some_and(|stat| stat.state == 'D'));
    ground.scenario.until("has a journal that waits", |_| in_d());
    // The third number: timeslices.
    let turns = || {
        let text = |pid: u32| read(&format!("/proc/{pid}/schedstat"));
        let turns = |text: String| text.split_whitespace().nth(2).and_then(|turns| turns.parse::<f64>().ok());
        processes(&journal).into_iter().filter_map(|pid| turns(text(pid))).sum::<f64>()
    };
    let mut before = turns();
    ground.check("dead-journal", 8, |window, said| {
        window.known("journals in D", f64::from(u8::from(in_d())), 1.0, 1.0);
        // A thread that went on to another wait has not hung for long.
        let now = turns();
        window.known("turns of the journal", now - std::mem::replace(&mut before, now), 0.0, 0.0);
        let dead = said.must("disk-stalled", &device, "critical");
        said.says(&dead, &["kernel threads hang with it", &journal]);
        said.figure("blocked_threads", 0.5, 4.5);
        said.must_not("io-throttled");
    });
    kill(hardware, Signal::SIGCONT).expect("our own disk");
}

/// fsfreeze: state D, and no I/O at all. No thread is blocked on a device.
#[test]
fn a_frozen_file_system() {
    if !long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open() else { return };
    let load = ground.start("flock", 3);
    ground.until(FLUSHES_COMPLETED, 5);
    let freeze = |how: &str| Command::new("fsfreeze").arg(how).arg(&ground.folder).status().expect("fsfreeze").success();
    assert!(freeze("-f"), "it freezes");
    let mount = ground.folder.display().to_string();
    ground.check("frozen", 8, |window, said| {
        window.known("requests per second", window.disk(&ground.device).flushes, 0.0, 0.01);
        let hung = said.must("hung-task", "load", "warning");
        said.says(&hung, &["no I/O is in flight", &format!("the file system on {mount} is frozen")]);
        for kind in ["disk-stalled", "io-throttled", "idle-but-blocked", "disk-latency"] {
            said.must_not(kind);
        }
    });
    assert!(freeze("-u"), "it thaws");
    drop(load);
}

/// A cgroup that may write 50 times per second (v1 blkio.throttle): the writers wait above the device, which answers at once.
#[test]
fn writes_throttled_by_a_cgroup() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let Some(group) = Cgroup::make("blkio", "stalltop-chain-io") else { return };
    let number = ground.scenario.note("device").expect("its number");
    group.write("blkio.throttle.write_iops_device", &format!("{number} 50"));
    let load = ground.start("direct", 2);
    group.add_process(load.pid());
    ground.until(WRITES_COMPLETED, 60);
    ground.check("limit", 5, |_, said| {
        let held = said.must("io-throttled", "load", "warning");
        said.says(&held, &["I/O limit", &ground.device]);
        for kind in ["disk-stalled", "disk-latency", "hung-task"] {
            said.must_not(kind);
        }
    });
    drop(load);
}

/// The freezer and SIGSTOP: states D and T, and no thread is hung.
#[test]
fn frozen_and_stopped_tasks_are_not_blocked() {
    let Some(ground) = DiskLoad::open() else { return };
    let Some(group) = Cgroup::make("freezer", "stalltop-chain-ice") else { return };
    let (iced, stopped) = (ground.start("idle-ring", 4), ground.start("burn", 4));
    group.add_process(iced.pid());
    group.write("freezer.state", "FROZEN");
    stopped.signal(Signal::SIGSTOP);
    ground.check("ice", 8, |window, said| {
        window.known("frozen threads", window.threads("ring", 'D'), 3.9, 4.1);
        said.must_not("hung-task");
        said.must_not("idle-but-blocked");
        said.figure("blocked_threads", 0.0, 0.1);
    });
    group.write("freezer.state", "THAWED");
}
