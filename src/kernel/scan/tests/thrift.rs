//! What is not read, because what is read already tells.

use std::fs;
use std::sync::Arc;

use super::machine::{Given, Machine, SECOND, one, only};
use super::new_pids;
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::sample::{Absent, Name};
use crate::units::Counter;

/// Its threads' schedstats, as these say.
pub(super) fn ran(machine: &mut Machine, pid: u32, clock_ns: u64, moved: &[(u32, u64)]) {
    for &(tid, run_ns) in moved {
        let directory = if tid == pid { pid.to_string() } else { format!("{pid}/task/{tid}") };
        machine.write(&format!("{directory}/schedstat"), format!("{run_ns} 7 {}\n", run_ns / 1_000_000));
    }
    machine.clock(pid, clock_ns);
}

#[test]
fn a_thread_that_came_and_went_has_left_its_time_to_the_process_only() {
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 10_000_000, &[one(40)]);
    machine.sweep();
    let own = fs::read(machine.path("40/task/40/stat")).unwrap();
    for clock_ns in [90_000_000, 100_000_000] {
        machine.put(40, "server", 5, clock_ns, &[Given { timeslices: clock_ns / 1_000_000, ..one(40) }]);
        machine.write("40/task/40/stat", &own);
        ran(&mut machine, 40, clock_ns, &[(40, clock_ns - 70_000_000)]);
        machine.sweep();
    }
    let process = &machine.sweep.processes[0].sampled;
    assert_eq!((process.user_ticks, process.threads[0].user_ticks), (Counter(10), Counter(1)));
}

#[test]
fn between_samples_who_worked_a_moment_ago_is_asked_first_and_nobody_else_when_that_explains_the_clock() {
    let mut machine = Machine::new(true);
    let threads: Vec<Given<'_>> = (40..44).map(one).collect();
    machine.put(40, "pool", 5, 40_000_000, &threads);
    machine.sweep();
    ran(&mut machine, 40, 42_000_000, &[(41, 11_000_000), (42, 11_000_000)]);
    machine.sweep();
    assert_eq!(machine.hot(), [41, 42]);
    ran(&mut machine, 40, 43_000_000, &[(41, 12_000_000)]);
    machine.sweep();
    machine.now_ns += SECOND / 2;
    let looked_ns = |machine: &mut Machine, tid| machine.known(40, tid).last_read_ns;
    let before = looked_ns(&mut machine, 42);
    ran(&mut machine, 40, 44_000_000, &[(41, 13_000_000)]);
    machine.now_ns += 2 * SECOND / 10;
    machine.sweep.sub_sample(machine.now_ns);
    assert_eq!((looked_ns(&mut machine, 41), looked_ns(&mut machine, 42)), (machine.now_ns, before));
    ran(&mut machine, 40, 46_000_000, &[(41, 14_000_000), (42, 12_000_000)]);
    machine.now_ns += SECOND / 10;
    machine.sweep.sub_sample(machine.now_ns);
    assert_eq!(looked_ns(&mut machine, 42), machine.now_ns, "it has run, too");
    assert_eq!(machine.known(40, 42).schedstat.unwrap().run_ns, Counter(12_000_000));
}

#[test]
fn who_is_at_rest_is_asked_for_his_clock_only_and_is_up_as_soon_as_that_moves() {
    let mut machine = Machine::new(false);
    for pid in [40, 50, 60, 70] {
        machine.put(pid, "daemon", 5, 10_000_000, &[one(pid)]);
    }
    let sweep = |machine: &mut Machine| {
        machine.now_ns += SECOND;
        machine.sweep.scan(machine.now_ns, new_pids::ForkCounters { forks: Some(Counter(7)), last_pid: None })
    };
    let up = |machine: &Machine| {
        machine.sweep.processes().iter().filter(|known| !known.is_parked()).map(|known| known.pid).collect::<Vec<_>>()
    };
    sweep(&mut machine);
    ran(&mut machine, 60, 12_000_000, &[(60, 12_000_000)]);
    let first = sweep(&mut machine);
    for _ in 0..40 {
        sweep(&mut machine);
    }
    let tasks = sweep(&mut machine);
    assert_eq!(up(&machine), [0; 0]);
    assert_eq!(tasks.hidden.wait_channels, 4, "another user's");
    assert!(tasks.processes.iter().zip(&first.processes).all(|(one, other)| one.pid == 60 || Arc::ptr_eq(one, other)));
    machine.end(50);
    machine.put(70, "daemon", 5, 13_000_000, &[Given { state: 'D', timeslices: 6, channel: "0", ..one(70) }]);
    let tasks = sweep(&mut machine);
    assert_eq!(tasks.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [40, 60, 70]);
    assert_eq!((up(&machine), machine.hot()), (vec![70], vec![70]));
    assert_eq!((only(&tasks, 70).1.state, tasks.hidden.wait_channels), (TaskState::Blocked, 3));
    assert_eq!(machine.sweep.sub_sampled_mut().map(|known| known.pid).collect::<Vec<_>>(), [70]);
}

#[test]
fn who_ran_within_half_a_minute_is_seen_to_run_between_samples_and_of_the_others_nobody_is_asked() {
    let mut machine = Machine::new(true);
    for pid in [40, 50] {
        machine.put(pid, "daemon", 5, 10_000_000, &[one(pid)]);
    }
    machine.sweep();
    machine.sweep();
    ran(&mut machine, 50, 12_000_000, &[(50, 12_000_000)]);
    for _ in 0..10 {
        machine.sweep();
    }
    let awake = |machine: &mut Machine| machine.sweep.sub_sampled_mut().map(|known| known.pid).collect::<Vec<_>>();
    assert_eq!(awake(&mut machine), [0; 0], "neither ran in the last seconds");
    ran(&mut machine, 40, 11_000_000, &[(40, 11_000_000)]);
    ran(&mut machine, 50, 13_000_000, &[(50, 13_000_000)]);
    machine.sweep.sub_sample(machine.now_ns + SECOND / 10);
    assert_eq!(awake(&mut machine), [50]);
    machine.sweep();
    assert_eq!(awake(&mut machine), [40, 50]);
}

#[test]
fn who_keeps_his_wait_even_from_us_is_asked_by_samples_only() {
    // A file that not even root may read, as the system call of a guarded process is.
    let guarded = std::path::Path::new("/proc/sys/vm/compact_memory");
    if !fs::read(guarded).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        return println!("skipped: no such file here");
    }
    let mut machine = Machine::new(true);
    machine.put(40, "guarded", 5, 10_000_000, &[Given { channel: "0", ..one(40) }]);
    fs::remove_file(machine.path("40/syscall")).unwrap();
    std::os::unix::fs::symlink(guarded, machine.path("40/syscall")).unwrap();
    machine.sweep();
    ran(&mut machine, 40, 12_000_000, &[(40, 12_000_000)]);
    assert_eq!(only(&machine.sweep(), 40).1.wait.wchan, Err(Absent::Hidden));
    machine.write("40/wchan", "ep_poll");
    ran(&mut machine, 40, 13_000_000, &[(40, 13_000_000)]);
    machine.sweep.sub_sample(machine.now_ns + SECOND / 10);
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Hidden), "not asked");
    ran(&mut machine, 40, 14_000_000, &[(40, 14_000_000)]);
    assert_eq!(only(&machine.sweep(), 40).1.wait.wchan, Ok(Name::from("ep_poll")));
    ran(&mut machine, 40, 15_000_000, &[(40, 15_000_000)]);
    machine.sweep.sub_sample(machine.now_ns + 2 * SECOND / 10);
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Poll), "asked again");
}
