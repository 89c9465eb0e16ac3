//! Taskstats of the running kernel. Needs CAP_NET_ADMIN.

use std::process::Command;
use std::thread;

use stalltop::kernel::Sampler;
use stalltop::kernel::root::Root;
use stalltop::kernel::taskstats::{ExitListener, TaskStats, TaskstatsClient};
use stalltop::sample::Absent;

/// Whether this is only what this user, container or kernel lacks.
fn lacks(why: Absent) -> bool {
    matches!(why, Absent::NoPermission | Absent::NoSuchFile | Absent::Os(_))
}

#[test]
fn the_statistics_of_this_thread_are_correct() {
    let mut taskstats = match TaskstatsClient::open() {
        Err(why) if lacks(why) => return println!("skipped: no taskstats here: {why}"),
        opened => opened.unwrap(),
    };
    let tid = u32::try_from(nix::unistd::gettid().as_raw()).unwrap();
    let account = match taskstats.query_thread(tid) {
        Err(why) if lacks(why) => return println!("skipped: no taskstats for this user: {why}"),
        account => account.unwrap(),
    };
    assert_eq!(account.tid, tid);
    assert_eq!(account.comm(), std::fs::read("/proc/thread-self/comm").unwrap().trim_ascii_end());
    if let Some(tgid) = account.tgid {
        assert_eq!(tgid, std::process::id());
    }
    assert_eq!(account.ppid, u32::try_from(nix::unistd::getppid().as_raw()).unwrap());
    assert_eq!(taskstats.query_thread(u32::MAX >> 1), Err(Absent::Vanished));
    assert_eq!(taskstats.query_thread(tid).unwrap().tid, tid, "an error spoils nothing");
}

/// A storm that begins when all was quiet: more ends than the kernel holds for us, and no sample among them.
#[test]
fn exits_in_a_burst_are_received_between_two_samples() {
    let mut sampler = Sampler::new(Root::host()).unwrap();
    if let Err(why) = sampler.sample().exits {
        return println!("skipped: exit messages cannot be received: {why}");
    }
    let lost = |sampler: &mut Sampler| sampler.sample().exits.unwrap().lost_messages.0;
    let before = lost(&mut sampler);
    for _ in 0..5 {
        // Of each thread the kernel tells twice, for itself and for its process.
        (0..1_000).for_each(|_| thread::spawn(|| ()).join().unwrap());
        // One in three fetches; the budget may forbid one at first.
        let mut taken = 0;
        while taken < 3 {
            taken += u32::from(sampler.sub_sample());
        }
    }
    assert_eq!(lost(&mut sampler) - before, 0);
}

#[test]
fn the_exit_of_a_child_has_its_name_and_parent() {
    let cpus = Root::host().read_once("sys/devices/system/cpu/possible").unwrap();
    let mut exits = match ExitListener::register(&cpus) {
        Err(why) if lacks(why) => return println!("skipped: exit messages cannot be received: {why}"),
        listening => listening.unwrap(),
    };
    if !exits.may_receive_exits().unwrap() {
        return println!("skipped: the kernel tells of exits in its first network namespace only");
    }
    let mut child = Command::new("/bin/sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());
    // The kernel tells of an exit before it lets the parent know of it.
    let mut found: Option<TaskStats> = None;
    exits.fetch(usize::MAX, |account| found = if account.tid == pid { Some(*account) } else { found }).unwrap();
    if exits.lost_messages() > 0 {
        return println!("skipped: too much ends here");
    }
    let account = found.expect("the child's exit");
    assert_eq!((account.comm(), account.ppid), (&b"sh"[..], std::process::id()));
    assert!(account.elapsed_us > 100 && account.run_ns < account.elapsed_us * 1000 + 1_000_000, "{account:?}");
    if account.version >= 12 {
        assert_eq!((account.tgid, account.last_of_group), (Some(pid), Some(true)));
    }
}
