//! CPU time that no tick has counted, beside blocked threads.

use super::*;
use crate::sample::exits::Exits;

/// One CPU: all ticks are idle, a process has run for 0.9 s, and two groups have a thread in D all the time.
#[test]
fn blocked_threads_can_use_no_time_that_is_hidden_from_the_ticks() {
    let sample = |seconds: f64, idle: u64, run_ns: u64| {
        let total = times(0, 0, idle, 0);
        let process = synthetic::process(7, "hidden").with(|process| process.cpu_ns = Some(Counter(run_ns)));
        let mut sample = synthetic::sample(seconds).cpus([total]).processes([process]).build();
        sample.exits = Ok(Exits::default());
        let row = |group| GroupWaits { group, storage: 1, ..GroupWaits::default() };
        let waits = [row(0), row(1)].iter().flat_map(synthetic::waits::group).collect();
        let sub = SubSample { boottime_ns: sample.at.boottime_ns, cpu: Some(total), in_flight: Some(1), waits };
        let group = |pid| GroupId::Process(synthetic::process_id(pid));
        let (observed, groups) = (synthetic::waits::observed(), vec![group(7), group(8)]);
        sample.waits = Waits { sub_samples: vec![sub], observed, groups, ..Waits::default() };
        sample
    };
    let interval = between(&sample(10.0, 0, 0), &sample(11.0, 100, 900_000_000));
    let hidden = interval.cpu.expect("two readings").hidden_cpus;
    let blocked = interval.idle_blocked.expect("a sub-sample");
    assert!(hidden > 0.8 && blocked.available < 0.2, "{hidden}: {blocked:?}");
    assert!(
        close(blocked.ratio, blocked.available) && close(blocked.cpus, blocked.available) && blocked.free == 0.0,
        "{blocked:?}"
    );
    assert!(close(blocked.groups.iter().map(|group| group.ratio).sum(), blocked.ratio), "{:?}", blocked.groups);
}
