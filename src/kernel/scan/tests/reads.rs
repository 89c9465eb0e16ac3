//! Files that a scan does not read, since other readings show that they did not change.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use super::machine::{Machine, SECOND, ThreadFiles, one, only};
use super::new_pids;
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::sample::{Absent, Name};
use crate::units::Counter;

/// Sets schedstat of these threads, and the CPU clock of their process.
pub(super) fn ran(machine: &mut Machine, pid: u32, clock_ns: u64, moved: &[(u32, u64)]) {
    for &(tid, run_ns) in moved {
        let directory = if tid == pid { pid.to_string() } else { format!("{pid}/task/{tid}") };
        machine.write(&format!("{directory}/schedstat"), format!("{run_ns} 7 {}\n", run_ns / 1_000_000));
    }
    machine.clock(pid, clock_ns);
}

#[test]
fn the_time_of_an_ended_thread_stays_in_the_process() {
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 10_000_000, &[one(40)]);
    machine.scan();
    let own = fs::read(machine.path("40/task/40/stat")).unwrap();
    let mut last = None;
    for clock_ns in [90_000_000, 100_000_000] {
        machine.put(40, "server", 5, clock_ns, &[ThreadFiles { timeslices: clock_ns / 1_000_000, ..one(40) }]);
        machine.write("40/task/40/stat", &own);
        ran(&mut machine, 40, clock_ns, &[(40, clock_ns - 70_000_000)]);
        let tasks = machine.scan();
        last = Some(Arc::clone(&tasks.processes[0]));
    }
    let process = last.unwrap();
    assert_eq!((process.user_ticks, process.threads[0].user_ticks), (Counter(10), Counter(1)));
}

#[test]
fn sub_samples_read_threads_that_ran_last_and_others_only_if_the_clock_needs_them() {
    let mut machine = Machine::new(true);
    let threads: Vec<ThreadFiles<'_>> = (40..44).map(one).collect();
    machine.put(40, "pool", 5, 40_000_000, &threads);
    machine.scan();
    ran(&mut machine, 40, 42_000_000, &[(41, 11_000_000), (42, 11_000_000)]);
    machine.scan();
    assert_eq!(machine.hot(), [41, 42]);
    ran(&mut machine, 40, 43_000_000, &[(41, 12_000_000)]);
    machine.scan();
    machine.now_ns += SECOND / 2;
    let looked_ns = |machine: &mut Machine, tid| machine.known(40, tid).last_read_ns;
    let before = looked_ns(&mut machine, 42);
    ran(&mut machine, 40, 44_000_000, &[(41, 13_000_000)]);
    machine.now_ns += 2 * SECOND / 10;
    machine.scanner.sub_sample(machine.now_ns);
    assert_eq!((looked_ns(&mut machine, 41), looked_ns(&mut machine, 42)), (machine.now_ns, before));
    ran(&mut machine, 40, 46_000_000, &[(41, 14_000_000), (42, 12_000_000)]);
    machine.now_ns += SECOND / 10;
    machine.scanner.sub_sample(machine.now_ns);
    assert_eq!(looked_ns(&mut machine, 42), machine.now_ns, "it has run, too");
    assert_eq!(machine.known(40, 42).schedstat.unwrap().run_ns, Counter(12_000_000));
}

#[test]
fn a_parked_process_is_read_as_soon_as_its_clock_moves() {
    let mut machine = Machine::new(false);
    for pid in [40, 50, 60, 70] {
        machine.put(pid, "daemon", 5, 10_000_000, &[one(pid)]);
    }
    let scan = |machine: &mut Machine| {
        machine.now_ns += SECOND;
        machine.scanner.scan(machine.now_ns, new_pids::ForkCounters { forks: Some(Counter(7)), last_pid: None })
    };
    let up = |machine: &Machine| {
        machine.scanner.processes().iter().filter(|known| !known.is_parked()).map(|known| known.pid).collect::<Vec<_>>()
    };
    scan(&mut machine);
    ran(&mut machine, 60, 12_000_000, &[(60, 12_000_000)]);
    let first = scan(&mut machine);
    for _ in 0..40 {
        scan(&mut machine);
    }
    let tasks = scan(&mut machine);
    assert_eq!(up(&machine), [0; 0]);
    assert_eq!(tasks.hidden.wait_channels, 4, "another user's");
    assert!(tasks.processes.iter().zip(&first.processes).all(|(one, other)| one.pid == 60 || Arc::ptr_eq(one, other)));
    machine.end(50);
    machine.put(70, "daemon", 5, 13_000_000, &[ThreadFiles { state: 'D', timeslices: 6, wchan: "0", ..one(70) }]);
    let tasks = scan(&mut machine);
    assert_eq!(tasks.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [40, 60, 70]);
    assert_eq!((up(&machine), machine.hot()), (vec![70], vec![70]));
    assert_eq!((only(&tasks, 70).1.state, tasks.hidden.wait_channels), (TaskState::Blocked, 3));
    assert_eq!(machine.scanner.sub_sampled_mut().map(|known| known.pid).collect::<Vec<_>>(), [70]);
}

#[test]
fn sub_samples_poll_processes_that_ran_in_the_last_half_minute() {
    let mut machine = Machine::new(true);
    for pid in [40, 50] {
        machine.put(pid, "daemon", 5, 10_000_000, &[one(pid)]);
    }
    machine.scan();
    machine.scan();
    ran(&mut machine, 50, 12_000_000, &[(50, 12_000_000)]);
    for _ in 0..10 {
        machine.scan();
    }
    let sub_sampled = |machine: &mut Machine| machine.scanner.sub_sampled_mut().map(|known| known.pid).collect::<Vec<_>>();
    assert_eq!(sub_sampled(&mut machine), [0; 0], "neither ran in the last seconds");
    ran(&mut machine, 40, 11_000_000, &[(40, 11_000_000)]);
    ran(&mut machine, 50, 13_000_000, &[(50, 13_000_000)]);
    machine.scanner.sub_sample(machine.now_ns + SECOND / 10);
    assert_eq!(sub_sampled(&mut machine), [50]);
    machine.scan();
    assert_eq!(sub_sampled(&mut machine), [40, 50]);
}

/// A file that not even root may read, like syscall of a protected process.
fn protected_file() -> Option<&'static Path> {
    let path = Path::new("/proc/sys/vm/compact_memory");
    fs::read(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied).then_some(path)
}

/// Yama (kernel.yama.ptrace_scope) forbids syscall, but not wchan.
#[test]
fn a_busy_process_whose_syscall_an_unprivileged_user_may_not_read_is_not_hidden() {
    let Some(protected) = protected_file() else { return println!("skipped: no such file here") };
    let mut machine = Machine::unprivileged();
    machine.put(40, "busy", 5, 10_000_000, &[ThreadFiles { wchan: "0", ..one(40) }]);
    fs::remove_file(machine.path("40/syscall")).unwrap();
    symlink(protected, machine.path("40/syscall")).unwrap();
    machine.scan();
    ran(&mut machine, 40, 12_000_000, &[(40, 12_000_000)]);
    let tasks = machine.scan();
    assert_eq!((&only(&tasks, 40).1.wait.wchan, tasks.hidden.wait_channels), (&Err(Absent::Vanished), 0), "it moved on");
}

#[test]
fn a_protected_process_is_asked_for_its_wait_by_scans_only() {
    let Some(protected) = protected_file() else { return println!("skipped: no such file here") };
    let mut machine = Machine::new(true);
    machine.put(40, "protected", 5, 10_000_000, &[ThreadFiles { wchan: "0", ..one(40) }]);
    fs::remove_file(machine.path("40/syscall")).unwrap();
    symlink(protected, machine.path("40/syscall")).unwrap();
    machine.scan();
    ran(&mut machine, 40, 12_000_000, &[(40, 12_000_000)]);
    assert_eq!(only(&machine.scan(), 40).1.wait.wchan, Err(Absent::Hidden));
    machine.write("40/wchan", "ep_poll");
    ran(&mut machine, 40, 13_000_000, &[(40, 13_000_000)]);
    machine.scanner.sub_sample(machine.now_ns + SECOND / 10);
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Hidden), "not asked");
    ran(&mut machine, 40, 14_000_000, &[(40, 14_000_000)]);
    assert_eq!(only(&machine.scan(), 40).1.wait.wchan, Ok(Name::from("ep_poll")));
    ran(&mut machine, 40, 15_000_000, &[(40, 15_000_000)]);
    machine.scanner.sub_sample(machine.now_ns + 2 * SECOND / 10);
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Poll), "asked again");
}

/// A directory in place of the file: the read fails with EISDIR, as it may with ENFILE or ENOMEM.
#[test]
fn a_process_that_cannot_be_read_for_another_reason_than_its_end_is_kept() {
    let mut machine = Machine::new(true);
    machine.keep_no_files_open();
    machine.put(40, "server", 5, 20_000_000, &[one(40), one(41)]);
    machine.scan();
    let stats = ["40/stat", "40/task/41/stat"].map(|path| machine.path(path));
    for stat in &stats {
        fs::remove_file(stat).unwrap();
        fs::create_dir(stat).unwrap();
    }
    machine.clock(40, 30_000_000);
    assert_eq!(only(&machine.scan(), 40).0.cpu_ns, Some(Counter(20_000_000)));
    fs::remove_dir(&stats[0]).unwrap();
    machine.write("40/stat", fs::read(machine.path("40/task/40/stat")).unwrap());
    ran(&mut machine, 40, 40_000_000, &[(40, 30_000_000)]);
    let tasks = machine.scan();
    assert_eq!((only(&tasks, 40).0.cpu_ns, tasks.processes[0].threads.len()), (Some(Counter(40_000_000)), 2));
}
