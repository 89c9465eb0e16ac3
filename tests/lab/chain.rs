//! Who waits for whom, on loads of our own with a chain that is known because it was built so: loads/load.c says which.
//!
//! They work on a simulated disk of the lab (loads/disk.sh): a flush takes 10 ms, a read 2 ms, a write 0.5 ms, eight at once.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::judgement::Judgement;
use crate::look::{Look, Window};
use crate::machine::{FLUSHES_COMPLETED, IN_FLIGHT, READS_COMPLETED, WRITES_COMPLETED, diskstat};
use crate::scenario::{DISK_TOOLS, Lab, Scenario};
use crate::watch::MARK;

/// A simulated disk with a file system, for one test.
struct Ground {
    scenario: Scenario,
    device: String,
    folder: PathBuf,
    load: PathBuf,
    state: tempfile::TempDir,
}

impl Ground {
    fn open() -> Option<Ground> {
        let lab = Lab::open(DISK_TOOLS)?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads");
        let state = tempfile::tempdir().expect("a folder");
        let load = state.path().join("load");
        let compiled = Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&load).arg(sources.join("load.c")).status();
        assert!(compiled.expect("gcc").success(), "load.c does not compile");
        let mut scenario = lab.start_script(&sources.join("disk.sh"), 90, &[]);
        scenario.until("is mounted", |scenario| scenario.note("hardware").is_some() && scenario.note("device").is_some());
        let device = scenario.device();
        let folder = PathBuf::from(scenario.note("folder").expect("its folder"));
        Some(Ground { scenario, device, folder, load, state })
    }

    /// Starts a load and waits until it says that it is on.
    fn start(&self, mode: &str, count: u32) -> Load {
        let mut child = Command::new(&self.load)
            .arg(mode)
            .arg(&self.folder)
            .args(["80", &count.to_string()])
            .env(MARK, "chain")
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the load starts");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut said).expect("its word");
        assert_eq!(said, "ready\n", "{mode}");
        Load { child }
    }

    /// Waits until that many more operations of a kind have completed.
    fn until(&mut self, column: usize, more: u64) {
        let (device, before) = (self.device.clone(), diskstat(&self.device, column));
        self.scenario.until("does I/O", |_| diskstat(&device, column) >= before + more);
    }

    fn judge(&self, name: &str, seconds: u32, judge: impl FnMut(&mut Window, &mut Judgement)) {
        let name = format!("chain-{name}");
        Look { seconds, ..Look::new(&name, self.state.path()) }.judge(judge);
    }

    /// The process that is the disk.
    fn hardware(&self) -> Pid {
        Pid::from_raw(self.scenario.note("hardware").and_then(|pid| pid.parse().ok()).expect("its pid"))
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a plain path").to_owned()
    }
}

/// A running load; ended when dropped, also out of a cgroup, a freeze or a stopped disk.
struct Load {
    child: Child,
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The chain of a finding: each link's words and how it is known.
fn links(finding: &Value) -> Vec<(String, String)> {
    let word = |link: &Value, name: &str| link[name].as_str().unwrap_or_default().to_owned();
    let list = finding["evidence"]["chain"].as_array().into_iter().flatten();
    list.map(|link| (word(link, "what"), word(link, "known_by"))).collect()
}

/// Some link must contain these words, and be known like that.
fn link(said: &mut Judgement, finding: &Value, words: &str, known_by: &str) {
    let links = links(finding);
    let holds = links.iter().any(|(what, by)| what.contains(words) && by.contains(known_by));
    said.expect(holds, || format!("no link `{words}` ({known_by}) in {links:#?}"));
}

/// Eight processes, one lock file, who has it commits: /proc/locks names him, his descriptor the file, the mount the disk.
#[test]
fn processes_behind_the_lock_of_a_file() {
    let Some(mut ground) = Ground::open() else { return };
    let _load = ground.start("flock", 8);
    ground.until(FLUSHES_COMPLETED, 20);
    ground.judge("flock", 5, |window, said| {
        let truth = window.disk(&ground.device);
        window.known("flush await", truth.flush_await, 0.0095, 0.0125);
        let stuck = said.must("idle-but-blocked", "box", "critical");
        said.word(&stuck, "group", "load");
        said.word(&stuck, "device", &ground.device);
        said.word(&stuck, "limit", "flushes");
        said.word(&stuck, "chain_confidence", "high");
        said.evidence_is(&stuck, "limit_await_seconds", truth.flush_await, 0.05);
        said.evidence(&stuck, "group_behind_lock_threads", 6.0, 7.2);
        said.evidence(&stuck, "group_on_storage_threads", 0.7, 1.1);
        // /proc/locks names the holder; where the lock went on between two reads of it, the wait channel and inference do.
        link(said, &stuck, &ground.file("lock"), "");
        link(said, &stuck, "fsync (", "");
        link(said, &stuck, &format!("{}, on {}", ground.file("data"), ground.folder.display()), "descriptor");
        link(said, &stuck, &format!("{}: f_await 1", ground.device), "the mount of that file");
    });
}

/// Eight threads that append to one file directly: the inode's lock is held over the write (wait channel
/// ext4_file_write_iter, seven of them; __iomap_dio_rw, one).
#[test]
fn threads_behind_a_lock_of_the_kernel() {
    let Some(mut ground) = Ground::open() else { return };
    let _load = ground.start("append", 8);
    ground.until(WRITES_COMPLETED, 200);
    ground.judge("append", 5, |window, said| {
        let waiters = window.mean(|place| place.channel == "ext4_file_write_iter");
        window.known("threads in ext4_file_write_iter", waiters, 5.0, 7.2);
        let stuck = said.must("idle-but-blocked", "box", "critical");
        said.evidence(&stuck, "group_behind_lock_threads", waiters - 1.0, waiters + 0.6);
        said.evidence(&stuck, "group_on_storage_threads", 0.4, 1.6);
        said.word(&stuck, "device", &ground.device);
        link(said, &stuck, "a lock inside the kernel", "the wait channel");
        said.must_not("hung-task");
    });
}

/// Six clients ask one server over pipes, or sockets, and wait for its answer; it commits first. All are children of one
/// parent.
#[test]
fn clients_behind_their_server() {
    let Some(mut ground) = Ground::open() else { return };
    for mode in ["pipe", "socket"] {
        let _load = ground.start(mode, 6);
        ground.until(FLUSHES_COMPLETED, 20);
        ground.judge(mode, 5, |_, said| {
            let stuck = said.must("idle-but-blocked", "box", "critical");
            said.evidence(&stuck, "group_behind_peer_threads", 4.0, 6.2);
            link(said, &stuck, &format!("the other end of a {mode}"), "who holds the other end");
        });
    }
}

/// What must not be counted: workers that read from the pipe of a dispatcher, threads and processes; idle threads of a Go
/// runtime; condition variables of musl; rings with nothing in them. Beside each one thread that commits for itself.
#[test]
fn idle_pools_beside_a_thread_with_io_of_its_own() {
    let Some(mut ground) = Ground::open() else { return };
    for mode in ["pool", "pools", "go", "musl", "ring"] {
        let _load = ground.start(mode, 16);
        ground.until(FLUSHES_COMPLETED, 20);
        ground.judge(mode, 3, |window, said| {
            window.known("threads in D", window.threads("unrelated", 'D'), 0.7, 1.1);
            said.figure("blocked_threads", 0.6, 1.25);
            said.at_most_a_note("idle-but-blocked", "box");
        });
    }
}

/// A mutex whose holder burns CPU is no idleness: nothing is blocked on anything.
#[test]
fn a_convoy_behind_a_busy_holder() {
    let Some(ground) = Ground::open() else { return };
    let _load = ground.start("burn", 16);
    ground.judge("burn", 4, |_, said| {
        said.figure("idle_but_blocked_ratio", 0.0, 0.02);
        said.must_not("idle-but-blocked");
    });
}

/// Completions: four reads outstanding for one thread, by libaio and by io_uring. iowait counts the one not at all and the
/// other in part.
#[test]
fn asynchronous_readers() {
    let Some(mut ground) = Ground::open() else { return };
    for engine in ["libaio", "io_uring"] {
        let child = Command::new("fio")
            .args(["--name=reads", "--rw=randread", "--bs=4k", "--direct=1", "--time_based", "--runtime=60", "--iodepth=4"])
            .args(["--thread", "--size=16m", &format!("--ioengine={engine}")])
            .arg(format!("--directory={}", ground.folder.display()))
            .env(MARK, "chain")
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("fio");
        let _load = Load { child };
        ground.until(READS_COMPLETED, 500);
        ground.judge(engine, 5, |window, said| {
            window.known("queue", window.disk(&ground.device).queue, 3.5, 4.2);
            let stuck = said.must("idle-but-blocked", "box", "note");
            said.evidence(&stuck, "group_aio_threads", 0.7, 1.1);
            said.word(&stuck, "device", &ground.device);
            said.word(&stuck, "limit", "reads");
            link(said, &stuck, "asleep for asynchronous completions", "the wait channel");
        });
    }
}

/// SIGSTOP of the disk: requests in flight, none completed. It is the device, and no limit above it.
#[test]
fn a_disk_that_answers_nothing() {
    let Some(mut ground) = Ground::open() else { return };
    let _load = ground.start("direct", 4);
    ground.until(WRITES_COMPLETED, 50);
    let hardware = ground.hardware();
    kill(hardware, Signal::SIGSTOP).expect("our own disk");
    let device = ground.device.clone();
    ground.scenario.until("has requests that nobody answers", |_| diskstat(&device, IN_FLIGHT) >= 4);
    ground.judge("dead", 8, |_, said| {
        let dead = said.must("disk-stalled", &device, "critical");
        said.evidence(&dead, "in_flight", 1.0, 8.0);
        let hung = said.must("hung-task", "load", "warning");
        said.says(&hung, &[&format!("{device} completes nothing"), "direct"]);
        let stuck = said.must("idle-but-blocked", "box", "critical");
        said.word(&stuck, "device", &device);
        said.must_not("io-throttled");
    });
    kill(hardware, Signal::SIGCONT).expect("our own disk");
}

/// fsfreeze: state D, and no I/O at all. Nobody is blocked on a device.
#[test]
fn a_frozen_file_system() {
    let Some(mut ground) = Ground::open() else { return };
    let load = ground.start("flock", 3);
    ground.until(FLUSHES_COMPLETED, 5);
    let freeze = |how: &str| Command::new("fsfreeze").arg(how).arg(&ground.folder).status().expect("fsfreeze").success();
    assert!(freeze("-f"), "it freezes");
    let mount = ground.folder.display().to_string();
    ground.judge("frozen", 8, |window, said| {
        window.known("requests a second", window.disk(&ground.device).flushes, 0.0, 0.01);
        let hung = said.must("hung-task", "load", "warning");
        said.says(&hung, &["no I/O is in flight", &format!("the file system on {mount} is frozen")]);
        for kind in ["disk-stalled", "io-throttled", "idle-but-blocked", "disk-latency"] {
            said.must_not(kind);
        }
    });
    assert!(freeze("-u"), "it thaws");
    drop(load);
}

/// A cgroup that may write 50 times a second (v1 blkio.throttle): the writers wait above the device, which answers at once.
#[test]
fn writes_held_back_by_a_cgroup() {
    let Some(mut ground) = Ground::open() else { return };
    let Some(group) = Cgroup::make("blkio", "stalltop-chain-io") else { return };
    let number = ground.scenario.note("device").expect("its number");
    group.write("blkio.throttle.write_iops_device", &format!("{number} 50"));
    let load = ground.start("direct", 2);
    group.take(load.child.id());
    ground.until(WRITES_COMPLETED, 60);
    ground.judge("limit", 5, |_, said| {
        let held = said.must("io-throttled", "load", "warning");
        said.says(&held, &["I/O limit", &ground.device]);
        for kind in ["disk-stalled", "disk-latency", "hung-task"] {
            said.must_not(kind);
        }
    });
    drop(load);
}

/// The freezer and SIGSTOP: states D and T, and nothing is stuck.
#[test]
fn frozen_and_stopped_tasks_are_not_blocked() {
    let Some(ground) = Ground::open() else { return };
    let Some(group) = Cgroup::make("freezer", "stalltop-chain-ice") else { return };
    let (iced, stopped) = (ground.start("idle-ring", 4), ground.start("burn", 4));
    group.take(iced.child.id());
    group.write("freezer.state", "FROZEN");
    killpg(Pid::from_raw(stopped.child.id().cast_signed()), Signal::SIGSTOP).expect("our own load");
    ground.judge("ice", 8, |window, said| {
        window.known("frozen threads", window.threads("ring", 'D'), 3.9, 4.1);
        said.must_not("hung-task");
        said.must_not("idle-but-blocked");
        said.figure("blocked_threads", 0.0, 0.1);
    });
    group.write("freezer.state", "THAWED");
}

/// A control group of version 1, removed when dropped; its tasks go back up.
struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    fn make(controller: &str, name: &str) -> Option<Cgroup> {
        let above = Path::new("/sys/fs/cgroup").join(controller);
        if !above.join("cgroup.procs").exists() {
            println!("skipped: no cgroup v1 hierarchy {controller}");
            return None;
        }
        let folder = above.join(name);
        fs::create_dir_all(&folder).expect("a cgroup");
        Some(Cgroup { folder })
    }

    fn write(&self, file: &str, words: &str) {
        fs::write(self.folder.join(file), words).unwrap_or_else(|why| panic!("{file}: {why}"));
    }

    /// All threads of a process.
    fn take(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("freezer.state"), "THAWED");
        let above = self.folder.parent().map(|above| above.join("cgroup.procs"));
        for pid in fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = above.as_ref().map(|above| fs::write(above, pid));
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
