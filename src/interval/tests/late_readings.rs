//! A sampler that loses its CPU between two files for up to 20 s: no figure exceeds what there is, and each is that of its own time.

use super::*;
use crate::sample::ReadDelays;
use crate::sample::cgroup::Cgroup;

static CPUS: f64 = 2.0;

/// Delays of the readings of one sample: disks, interfaces, cgroups, and each of the processes.
#[derive(Clone, Debug)]
struct Delays {
    subjects_us: [u32; 3],
    processes_us: [u32; 4],
}

prop_compose! {
    fn any_delays()(steps in prop::array::uniform7(prop_oneof![Just(0), 0..20_000_000_u32])) -> Delays {
        // Files are read one after the other. A delay below 4 ms is not noted.
        let mut passed = 0_u32;
        let mut next = |step: u32| { passed += if step < 4_000 { 0 } else { step }; passed };
        let subjects_us = [next(steps[0]), next(steps[1]), next(steps[2])];
        Delays { subjects_us, processes_us: [next(steps[3]), next(steps[4]), next(steps[5]), next(steps[6])] }
    }
}

/// A machine whose processes, disk, interface and cgroup have a constant rate. `shares` of the CPUs that the processes use.
fn sample(seconds: f64, shares: [f64; 4], delays: &Delays) -> Sample {
    let since = |delay_us: u32| seconds + f64::from(delay_us) / 1e6;
    let [disks_us, nics_us, cgroups_us] = delays.subjects_us;
    let ran_ns = |share: f64, delay_us: u32| (share * CPUS * since(delay_us) * 1e9) as u64;
    let mut processes = Vec::new();
    let mut read_times = Vec::new();
    for (pid, (share, delay_us)) in (50..).zip(shares.into_iter().zip(delays.processes_us)) {
        let run_ns = ran_ns(share, delay_us);
        processes.push(synthetic::process(pid, "p").started(1).ran(run_ns).threads([thread(pid, 1, run_ns / 4)]));
        read_times.push(ReadTime { pid, boottime_ns: at(seconds).at.boottime_ns + u64::from(delay_us) * 1000 });
    }
    let mut sample = synthetic::sample(seconds).processes(processes).build();
    if let Ok(tasks) = &mut sample.tasks {
        tasks.read_times = read_times;
    }
    let ticks = |cpus: f64| times((cpus * seconds * 100.0) as u64, 0, 0, 0);
    sample.cpu = Ok(cpus(ticks(CPUS), &[(0, ticks(1.0)), (1, ticks(1.0))]));
    let completed = Counter((since(disks_us) * 1000.0) as u64);
    sample.disks = Ok(vec![Disk { reads: OpCounters { completed, ..OpCounters::default() }, ..disk(0, 0) }]);
    sample.nics = Ok(vec![nic(2, (since(nics_us) * 1024.0 * 1000.0) as u64)]);
    sample.cgroups =
        Ok(vec![Cgroup { usage_ns: Some(Counter(ran_ns(1.0, cgroups_us))), ..Cgroup::new(synthetic::cgroup_id("/a")) }]);
    sample.read_delays = ReadDelays { disks_us, nics_us, cgroups_us, network_namespaces_us: 0 };
    sample
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn late_readings_change_no_figure(
        start in 100.0..1000.0_f64,
        length in 0.1..30.0_f64,
        parts in prop::array::uniform4(0.0..1.0_f64),
        older in any_delays(),
        newer in any_delays(),
    ) {
        // The next sample begins when the last one is complete.
        let end = start + f64::from(older.processes_us[3]) / 1e6 + length;
        let sum: f64 = parts.iter().sum::<f64>().max(0.01);
        let shares = parts.map(|part| part / sum);
        let interval = between(&sample(start, shares, &older), &sample(end, shares, &newer));
        let about = |figure: f64, truth: f64| (figure - truth).abs() <= truth * 0.03 + 0.001;
        let tasks = interval.tasks.as_ref().expect("both have tasks");
        for (process, share) in tasks.active_processes.iter().zip(shares) {
            let used = process.cpu.expect("two readings").0;
            prop_assert!(used <= CPUS && about(used, share * CPUS), "{used} of {}", share * CPUS);
        }
        prop_assert!(tasks.threads.iter().all(|thread| thread.cpu.is_none_or(|cpu| cpu.0 <= 1.0)));
        prop_assert!(tasks.busy_cpus.is_some_and(|busy| about(busy, CPUS)));
        let rate = interval.disks[0].reads.rate.0;
        prop_assert!(about(rate, 1000.0), "{rate} reads per second");
        let received = interval.network.nics[0].rx.kilobytes.0;
        prop_assert!(about(received, 1000.0), "{received} KB per second");
        let used = interval.cgroups[0].used_cpus.expect("two readings");
        prop_assert!(used <= CPUS && about(used, CPUS), "{used} CPUs of the cgroup");
    }

    /// A recording of an earlier version does not say when its counters were read.
    #[test]
    fn no_process_uses_more_cpus_than_there_are(
        length in 0.1..3.0_f64,
        older in any_delays(),
        newer in any_delays(),
    ) {
        let forget = |mut sample: Sample| {
            sample.read_delays = ReadDelays::default();
            sample.tasks.iter_mut().for_each(|tasks| tasks.read_times.clear());
            sample
        };
        let [older, newer] = [(100.0, older), (100.0 + length, newer)].map(|(at, delays)| forget(sample(at, [0.25; 4], &delays)));
        let interval = between(&older, &newer);
        let tasks = interval.tasks.as_ref().expect("both have tasks");
        prop_assert!(tasks.active_processes.iter().all(|process| process.cpu.is_none_or(|cpu| cpu.0 <= CPUS)));
        prop_assert!(interval.cgroups.iter().all(|group| group.used_cpus.is_none_or(|used| used <= CPUS)));
    }
}
