//! `doctor`, as root and as another user.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::child_guard::ChildGuard;
use crate::harness::program;
use crate::output::texts_of;

const MUTEXES: &str = "holders of mutexes and locks of Java of all processes (process_vm_readv)";

fn doctor(uid: Option<u32>) -> String {
    let mut command = Command::new(program());
    command.args(["doctor", "--probes", "auto"]).stdin(Stdio::null());
    if let Some(uid) = uid {
        command.uid(uid).gid(uid).current_dir("/").env("HOME", "/nonexistent");
    }
    let (code, stdout, stderr) = texts_of(&command.output().unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    stdout
}

fn line<'a>(said: &'a str, part: &str) -> &'a str {
    said.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in {said}"))
}

#[test]
fn another_user_reads_the_mutexes_of_own_processes_only() {
    const NOBODY: u32 = 65_534;
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: not root");
    }
    // A process of root, whose memory the user `nobody` may not read.
    let _of_root = ChildGuard(Command::new("sleep").arg("600").spawn().unwrap());
    let said = doctor(Some(NOBODY));
    let line = line(&said, MUTEXES);
    assert!(line.starts_with("not seen  "), "{line}");
    // With Yama, not even those; nor one of this user with capabilities, as another test may start.
    let expected = [
        "in own processes only, not in ",
        " of this user",
        "hidden, also of own processes (kernel.yama.ptrace_scope)",
        "hidden until the next boot",
    ];
    assert!(expected.iter().any(|words| line.contains(words)), "{line}");
    assert!(line.contains("until the next boot") || line.ends_with("if the last line has a command for it"), "{line}");
}

#[test]
fn the_lines_of_locks_say_what_is_missing_or_that_nothing_is() {
    let said = doctor(None);
    let mutexes = line(&said, MUTEXES);
    assert!(mutexes.starts_with("seen      ") || mutexes.contains(": "), "{mutexes}");
    let kernel = line(&said, "holders of locks inside the kernel");
    // By its own words, or by the reason why the program is not loaded.
    let known = ["are named: of mutexes, semaphores, ", "are named of mmap_lock", "are named of mutexes, ", "are not named: "];
    assert!(kernel.starts_with("eBPF") && known.iter().any(|words| kernel.contains(words)), "{kernel}");
    if kernel.contains("they are not") {
        assert!(kernel.contains("this kernel has no ") && kernel.contains("CONFIG_DETECT_HUNG_TASK_BLOCKER"), "{kernel}");
    }
}
