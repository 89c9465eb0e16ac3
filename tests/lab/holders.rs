//! Threads behind pthread mutexes that name their holder (loads/mutexes.c), which does something else than storage.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use stalltop::sample::waits::OwnerField;

use crate::attempt::{Attempt, compare_until_equal};
use crate::check_result::{CheckResult, check as stalltop_check};
use crate::disk_load::{DiskLoad, Load, link};
use crate::executable::copy_executable;
use crate::harness::program;
use crate::held_truth::{HeldTruth, samples};
use crate::long;
use crate::scenario::{Lab, compiled};

pub fn mutexes() -> PathBuf {
    compiled("mutexes.c", &["gcc", "-O2", "-pthread"])
}

/// 12 threads in this mode. `verify` also gets the threads that held a lock, by what the load wrote itself.
pub fn check(mode: &str, words: &[&str], mut verify: impl FnMut(&mut CheckResult, &[String])) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    check_load(mode, words, |said, written| verify(said, &lines_after(written, "holder ")));
}

/// The same within a lab. `verify` also gets what the load wrote.
fn check_load(mode: &str, words: &[&str], verify: impl FnMut(&mut CheckResult, &str)) {
    check_started_by(|program| Command::new(program), mode, words, verify);
}

pub fn check_started_by(
    start: impl Fn(&Path) -> Command,
    mode: &str,
    words: &[&str],
    mut verify: impl FnMut(&mut CheckResult, &str),
) {
    let state = tempfile::tempdir().expect("a folder");
    let truth = state.path().join("truth");
    let mut command = start(&mutexes());
    command.args([mode, "12", "60"]).args(words).env("TRUTH", &truth);
    let _load = Load::start(command);
    Attempt { seconds: 5, ..Attempt::new(&format!("mutexes-{mode}"), state.path()) }.check(|_, said| {
        verify(said, &std::fs::read_to_string(&truth).expect("what the load wrote"));
    });
}

pub fn lines_after(written: &str, word: &str) -> Vec<String> {
    written.lines().filter_map(|line| Some(line.strip_prefix(word)?.to_owned())).collect()
}

/// A thread of this name that held the lock.
pub fn names_a_holder(said: &mut CheckResult, finding: &Value, thread: &str, holders: &[String]) {
    if finding.is_null() {
        return;
    }
    let text = finding["evidence"]["lock_holder"].as_str().unwrap_or_default();
    let tid = text.strip_prefix(thread).and_then(|rest| rest.split([' ', ',']).next()).unwrap_or_default();
    said.expect(holders.iter().any(|holder| holder == tid), || format!("`{text}` names no holder"));
}

const GLIBC_FIELD: &str = "the owner field of the mutex (glibc)";

fn held(mode: &str, words: &[&str], severity: &str, says: &str) {
    held_by(mode, words, severity, ("worker/", GLIBC_FIELD), says);
}

fn held_by(mode: &str, words: &[&str], severity: &str, (holder, field): (&str, &str), says: &str) {
    check(mode, words, |said, holders| {
        let found = said.must("idle-but-blocked", "host", severity);
        let behind = format!("threads wait for a lock (one mutex, by the futex call) behind {holder}");
        said.says(&found, &[behind.as_str(), says]);
        said.word(&found, "lock_holder_basis", field);
        names_a_holder(said, &found, holder, holders);
        if !found.is_null() {
            link(said, &found, says, field);
        }
        said.must_not("deadlock");
    });
}

/// `process_vm_readv` of a process of the same user needs no capability.
#[test]
fn an_ordinary_user_sees_the_holders_of_its_own_mutexes() {
    let Some(_lab) = Lab::open(&["gcc", "setpriv"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // Directories above the build may not be readable for others.
    let (copy, load) = (folder.path().join("stalltop"), folder.path().join("mutexes"));
    copy_executable(program(), &copy);
    copy_executable(mutexes(), &load);
    let state = folder.path().join("state");
    std::fs::create_dir(&state).expect("a folder");
    for path in [folder.path(), &state, &copy, &load] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
    }
    let as_nobody = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(program).current_dir("/");
        command
    };
    compare_until_equal("mutexes of an ordinary user", || {
        let mut command = as_nobody(&load);
        command.args(["sleep", "12", "60"]);
        let _load = Load::start(command);
        let mut check = as_nobody(&copy);
        check.args(["check", "--for", "4s", "--no-config"]).env("XDG_STATE_HOME", &state);
        let said = String::from_utf8(check.output().expect("stalltop runs").stdout).expect("UTF-8");
        let says = " threads wait for a lock (one mutex, by the futex call) behind worker/";
        match said.contains(says) && said.contains("which sleeps for a fixed time (clock_nanosleep)") {
            true => Ok(()),
            false => Err(said),
        }
    });
}

/// Share of the readings of a mutex that names its owner in which this must be the thread that held it.
const MIN_RIGHT: f64 = 0.99;

/// Readings that are enough to judge by: a third of those on an idle machine in ten seconds.
const MIN_READINGS: usize = 15;

#[test]
fn each_reading_of_a_mutex_of_glibc_names_the_thread_that_holds_it() {
    readings_of_a_mutex("sleep", false);
}

#[test]
fn each_reading_of_a_mutex_in_timed_waits_names_the_thread_that_holds_it() {
    readings_of_a_mutex("timed", true);
}

fn readings_of_a_mutex(mode: &str, is_timed: bool) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (load, truth) = (mutexes(), folder.path().join("truth"));
    compare_until_equal(&format!("readings of a mutex, {mode}"), || {
        let _ = std::fs::remove_file(&truth);
        let mut command = Command::new(&load);
        command.args([mode, "12", "13"]).env("TRUTH", &truth);
        let running = Load::start(command);
        let said = stalltop_check(&format!("mutex-readings-{mode}"), folder.path(), 10, "1s");
        running.ended();
        let written = std::fs::read_to_string(&truth).expect("what the load wrote");
        let held = HeldTruth::parse(written.lines().filter_map(|line| line.strip_prefix("held ")));
        let samples = samples(said.recording());
        let readings: Vec<bool> = samples
            .iter()
            .flat_map(|sample| sample.waits.lock_owners.iter().map(move |row| (sample, row)))
            .filter(|(_, row)| row.field == OwnerField::GlibcMutex && (row.timed_waiters > 0) == is_timed)
            .map(|(sample, row)| held.agrees(sample, row))
            .collect();
        let right = readings.iter().filter(|&&is_right| is_right).count();
        println!("{mode}: the holder is right in {right} of {} readings", readings.len());
        match readings.len() >= MIN_READINGS && right as f64 >= readings.len() as f64 * MIN_RIGHT {
            true => Ok(()),
            false => Err(format!("right in {right} of {} readings", readings.len())),
        }
    });
}

#[test]
fn holders_that_sleep_in_turn() {
    held("sleep", &[], "critical", "in turn), which sleeps for a fixed time (clock_nanosleep)");
}

/// It took the lock before stalltop began, and none of the threads has run since.
#[test]
fn a_holder_that_sleeps_since_before_the_first_sample() {
    if !crate::long() {
        return;
    }
    held("long-sleep", &[], "critical", "which sleeps for a fixed time (clock_nanosleep)");
}

#[test]
fn a_holder_that_computes() {
    if !crate::long() {
        return;
    }
    held("compute", &[], "warning", "which computes while it holds the lock");
}

#[test]
fn a_holder_that_waits_for_a_child_process() {
    if !crate::long() {
        return;
    }
    held("child", &[], "critical", "which waits for a child process (wait4)");
}

/// A server that answers after this time, and the port at which it listens.
fn slow_server(time: Duration) -> String {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("its address").port().to_string();
    let answer = move |mut client: TcpStream| -> std::io::Result<()> {
        client.read_exact(&mut [0; 2])?;
        thread::sleep(time);
        client.write_all(b"!")
    };
    thread::spawn(move || {
        for client in server.incoming().flatten() {
            thread::spawn(move || answer(client));
        }
    });
    port
}

/// The server is a thread of this test.
fn waits_for_this_process(port: &str) -> String {
    let pid = std::process::id();
    let name = std::fs::read_to_string("/proc/self/comm").expect("its name");
    format!("which waits for an answer of 127.0.0.1:{port}, that is of {} ({pid})", name.trim_end())
}

#[test]
fn a_holder_that_waits_for_an_answer() {
    let port = slow_server(Duration::from_secs(1));
    held("answer", &["127.0.0.1", &port], "critical", &waits_for_this_process(&port));
}

/// As clients with a timeout do; it has not run since before the first sample.
#[test]
fn a_holder_that_polls_for_an_answer() {
    if !crate::long() {
        return;
    }
    let port = slow_server(Duration::from_secs(300));
    held("poll-answer", &["127.0.0.1", &port], "critical", &waits_for_this_process(&port));
}

/// The holders wait for an answer of the process that the load names, over this, and that process does this.
fn waits_for_a_process(said: &mut CheckResult, written: &str, over: &str, does: &str) {
    let found = said.must("idle-but-blocked", "host", "critical");
    let [server] = lines_after(written, "server ").try_into().expect("one server");
    let asks = format!(", which waits over a {over} for an answer of server ({server})");
    said.says(&found, &[" threads wait for a lock (one mutex, by the futex call) behind worker/", &asks, does]);
    names_a_holder(said, &found, "worker/", &lines_after(written, "holder "));
    said.word(&found, "chain_confidence", "medium");
    if !found.is_null() {
        link(said, &found, &asks, GLIBC_FIELD);
        link(said, &found, &format!("server/{server} "), "inference");
    }
    said.must_not("deadlock");
}

#[test]
fn a_holder_that_asks_a_process_over_a_unix_socket() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    check_load("socket-answer", &[], |said, written| {
        waits_for_a_process(said, written, "socket", ", which sleeps for a fixed time (clock_nanosleep)");
    });
}

#[test]
fn a_holder_that_asks_a_process_on_storage_over_pipes() {
    let Some(disk) = DiskLoad::open() else { return };
    let folder = disk.file("");
    check_load("pipe-answer", &[&folder], |said, written| {
        waits_for_a_process(said, written, "pipe", ", which is in fsync");
        let found = said.must("idle-but-blocked", "host", "critical");
        if !found.is_null() {
            link(said, &found, "/answers", "the file descriptor of its system call");
            link(said, &found, &format!("{}: ", disk.device), "the mount of that file");
        }
    });
}

/// The load has a network namespace of its own, as in a container.
#[test]
fn a_holder_that_asks_a_process_of_its_container() {
    if !long() {
        return;
    }
    let Some(_lab) = Lab::open(&["gcc", "unshare", "ip"]) else { return };
    let start = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", r#"ip link set lo up && exec "$0" "$@""#]).arg(program);
        command
    };
    check_started_by(start, "tcp-answer", &[], |said, written| {
        let found = said.must("idle-but-blocked", "host", "critical");
        let [server] = lines_after(written, "server ").try_into().expect("one server");
        let of = format!(", that is of server ({server}), which sleeps for a fixed time (clock_nanosleep)");
        said.says(&found, &[" behind worker/", ", which waits for an answer of 127.0.0.1:", &of]);
        names_a_holder(said, &found, "worker/", &lines_after(written, "holder "));
    });
}

#[test]
fn a_holder_of_a_robust_mutex() {
    if !crate::long() {
        return;
    }
    let field = "the futex word, which names the owner";
    held_by("robust", &[], "critical", ("worker/", field), "in turn), which sleeps for a fixed time (clock_nanosleep)");
}

/// The holder waits for room in this, which a stopped process does not read.
fn full(mode: &str, what: &str, known_by: &str) {
    check(mode, &[], |said, holders| {
        let found = said.must("idle-but-blocked", "host", "critical");
        let waits = format!(", which waits for room in a {what} that mutexes (");
        said.says(&found, &[" behind worker/", &waits, ") reads, which is stopped (SIGSTOP)"]);
        names_a_holder(said, &found, "worker/", holders);
        if !found.is_null() {
            link(said, &found, &waits, GLIBC_FIELD);
            link(said, &found, " is stopped (SIGSTOP)", known_by);
        }
    });
}

#[test]
fn a_holder_that_writes_to_a_stopped_process() {
    if !crate::long() {
        return;
    }
    full("full-pipe", "pipe", "the descriptors of both processes");
}

#[test]
fn a_holder_that_sends_to_a_stopped_process() {
    full("full-socket", "socket", "the other end of the socket (sock_diag)");
}

/// Another process holds the mutex, which is in shared memory.
#[test]
fn a_holder_that_is_stopped() {
    if !crate::long() {
        return;
    }
    held_by("shared", &[], "critical", ("mutexes/", GLIBC_FIELD), "which is stopped (SIGSTOP)");
}

#[test]
fn a_holder_that_waits_for_the_lock_of_one_that_sleeps() {
    check("sleep-behind", &[], |said, holders| {
        let found = said.must("idle-but-blocked", "host", "critical");
        said.says(
            &found,
            &[
                " behind knot/",
                ", which waits for a lock that knot/",
                " holds, which sleeps for a fixed time (clock_nanosleep)",
            ],
        );
        names_a_holder(said, &found, "knot/", holders);
        said.must_not("deadlock");
    });
}

/// A mutex in a timed wait looks like a condition variable, but for the words beside its futex.
#[test]
fn holders_of_a_mutex_for_which_threads_wait_with_a_timeout() {
    held("timed", &[], "critical", "in turn), which sleeps for a fixed time (clock_nanosleep)");
}
