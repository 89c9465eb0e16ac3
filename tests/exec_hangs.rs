//! A process that hangs in execve: the kernel makes readers of its stat, wchan, io and syscall wait for it. Needs root. In a suite of its
//! own, since it delays all programs that read /proc meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "support/fuse_mount.rs"]
mod fuse_mount;
#[path = "support/program.rs"]
mod program;
#[path = "support/until.rs"]
mod until;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;

use fuse_mount::mount_fuse;

// Operations of include/uapi/linux/fuse.h
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const FLUSH: u32 = 25;
const INIT: u32 = 26;

const FILE_NODE: u64 = 2;

/// struct fuse_attr of a directory or a regular file
fn attributes(node: u64) -> Vec<u8> {
    let mode: u32 = if node == 1 { 0o040_755 } else { 0o100_666 };
    let mut attributes: Vec<u8> = [node, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    attributes.extend([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].into_iter().flat_map(u32::to_ne_bytes));
    attributes
}

/// Answers all requests but FLUSH, for which a close waits: says which process closes.
fn serve(mut fuse: &File, closing: &AtomicU32) {
    let mut request = vec![0; 1 << 17];
    while let Ok(length) = fuse.read(&mut request) {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (operation, unique, node) = (word(4), long(8), long(16));
        assert!(length >= 40, "a request has a header");
        let valid_seconds = 1_u64.to_ne_bytes();
        let body = match operation {
            INIT => [7, 31, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect(),
            LOOKUP => {
                let entry = [FILE_NODE.to_ne_bytes(), [0; 8], valid_seconds, valid_seconds, [0; 8]].concat();
                [entry, attributes(FILE_NODE)].concat()
            }
            GETATTR => [valid_seconds.to_vec(), vec![0; 8], attributes(node)].concat(),
            OPEN => vec![0; 16],
            FLUSH => {
                closing.store(word(32), Ordering::SeqCst);
                continue;
            }
            _ => Vec::new(),
        };
        let mut answer = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        answer.extend(0_u32.to_ne_bytes());
        answer.extend(unique.to_ne_bytes());
        answer.extend(body);
        // Fails where the request was interrupted.
        let _ = fuse.write(&answer);
    }
}

#[test]
fn a_process_that_hangs_in_execve_is_left_out_and_named() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: mounting needs root");
    }
    // Of this thread, and of those that it starts.
    let private = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>));
    if let Err(why) = private {
        return println!("skipped: no mount namespace: {why}");
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("mount");
    std::fs::create_dir(&at).unwrap();
    let Some(fuse) = mount_fuse(&at, "exec-hangs") else { return println!("skipped: no FUSE here") };
    let closing = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&closing);
    std::thread::spawn(move || serve(&fuse, &seen));

    let mut victim = Command::new("sleep");
    victim.arg("1000").stdin(Stdio::null());
    let path = at.join("file");
    let open_file = move || {
        let file = open(&path, OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
        // It is closed by execve.
        std::mem::forget(file);
        Ok(())
    };
    #[allow(unsafe_code, reason = "the child opens a file")]
    // SAFETY: between fork and execve it only calls open; the path is a C string on the stack.
    unsafe {
        victim.pre_exec(open_file)
    };
    // It returns when execve does.
    let spawned = std::thread::spawn(move || victim.spawn());
    until::until("execve closes the file", || closing.load(Ordering::SeqCst) != 0);

    // Kernels differ in what waits.
    let (sender, read) = mpsc::channel();
    let stat = format!("/proc/{}/stat", closing.load(Ordering::SeqCst));
    std::thread::spawn(move || sender.send(std::fs::read(stat).is_ok()));
    let waits = read.recv_timeout(Duration::from_secs(5)).is_err();

    let (sender, results) = mpsc::channel();
    let mut check = Command::new(program::program());
    check.args(["check", "--json", "--for", "1s", "-i", "200ms"]).env("XDG_STATE_HOME", directory.path()).stdin(Stdio::null());
    std::thread::spawn(move || sender.send(check.output()));
    let output = results.recv_timeout(Duration::from_secs(40)).expect("check hangs").unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code().is_some_and(|code| code <= 2), "{said}{errors}");
    let figures: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(figures["figures"]["busy_ratio"].is_number(), "{said}");
    let is_named = errors.contains(&format!("({}) is left out", closing.load(Ordering::SeqCst)));
    assert_eq!(is_named, waits, "{errors}");
    println!("{}", if is_named { "left out" } else { "this kernel does not make readers wait" });

    // Its connection is ended: the execve goes on.
    let _ = umount2(&at, MntFlags::MNT_FORCE);
    if let Ok(Ok(mut victim)) = spawned.join() {
        let _ = victim.kill();
        let _ = victim.wait();
    }
    let _ = umount2(&at, MntFlags::MNT_DETACH);
}
