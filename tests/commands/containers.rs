//! In a container: `doctor` names the option of `docker run` that is missing for each reading, and docs/containers.md explains it.
//! A container is made of what makes one: namespaces and a bounding set of capabilities. Needs root, unshare and setpriv.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::child_guard::ChildGuard;
use crate::harness::program;

/// The options of docs/containers.md for which `doctor` has a line.
const OPTIONS: [&str; 10] = [
    "--pid=host",
    "--network=host",
    "--cgroupns=host",
    "--cap-add=SYS_PTRACE",
    "--cap-add=DAC_READ_SEARCH",
    "--cap-add=NET_ADMIN",
    "--cap-add=SYS_ADMIN",
    "--cap-add=SYS_NICE",
    "--cap-add=BPF",
    "--cap-add=PERFMON",
];

/// A process of another user, which is ended with the test.
fn start_as_other_user() -> Option<ChildGuard> {
    Command::new("sleep").arg("600").uid(65_534).stdin(Stdio::null()).spawn().ok().map(ChildGuard)
}

/// What `doctor` prints in a container that was started with `--cap-drop=ALL` and these options; `None` where none can be made.
fn doctor(options: &[&str]) -> Option<String> {
    let mut capabilities = vec!["-all".to_owned()];
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
    command.args(["setpriv", "--bounding-set", &capabilities.join(","), program(), "doctor"]);
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
fn doctor_names_each_missing_option_and_none_when_all_are_given() {
    let Some(complete) = doctor(&OPTIONS) else { return };
    let (options, complete) = (&OPTIONS[..], complete.as_str());
    let _other_user = start_as_other_user();
    // All at once: each waits for seconds, for the kernel to release programs.
    std::thread::scope(|scope| {
        for option in options {
            scope.spawn(move || names_the_missing_option(option, complete));
        }
    });
}

/// `complete`: what `doctor` prints with all options.
fn names_the_missing_option(option: &str, complete: &str) {
    assert!(!complete.contains(option), "it was started with {option}:\n{complete}");
    let others: Vec<_> = OPTIONS.into_iter().filter(|other| *other != option).collect();
    let said = doctor(&others).unwrap();
    // PID 1 of this machine may be in the root control group of every namespace, or in no other network namespace.
    let needed = match option {
        "--cap-add=SYS_ADMIN" => complete.contains("seen      kernel stacks"),
        // Not where this test has a nice value itself.
        "--cap-add=SYS_NICE" => complete.contains("nice -20"),
        "--cgroupns=host" => has_own_group(),
        "--cap-add=BPF" | "--cap-add=PERFMON" => complete.contains("programs can be loaded"),
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

/// Whether a cgroup namespace of its own changes what this process sees: not from the root group.
fn has_own_group() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    groups.lines().any(|line| line.splitn(3, ':').nth(2).is_some_and(|path| path != "/"))
}

#[test]
fn the_page_explains_each_option_of_its_command_and_of_its_pod() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/containers.md")).unwrap();
    for option in OPTIONS {
        assert!(page.contains(&format!("`{option}`")), "docs/containers.md has no {option}");
    }
    for option in ["--cap-drop=ALL", "--security-opt=apparmor=unconfined"] {
        assert!(page.contains(&format!("| `{option}` |")), "docs/containers.md has no {option}");
    }
    let capabilities = |text: &str, prefix: &str| -> BTreeSet<String> {
        text.split_whitespace().filter_map(|word| word.strip_prefix(prefix)).map(str::to_owned).collect()
    };
    let command = page.split("docker run").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let documented = capabilities(&OPTIONS.join(" "), "--cap-add=");
    assert_eq!(capabilities(command, "--cap-add="), documented);
    let pod = page.lines().find_map(|line| line.trim().strip_prefix("add: [")?.strip_suffix(']')).unwrap();
    assert_eq!(pod.split(", ").map(str::to_owned).collect::<BTreeSet<_>>(), documented);
}
