//! Restricted views: hidepid, no /proc, a file system that never answers.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::again::{for_everybody, inside, is_root, plays, run, stalltop};
use crate::child_guard::ChildGuard;
use crate::fuse_mount::mount_fuse;
use crate::harness::{program, state_directory};

/// `sh -c` in namespaces of its own; `None` where that does not work.
fn shell_in(flags: &[&str], script: &str) -> Option<Command> {
    let works = Command::new("unshare").args(flags).arg("true").output().is_ok_and(|output| output.status.success());
    if !(is_root() && works) {
        println!("skipped: needs root and unshare");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", script]).stdin(Stdio::null()).env("XDG_STATE_HOME", state_directory());
    Some(command)
}

#[test]
fn behind_hidepid_other_users_processes_are_missing_and_reported_as_hidden() {
    let (_kept, program) = for_everybody();
    let program = program.to_str().unwrap();
    for hidepid in ["1", "2"] {
        let script = format!(
            "mount -t proc -o hidepid={hidepid} proc /proc || exit 99; sleep 1000 & \
             cd /; exec setpriv --reuid=65534 --regid=65534 --clear-groups '{program}' check --json --for 500ms -i 200ms"
        );
        let Some(mut command) = shell_in(&["--mount", "--pid", "--fork", "--kill-child"], &script) else { return };
        let (code, stdout, stderr) = run(&mut command);
        if code == 99 {
            return println!("skipped: no proc with hidepid here");
        }
        assert!((0..=2).contains(&code), "{code} {stdout}{stderr}");
        let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let absent = said["absent"].as_array().unwrap();
        assert!(absent.iter().any(|absent| absent["what"].as_str().unwrap().contains("hidepid")), "{said}");
        assert!(said["figures"]["busy_ratio"].is_number(), "the rest is there: {said}");

        let script = script.replace("check --json --for 500ms -i 200ms", "doctor");
        let Some(mut command) = shell_in(&["--mount", "--pid", "--fork", "--kill-child"], &script) else { return };
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(code, 0, "{stdout}{stderr}");
        let line = stdout.lines().find(|line| line.contains("of all users")).unwrap_or_else(|| panic!("{stdout}"));
        assert!(line.contains("hidepid"), "{line}");

        // A figure that needs all processes is a lower bound, or unknown.
        let as_text = script.replace("doctor", "check --for 500ms -i 200ms");
        let Some(mut command) = shell_in(&["--mount", "--pid", "--fork", "--kill-child"], &as_text) else { return };
        let (_, stdout, _) = run(command.env("LC_ALL", "C.UTF-8"));
        let words = ["idle but blocked ≥", "free ≤", "running, ≥"];
        assert!(words.iter().all(|word| stdout.lines().next().unwrap().contains(word)), "{stdout}");
        let as_table = script.replace("doctor", "table load --format json --columns runq,D,lock");
        let Some(mut command) = shell_in(&["--mount", "--pid", "--fork", "--kill-child"], &as_table) else { return };
        let (_, stdout, _) = run(&mut command);
        let row: serde_json::Value = serde_json::from_str(stdout.lines().next().unwrap()).unwrap();
        assert!(["run_queue_wait", "blocked", "lock"].iter().all(|name| row[name].is_null()), "{row}");
    }
}

#[test]
fn in_another_network_namespace_exits_are_reported_as_unreadable() {
    let ends = |mut command: Command| {
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(code, 0, "{stdout}{stderr}");
        stdout.lines().find(|line| line.contains("ends of short-lived")).unwrap_or_else(|| panic!("{stdout}")).to_owned()
    };
    let here = ends(stalltop(&["doctor"]));
    if !here.starts_with("seen ") {
        return println!("skipped: {here}");
    }
    let Some(there) = shell_in(&["--net"], &format!("'{}' doctor", program())) else { return };
    let there = ends(there);
    assert!(there.starts_with("not seen ") && there.contains("only in the network namespace of PID 1"), "{there}");
}

#[test]
fn without_proc_there_is_one_line_and_a_code() {
    let program = program();
    for (arguments, expected) in [("", 7), ("record /nowhere/x", 7), ("doctor", 7), ("check", 3)] {
        // One may be mounted above another.
        let script = format!(
            "while umount -l /proc 2>/dev/null; do :; done; test ! -e /proc/self || exit 99; exec '{program}' {arguments}"
        );
        let Some(mut command) = shell_in(&["--mount"], &script) else { return };
        let (code, stdout, stderr) = run(&mut command);
        if code == 99 {
            return println!("skipped: /proc cannot be unmounted here");
        }
        assert_eq!((code, stdout.as_str()), (expected, ""), "{arguments}: {stderr}");
        assert!(stderr.starts_with("stalltop: ") && stderr.lines().count() == 1, "{arguments}: {stderr}");
        assert!(stderr.contains("/proc"), "{stderr}");
    }
}

/// As on a kernel without CONFIG_DEBUG_INFO_BTF: most programs need the types by which tracepoints have arguments (tp_btf).
#[test]
fn without_the_types_of_the_kernel_wake_ups_are_traced_and_doctor_says_what_is_missing() {
    let program = program();
    let hidden = |command: &str| format!("mount -t tmpfs none /sys/kernel/btf || exit 99; exec '{program}' {command}");
    let flags = ["--mount"];
    // It is woken by the end of each child.
    let load = ChildGuard(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap());
    let pid = load.0.id();
    let Some(mut command) = shell_in(&flags, &hidden(&format!("trace --for 1s {pid}"))) else { return };
    let (code, stdout, stderr) = run(&mut command);
    if code == 99 {
        return println!("skipped: /sys/kernel/btf cannot be hidden here");
    }
    let here = stalltop(&["trace", "--for", "10ms", &pid.to_string()]).output().unwrap();
    if !here.status.success() {
        return println!("skipped: {}", String::from_utf8_lossy(&here.stderr));
    }
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains(&format!("({pid}), ")) && stdout.contains(" wake-ups, none lost\n"), "{stdout}");

    let Some(mut command) = shell_in(&flags, &hidden("doctor")) else { return };
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().filter(|line| line.starts_with("eBPF")).collect();
    assert!(lines.len() >= 6, "{stdout}");
    let (wake_ups, others): (Vec<&str>, _) = lines.iter().partition(|line| line.contains("stalltop trace"));
    for line in others {
        assert!(line.contains("the kernel does not describe its types (/sys/kernel/btf/vmlinux)"), "{line}");
    }
    let expected = "stalltop trace can tell which thread wakes which: the kernel does not describe its types (no BTF), where it keeps \
                    its threads was found";
    assert!(wake_ups.len() == 1 && wake_ups[0].ends_with(expected), "{stdout}");

    let Some(mut command) = shell_in(&flags, &hidden("check --json --probes auto --for 500ms -i 200ms")) else { return };
    let (code, stdout, stderr) = run(&mut command);
    assert!((0..=2).contains(&code), "{code} {stdout}{stderr}");
    let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(said["figures"]["busy_ratio"].is_number(), "{said}");
}

#[test]
fn a_full_file_system_is_a_finding() {
    let script = format!(
        "mount -t tmpfs -o size=2m none /mnt || exit 99; head -c 3000000 /dev/zero >/mnt/file 2>/dev/null; \
         exec '{}' check --json --for 4s -i 500ms",
        program()
    );
    let Some(mut command) = shell_in(&["--mount"], &script) else { return };
    let (code, stdout, stderr) = run(&mut command);
    if code == 99 {
        return println!("skipped: no tmpfs can be mounted here");
    }
    let said: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{code} {stdout}{stderr}"));
    let sentences: Vec<&str> = said["findings"].as_array().unwrap().iter().filter_map(|one| one["sentence"].as_str()).collect();
    let expected = "the file system /mnt has 0 B of 2.00 MiB left (df): writes fail (ENOSPC)";
    assert!(sentences.contains(&expected), "{sentences:?}");
}

#[test]
fn a_file_system_that_never_answers_hangs_nothing() {
    if !is_root() {
        return println!("skipped: mounting needs root");
    }
    match inside(&["unshare", "--mount"], "namespaces::inside_with_a_hung_mount") {
        Ok(said) => println!("{said}"),
        Err(why) => println!("skipped: {why}"),
    }
}

/// The other half of the test above.
#[test]
fn inside_with_a_hung_mount() {
    if !plays("namespaces::inside_with_a_hung_mount") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("hung");
    std::fs::create_dir(&at).unwrap();
    let shared = format!("/dev/shm/stalltop-{}", std::process::id());
    // The source of a mount is free text: these two lead into the file system itself.
    let through = format!("/dev/..{}/x", at.display());
    // Its daemon never answers.
    let Some(daemon) = mount_fuse(&at, &through) else { return println!("skipped: no FUSE here") };
    let second = std::os::unix::fs::symlink(at.join("x"), &shared).is_ok().then(|| mount_fuse(&at, &shared));
    let finishes = |command: &mut Command, what: &str| {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let code = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if begun.elapsed() > Duration::from_secs(25) => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let _ = child.kill();
        assert!(code.is_some_and(|code| code <= 2), "{what} hangs behind the mount: {code:?}");
    };
    let check = ["check", "--for", "500ms", "-i", "200ms"];
    finishes(&mut stalltop(&check), "check");
    // Its thread can be killed only while no thread holds a lock of that file system.
    finishes(stalltop(&check).env("XDG_STATE_HOME", at.join("state")), "a state directory");
    finishes(stalltop(&check).env("XDG_CONFIG_HOME", at.join("config")), "a configuration");
    // Another process waits there.
    let mut stuck = Command::new("cat").arg(at.join("file")).stderr(Stdio::null()).spawn().unwrap();
    finishes(&mut stalltop(&check), "check beside a process that waits there");
    let _ = stuck.kill();
    let _ = std::fs::remove_file(&shared);
    // Without its daemon the file system fails all requests, and the waiting process ends.
    drop((daemon, second));
    let _ = stuck.wait();
    let _ = nix::mount::umount2(&at, nix::mount::MntFlags::MNT_DETACH);
    let _ = nix::mount::umount2(&at, nix::mount::MntFlags::MNT_DETACH);
}
