//! eBPF programs of a process that is killed: the kernel releases them.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::harness::program;
use crate::serve::server::{PATIENCE, Server};

/// The numbers of the programs to which descriptors of this process lead.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let number = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    descriptors.filter_map(|entry| number(fs::read_to_string(entry.path()).ok()?)).collect()
}

fn loaded_programs() -> Result<BTreeSet<u32>, aya::programs::ProgramError> {
    aya::programs::loaded_programs().map(|program| Ok(program?.id())).collect()
}

fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not so in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn programs_are_released_when_the_process_is_killed() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: eBPF programs need root");
    }
    if let Err(why) =
        stalltop::kernel::probe::block_latencies::try_to_attach(&stalltop::kernel::Root::host(), program().as_ref())
    {
        return println!("skipped: {why}");
    }
    let server = Server::spawn(&["--interval", "200ms", "--probes", "on"]);
    let programs = until("it has programs", || Some(programs_of(server.pid())).filter(|programs| !programs.is_empty()));
    // Programs may end while they are listed.
    let loaded = || until("the list of programs", || loaded_programs().ok());
    assert!(programs.is_subset(&loaded()), "{programs:?}");
    // Dropping it sends SIGKILL.
    drop(server);
    until("they are released", || loaded().is_disjoint(&programs).then_some(()));
}
