//! The privileges of the running program: what its command needs, and no more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::again::{for_everybody, is_root, run, stalltop};
use crate::child_guard::ChildGuard;
use crate::executable::copy_executable;
use crate::harness::{self, Session, state_directory};
use crate::until::until;

const NOBODY: u32 = 65_534;

/// What file rights remain: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER.
const FILES: u64 = 1 << 1 | 1 << 2 | 1 << 3;

/// CAP_SYS_NICE, for the priority of the sampling thread; the unit sets a nice value instead.
const SYS_NICE: u64 = 1 << 23;
/// Permitted, not effective: CAP_SYS_ADMIN, for the thread that enters a network namespace.
const SYS_ADMIN: u64 = 1 << 21;

/// Those that the unit of the recorder names, by their numbers in include/uapi/linux/capability.h.
fn of_the_unit() -> u64 {
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/stalltop-record.service")).unwrap();
    let names = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let number = |name: &str| match name {
        "CAP_DAC_READ_SEARCH" => 2,
        "CAP_NET_ADMIN" => 12,
        "CAP_SYS_PTRACE" => 19,
        "CAP_PERFMON" => 38,
        "CAP_BPF" => 39,
        name => panic!("{name} is new"),
    };
    names.split_whitespace().fold(0, |set, name| set | 1 << number(name))
}

/// One thread's line of /proc/PID/task/TID/status, as a hexadecimal number.
fn line(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    u64::from_str_radix(value.trim(), 16).unwrap()
}

/// Of each thread: no_new_privs, the permitted, effective and bounding set.
fn rights(pid: u32) -> Vec<[u64; 4]> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).ok();
    let said = |status: String| ["NoNewPrivs", "CapPrm", "CapEff", "CapBnd"].map(|name| line(&status, name));
    threads.flatten().filter_map(status).map(said).collect()
}

/// A recorder, once it writes.
fn recorder(command: &mut Command, file: &Path) -> ChildGuard {
    let running = ChildGuard(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    until("it records", || fs::metadata(file).is_ok_and(|file| file.len() > 0));
    running
}

#[test]
fn every_thread_keeps_only_the_capabilities_for_sampling_and_gains_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.stalltop");
    let mut command = stalltop(&["record", "-i", "200ms", "--for", "10m"]);
    let recorder = recorder(command.arg(&file), &file);
    let own = rights(std::process::id());
    let [_, permitted, _, bounding] = own[0];
    let kept = FILES | of_the_unit() | SYS_NICE;
    let threads = rights(recorder.0.id());
    assert!(threads.len() > 2, "{threads:?}");
    for thread in threads {
        // Without CAP_SETPCAP the bounding set cannot be reduced; it gives no capability either.
        let bounding = if permitted & 1 << 8 == 0 { bounding } else { bounding & kept };
        assert_eq!(thread, [1, permitted & (kept | SYS_ADMIN), permitted & kept, bounding], "{thread:x?}");
    }
}

#[test]
fn only_a_screen_that_sends_signals_keeps_cap_kill() {
    const KILL: u64 = 1 << 5;
    let [_, permitted, _, _] = rights(std::process::id())[0];
    if permitted & KILL == 0 {
        println!("skipped: without CAP_KILL none can be kept");
    }
    for (options, kept) in [(&[][..], 0), (&["--allow-signals"], permitted & KILL)] {
        let mut session = Session::start(harness::stalltop(options), 80, 24);
        session.until_text("busy");
        for [_, _, effective, _] in rights(session.pid().as_raw().cast_unsigned()) {
            assert_eq!(effective & KILL, kept, "{options:?}");
        }
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    }
}

#[test]
fn a_replay_keeps_only_capabilities_for_files() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab/07-one-hot-thread-pinned.stalltop");
    let mut session = Session::start(harness::stalltop(&["replay", file.to_str().unwrap()]), 80, 24);
    session.until_text("REPLAY");
    let [_, permitted, _, _] = rights(std::process::id())[0];
    if permitted & FILES == 0 {
        println!("skipped: without capabilities for files none can be kept");
    }
    for [no_new, mine, effective, _] in rights(session.pid().as_raw().cast_unsigned()) {
        assert_eq!((no_new, mine, effective), (1, permitted & FILES, permitted & FILES));
    }
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_user_s_command_keeps_all_capabilities_of_the_user() {
    let own = line(&fs::read_to_string("/proc/self/status").unwrap(), "CapBnd");
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let words = format!("cat /proc/self/status > '{}'; echo 7", said.display());
    let (code, _, told) = run(&mut stalltop(&["table", "cpu", "--", "sh", "-c", &words]));
    assert_eq!(code, 0, "{told}");
    let status = fs::read_to_string(&said).unwrap();
    assert_eq!((line(&status, "CapBnd"), line(&status, "NoNewPrivs")), (own, 0), "table");
    fs::remove_file(&said).unwrap();
    let new = folder.path().join("new.stalltop");
    let (code, _, told) = run(stalltop(&["record", "--for", "500ms", "-i", "100ms", "--ops", &words]).arg(&new));
    assert_eq!(code, 0, "{told}");
    let status = fs::read_to_string(&said).unwrap();
    assert_eq!((line(&status, "CapBnd"), line(&status, "NoNewPrivs")), (own, 0), "record --ops");
}

#[test]
fn a_set_user_id_program_refuses_to_run() {
    if !is_root() {
        return println!("skipped: only root can change users");
    }
    let (folder, program) = for_everybody();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let as_nobody = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/").env("XDG_STATE_HOME", state_directory());
        run(&mut command)
    };
    let copy = folder.path().join("id");
    copy_executable("/usr/bin/id", &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    if as_nobody(&copy, &["-u"]).1.trim() != "0" {
        return println!("skipped: the temporary directory is mounted nosuid");
    }
    for arguments in [
        &["check", "--for", "200ms"][..],
        &["doctor"],
        &["--help"],
        &["--load-the-iterator"],
        &["--load-the-block-probe", "2", "8", "0"],
        &["--load-the-file-system-probe", "2", "0", "-", "-"],
        &["--load-the-run-queue-probe", "2", "0"],
    ] {
        let (code, out, told) = as_nobody(&program, arguments);
        assert_eq!((code, out.as_str()), (6, ""), "{arguments:?}: {told}");
        assert!(told.starts_with("stalltop: cannot run: the program is set-user-ID") && told.lines().count() == 1, "{told}");
    }
    // Nor with those of its group.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o2755)).unwrap();
    let (code, out, told) = as_nobody(&program, &["doctor"]);
    assert_eq!((code, out.as_str()), (6, ""), "{told}");
}
