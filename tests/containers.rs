//! In a container: `doctor` names the option of `docker run` that is missing for each reading, and docs/containers.md explains it.
//! A container is made of what makes one: namespaces and a bounding set of capabilities. Needs root, unshare and setpriv.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::path::Path;
use std::process::{Command, Stdio};

/// What Docker leaves to root in a container.
const DEFAULT_CAPABILITIES: [&str; 14] = [
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "net_bind_service",
    "net_raw",
    "sys_chroot",
    "mknod",
    "audit_write",
    "setfcap",
];

/// The options of docs/containers.md.
const OPTIONS: [&str; 6] =
    ["--pid=host", "--network=host", "--cgroupns=host", "--cap-add=SYS_PTRACE", "--cap-add=NET_ADMIN", "--cap-add=SYS_ADMIN"];

/// What `doctor` prints in a container that was started with these options; `None` where none can be made.
fn doctor(options: &[&str]) -> Option<String> {
    let mut capabilities = vec!["-all".to_owned()];
    capabilities.extend(DEFAULT_CAPABILITIES.iter().map(|name| format!("+{name}")));
    capabilities.extend(
        options.iter().filter_map(|option| option.strip_prefix("--cap-add=")).map(|name| format!("+{}", name.to_lowercase())),
    );
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !options.contains(&"--pid=host") {
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    }
    if !options.contains(&"--network=host") {
        command.arg("--net");
    }
    if !options.contains(&"--cgroupns=host") {
        command.arg("--cgroup");
    }
    let state = tempfile::tempdir().unwrap();
    command.args(["setpriv", "--bounding-set", &capabilities.join(","), env!("CARGO_BIN_EXE_stalltop"), "doctor"]);
    command.env("XDG_STATE_HOME", state.path()).stdin(Stdio::null());
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: making a container needs root");
        return None;
    }
    let output = command.output().ok()?;
    if !output.status.success() {
        println!("skipped: no container can be made here: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn doctor_names_each_missing_option_and_no_other() {
    let Some(complete) = doctor(&OPTIONS) else { return };
    for option in OPTIONS {
        assert!(!complete.contains(option), "it was started with {option}:\n{complete}");
        let others: Vec<_> = OPTIONS.into_iter().filter(|other| *other != option).collect();
        let said = doctor(&others).unwrap();
        // PID 1 of this machine may be in the root control group of every namespace, or in no other network namespace.
        let needed = match option {
            "--cap-add=SYS_ADMIN" => said.lines().any(|line| line.starts_with("not seen") && line.contains("setns")),
            "--cgroupns=host" => has_own_group(),
            _ => true,
        };
        if option == "--pid=host" {
            assert!(
                said.contains("holders of locks inside the kernel are not named: this is a pid namespace of its own"),
                "{said}"
            );
        }
        if needed {
            assert!(said.contains(option), "it was started without {option}:\n{said}");
        } else {
            println!("skipped: {option} makes no difference on this machine");
        }
    }
}

/// Whether a cgroup namespace of its own changes what this process sees: not from the root group.
fn has_own_group() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    groups.lines().any(|line| line.splitn(3, ':').nth(2).is_some_and(|path| path != "/"))
}

#[test]
fn the_page_explains_each_option() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/containers.md")).unwrap();
    for option in OPTIONS {
        assert!(page.contains(&format!("`{option}`")), "docs/containers.md has no {option}");
    }
    assert!(page.contains("`--security-opt=apparmor=unconfined`"));
}
