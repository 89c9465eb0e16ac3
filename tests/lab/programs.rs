//! Programs whose waits differ from the mutexes of load.c: a Java VM, a server of Python processes, mapped files, writers above the
//! disk's rate, and tasks stopped by a debugger.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::disk_load::{DiskLoad, Load, link};
use crate::long;
use crate::proc::{FLUSHES_COMPLETED, READS_COMPLETED, Stat, WRITES_COMPLETED, diskstat, threads};
use crate::watch::Place;

/// 32 threads that read a mapped file which is not in memory: their page faults wait for the disk, and no system call names the
/// file. Its pages are dropped by the load: memory is available.
#[test]
fn threads_that_fault_on_a_mapped_file() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let _load = ground.start("faults", 32);
    ground.until(READS_COMPLETED, 3000);
    ground.check("faults", 6, |window, said| {
        let truth = window.disk(&ground.device);
        let faulting = window.threads("faults", 'D');
        window.known("threads in D", faulting, 24.0, 32.0);
        window.known("queue", truth.queue, 18.0, 32.0);
        let stuck = said.must("idle-but-blocked", "host", "warning");
        said.word(&stuck, "device", &ground.device);
        said.word(&stuck, "limit", "reads");
        let least = window.readings(|place| place.comm == "faults" && place.state == 'D').least;
        said.evidence(&stuck, "group_on_storage_threads", least.min(faulting - 4.0), 32.1);
        said.evidence(&stuck, "group_behind_lock_threads", 0.0, 0.5);
        let await_each = window.each(|span| span.disk(&ground.device).read_await);
        said.evidence_in(&stuck, "limit_await_seconds", await_each.within(0.1));
        link(said, &stuck, "in a page fault (", "the wait channel");
        link(said, &stuck, &format!("{}: r_await", ground.device), "the only device with requests in flight");
        for kind in ["memory-pressure", "swapping", "io-throttled", "hung-task", "disk-stalled"] {
            said.must_not(kind);
        }
    });
}

/// The kernel's limit of dirty pages of one device (its bdi), so that the host's other writers go on; lifted when dropped.
struct DirtyLimit {
    folder: PathBuf,
}

impl DirtyLimit {
    fn set(number: &str, bytes: u64) -> Option<DirtyLimit> {
        let folder = Path::new("/sys/class/bdi").join(number);
        let limit = DirtyLimit { folder };
        let set = limit.write("max_bytes", &bytes.to_string()).and_then(|()| limit.write("strict_limit", "1"));
        set.map_err(|why| println!("skipped: no limit of dirty pages for one device: {why}")).ok().map(|()| limit)
    }

    fn write(&self, file: &str, word: &str) -> std::io::Result<()> {
        fs::write(self.folder.join(file), word)
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        let _ = self.write("strict_limit", "0");
        let _ = self.write("max_ratio", "100");
    }
}

/// Twelve writers of more than a disk of 40 ms takes: the kernel holds them in balance_dirty_pages until some of it is
/// written out. They wait for the disk, not for an I/O limit.
#[test]
fn writers_throttled_in_balance_dirty_pages() {
    let Some(mut ground) = DiskLoad::open_with(&[], &[("WRITE_US", "40000")]) else { return };
    let number = ground.scenario.note("device").expect("its number");
    let Some(_limit) = DirtyLimit::set(&number, 16 << 20) else { return };
    let _load = ground.start("dirty", 12);
    ground.until(WRITES_COMPLETED, 200);
    ground.check("dirty", 6, |window, said| {
        let held = |place: &Place| place.channel == "balance_dirty_pages" && place.state == 'D';
        window.known("threads in balance_dirty_pages", window.mean(held), 6.0, 12.0);
        let stuck = said.must("idle-but-blocked", "host", "warning");
        said.word(&stuck, "device", &ground.device);
        said.word(&stuck, "limit", "writes");
        said.evidence(&stuck, "group_on_storage_threads", window.readings(held).least - 2.0, 12.1);
        link(said, &stuck, "pwrite64 (balance_dirty_pages)", "the wait channel");
        said.says(&stuck, &["held back by the dirty page limit of a cgroup or of the device", " writes back "]);
        link(said, &stuck, &format!("{}/dirty", ground.folder.display()), "the file descriptor of its system call");
        link(said, &stuck, &format!("{}: w_await", ground.device), "the mount of that file");
        for kind in ["hung-task", "disk-stalled", "memory-pressure"] {
            said.must_not(kind);
        }
    });
}

/// Sixteen threads and one lock, whose holder commits. Of a mutex with priority inheritance (rt_mutex_schedule) the call says that
/// it is held; of a read-write lock (FUTEX_WAIT_BITSET, as a condition variable) only inference does.
#[test]
fn threads_behind_other_locks_than_a_plain_mutex() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let locks = [
        ("pi", "rt_mutex_schedule", "one mutex", "the futex call: one address", "high"),
        ("rwlock", "futex_do_wait", "wait for a lock", "inference: they are active", "medium"),
    ];
    for (mode, channel, what, known_by, confidence) in locks {
        let _load = ground.start(mode, 16);
        ground.until(FLUSHES_COMPLETED, 100);
        ground.check(mode, 6, |window, said| {
            // The kernel's names differ: older ones say futex_wait_queue.
            let waits = |place: &Place| place.state == 'S' && place.channel == channel;
            window.known("threads that wait", window.mean(waits), 14.0, 15.6);
            let stuck = said.must("idle-but-blocked", "host", "critical");
            said.evidence(&stuck, "group_behind_lock_threads", window.readings(waits).least - 2.0, 15.6);
            said.evidence(&stuck, "group_on_storage_threads", 0.5, 1.2);
            said.word(&stuck, "chain_confidence", confidence);
            link(said, &stuck, what, known_by);
            let holder =
                if mode == "pi" { "the futex word, which names the owner" } else { "inference: the thread seen on storage" };
            link(said, &stuck, "in fsync (", holder);
            link(said, &stuck, &ground.file(if mode == "pi" { "pi" } else { "rw" }), "the file descriptor of its system call");
        });
    }
}

/// A Java machine with so many workers behind one monitor, beside 200 threads that are parked and its own housekeepers.
fn java(ground: &DiskLoad, workers: u32) -> Load {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/Monitor.java");
    let mut command = Command::new("java");
    command.arg("-Xmx128m").arg(source).arg(&ground.folder).args(["80", &workers.to_string(), "200"]);
    Load::start(command)
}

/// A thread that waits for a monitor sleeps on a condition variable of its own, as do 200 idle threads, and housekeeping threads
/// that wake by a timer: only the first are blocked, as the virtual machine says.
#[test]
fn java_threads_behind_one_monitor() {
    let Some(mut ground) = DiskLoad::open_with(&["java", "javac"], &[]) else { return };
    let _load = java(&ground, 40);
    ground.until(FLUSHES_COMPLETED, 300);
    ground.check("java", 8, |window, said| {
        let parked = window.mean(|place| place.comm == "parked" && place.channel.starts_with("futex"));
        let waiting = window.mean(|place| place.comm == "worker" && place.channel.starts_with("futex"));
        window.known("parked threads", parked, 198.0, 200.0);
        window.known("workers in futex", waiting, 36.0, 39.8);
        window.known("workers in D", window.threads("worker", 'D'), 0.6, 1.1);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.word(&stuck, "group", "java");
        said.word(&stuck, "lock_basis", "one Java monitor");
        // A monitor is not fair: some threads do not get it for minutes.
        said.evidence(&stuck, "group_behind_lock_threads", waiting - 2.0, 40.0);
        link(said, &stuck, "worker/", "the owner field of the Java monitor (HotSpot)");
        link(said, &stuck, &ground.file("java"), "the file descriptor of its system call");
    });
}

/// The opposite case: one thread of the same program commits, and no thread waits for the monitor.
#[test]
fn a_java_vm_with_one_thread_that_commits() {
    if !long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open_with(&["java", "javac"], &[]) else { return };
    let _load = java(&ground, 1);
    ground.until(FLUSHES_COMPLETED, 300);
    ground.check("java-alone", 8, |window, said| {
        window.known("workers in D", window.threads("worker", 'D'), 0.6, 1.1);
        said.figure("blocked_threads", 0.6, 1.3);
        said.at_most_a_note("idle-but-blocked", "host");
        said.must_not("hung-task");
    });
}

/// A process a connection, one semaphore in shared memory: one group, although no thread shares anything with another but
/// pages and a parent.
#[test]
fn python_processes_behind_a_semaphore() {
    if !long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open_with(&["python3"], &[]) else { return };
    let mut command = Command::new("/usr/bin/python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/semaphore.py"));
    command.arg(&ground.folder).args(["80", "12"]);
    let _load = Load::start(command);
    ground.until(FLUSHES_COMPLETED, 100);
    ground.check("python", 6, |window, said| {
        let waits = |place: &Place| place.comm == "python3" && place.channel.starts_with("futex");
        window.known("processes in futex", window.mean(waits), 10.0, 11.6);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.word(&stuck, "group", "python3");
        said.evidence(&stuck, "group_processes", 12.0, 13.0);
        said.evidence(&stuck, "group_behind_lock_threads", window.readings(waits).least - 2.0, 11.6);
        said.word(&stuck, "lock_basis", "by inference");
        link(said, &stuck, &format!("{}, on {}", ground.file("python"), ground.folder.display()), "descriptor");
    });
}

/// A server that answers each request after a delay, until the process ends; its port.
fn slow_server() -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let port = server.local_addr().expect("its address").port();
    thread::spawn(move || {
        for mut connection in server.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                while connection.read_exact(&mut [0]).is_ok() {
                    thread::sleep(Duration::from_millis(400));
                    if connection.write_all(b"!").is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Threads that sent a request to another program wait for it, by inference; only the one that commits is on storage. The
/// threads of the server, which wait for requests half of the time, are not reported as waiting.
#[test]
fn clients_of_a_slow_server() {
    if !crate::long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open_with(&["python3"], &[]) else { return };
    let port = slow_server();
    let mut command = Command::new("/usr/bin/python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/clients.py"));
    command.arg(port.to_string()).arg(&ground.folder).args(["80", "6"]);
    let _load = Load::start(command);
    ground.until(FLUSHES_COMPLETED, 100);
    ground.check("clients", 5, |window, said| {
        let in_socket =
            |place: &Place| place.comm == "python3" && matches!(place.channel.as_str(), "wait_woken" | "sk_wait_data");
        window.known("threads in a socket", window.mean(in_socket), 5.5, 6.0);
        window.known("threads in D", window.threads("python3", 'D'), 0.6, 1.1);
        said.figure("blocked_threads", 0.5, 1.3);
        let stuck = said.must("idle-but-blocked", "host", "note");
        link(said, &stuck, &format!(" wait for an answer from 127.0.0.1:{port}: not counted"), "inference");
        said.at_most_a_note("idle-but-blocked", "host");
    });
}

/// gdb has stopped a process in the middle of its I/O: state t, and no thread is hung.
#[test]
fn threads_that_a_debugger_has_stopped() {
    let Some(mut ground) = DiskLoad::open_with(&["gdb"], &[]) else { return };
    let load = ground.start("direct", 8);
    ground.until(WRITES_COMPLETED, 100);
    let mut gdb = Command::new("gdb");
    // It stays for as long as it may read from us.
    gdb.args(["-q", "-nx", "-p", &load.pid().to_string()]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let _gdb = Load::start_silent(&mut gdb);
    let stat = |tid: u32| Stat::read(Path::new(&format!("/proc/{0}/task/{tid}/stat", load.pid())));
    ground.scenario.until("is stopped by gdb", |_| {
        let all = threads(load.pid());
        all.len() == 9 && all.into_iter().all(|tid| stat(tid).is_some_and(|stat| stat.state == 't'))
    });
    let written = diskstat(&ground.device, WRITES_COMPLETED);
    ground.check("traced", 7, |window, said| {
        window.known("traced threads", window.mean(|place| place.state == 't'), 8.9, 9.1);
        said.figure("blocked_threads", 0.0, 0.1);
        for kind in ["idle-but-blocked", "hung-task", "disk-stalled", "io-throttled", "load-not-cpu"] {
            said.must_not(kind);
        }
    });
    assert!(diskstat(&ground.device, WRITES_COMPLETED) - written < 100, "it was stopped all the time");
    load.signal(Signal::SIGKILL);
}
