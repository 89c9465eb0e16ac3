//! eBPF programs of a process that is killed: the kernel releases them.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use crate::child_guard::ChildGuard;
use crate::harness::program;
use crate::serve::server::Server;
use crate::until::until_some;

/// The numbers of the programs to which descriptors of this process lead.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let number = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    descriptors.filter_map(|entry| number(fs::read_to_string(entry.path()).ok()?)).collect()
}

fn loaded_programs() -> Result<BTreeSet<u32>, aya::programs::ProgramError> {
    aya::programs::loaded_programs().map(|program| Ok(program?.id())).collect()
}

fn start(arguments: &[&str]) -> ChildGuard {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ChildGuard(command.spawn().unwrap())
}

/// Whether eBPF programs can be loaded; otherwise says why not.
pub fn may_load() -> bool {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: eBPF programs need root");
        return false;
    }
    let attached = stalltop::kernel::probe::block_latencies::try_to_attach(&stalltop::kernel::Root::host(), program().as_ref());
    if let Err(why) = &attached {
        println!("skipped: {why}");
    }
    attached.is_ok()
}

/// `running` is killed by being dropped.
fn are_released<T>(what: &str, running: T, pid: u32) {
    let programs =
        until_some(&format!("{what} has programs"), || Some(programs_of(pid)).filter(|programs| !programs.is_empty()));
    // Programs may end while they are listed.
    let loaded = || until_some("the list of programs", || loaded_programs().ok());
    assert!(programs.is_subset(&loaded()), "{what}: {programs:?}");
    drop(running);
    until_some(&format!("those of {what} are released"), || loaded().is_disjoint(&programs).then_some(()));
}

#[test]
fn programs_are_released_when_the_process_is_killed() {
    if !may_load() {
        return;
    }
    let server = Server::spawn(&["--interval", "200ms", "--probes", "on"]);
    let pid = server.pid();
    are_released("serve", server, pid);
}

#[test]
fn programs_of_probes_and_traces_are_released_when_they_are_killed() {
    if !may_load() {
        return;
    }
    let own = std::process::id().to_string();
    for arguments in [&["probe", "fs"][..], &["probe", "runq"], &["trace", "--no-config", "--for", "5m", &own]] {
        let running = start(arguments);
        let pid = running.id();
        are_released(&arguments.join(" "), running, pid);
    }
}
