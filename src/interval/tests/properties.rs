//! Figures of arbitrary samples: none is NaN, infinite or negative.

use super::*;

fn any_counter() -> impl Strategy<Value = Counter> {
    prop_oneof![Just(0), Just(u64::MAX), 0..1000_u64, any::<u64>()].prop_map(Counter)
}

prop_compose! {
    fn any_times()(parts in prop::array::uniform10(any_counter().boxed()).boxed(), some in any::<bool>()) -> CpuTimes {
        CpuTimes {
            user_ticks: parts[0],
            nice_ticks: parts[1],
            system_ticks: parts[2],
            idle_ticks: parts[3],
            iowait_ticks: parts[4],
            irq_ticks: parts[5],
            softirq_ticks: parts[6],
            steal_ticks: some.then_some(parts[7]),
            guest_ticks: some.then_some(parts[8]),
            guest_nice_ticks: some.then_some(parts[9]),
        }
    }
}

prop_compose! {
    fn any_op()(parts in prop::array::uniform4(any_counter().boxed()).boxed()) -> OpCounters {
        OpCounters { completed: parts[0], merged: parts[1], sectors: parts[2], time_ms: parts[3] }
    }
}

prop_compose! {
    fn any_sample()(
        start in 0..4_u64,
        length in prop_oneof![Just(0.0), Just(0.1), Just(1.0), Just(86_400.0)],
        total in any_times().boxed(),
        each in prop::collection::btree_map(0..4_u32, any_times().boxed(), 0..4).boxed(),
        ops in prop::array::uniform4(any_op().boxed()).boxed(),
        gauges in prop::array::uniform6(any_counter().boxed()).boxed(),
        run in prop::array::uniform3(any_counter().boxed()).boxed(),
        waits in prop::array::uniform9(any::<u16>()).boxed(),
        sub_cpu in prop::option::of(any_times().boxed()).boxed(),
    ) -> Sample {
        let mut sample = at(1000.0 * start as f64 + length);
        sample.cpu = Ok(Cpu { total, cpus: each.into_iter().map(|(id, times)| (CpuId(id), times)).collect(), ..Cpu::default() });
        sample.disks = Ok(vec![Disk {
            reads: ops[0],
            writes: ops[1],
            discards: Some(ops[2]),
            flushes: Some(gauges[0]),
            flush_time_ms: Some(gauges[1]),
            io_ticks_ms: gauges[2],
            time_in_queue_ms: gauges[3],
            ..disk(0, 0)
        }]);
        let one = DirectionCounters { bytes: run[0], packets: run[1], errors: run[2], dropped: gauges[4], fifo_errors: gauges[5] };
        sample.nics = Ok(vec![Nic { rx: one, tx: one, ..nic(2, 0) }]);
        let mut threads = thread(50, 1, 0);
        threads.schedstat = Some(Schedstat { run_ns: run[0], run_delay_ns: run[1], timeslices: run[2] });
        let mut process = (*process(50, 1, 0)).clone();
        process.cpu_ns = (start % 2 == 0).then_some(run[0]);
        process.user_ticks = run[1];
        process.system_ticks = run[2];
        process.threads = Arc::new([threads]);
        sample.tasks = Ok(Tasks { processes: vec![Arc::new(process)], ..Tasks::default() });
        let row = crate::interval::wait_counts::GroupWaits {
            group: 0,
            running: waits[0],
            storage: waits[1],
            aio: waits[2],
            memory: waits[3],
            other_blocked: waits[4],
            hidden_blocked: waits[5],
            lock_contended: waits[6],
            lock_inferred: waits[7],
            lock_likely: 0,
            ipc_peer: waits[8],
            lock_alone: 0,
            file_lock: 0,
            kernel_lock: 0,
            mmap_lock: 0,
            lock_off_storage: 0,
            storage_in_memory_map: 0,
        };
        let sub = SubSample { boottime_ns: sample.at.boottime_ns, cpu: sub_cpu, in_flight: Some(1), waits: synthetic::waits::group(&row) };
        sample.waits = Waits {
            sub_samples: vec![sub],
            observed: synthetic::waits::observed(),
            groups: vec![GroupId::Process(ProcessId { pid: 50, start_ticks: 1 })],
            ..Waits::default()
        };
        sample
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_figure_is_nan_infinite_or_negative(older in any_sample().boxed(), newer in any_sample().boxed()) {
        let (older, newer) = (Arc::new(older), Arc::new(newer));
        let Some(interval) = Interval::between(&host(), &older, &newer) else { return Ok(()) };
        let mut figures = vec![interval.seconds, interval.suspended_seconds];
        if let Some(cpu) = &interval.cpu {
            for shares in cpu.cpus.iter().map(|cpu| &cpu.shares).chain([&cpu.total]) {
                let parts = [shares.user, shares.nice, shares.system, shares.irq, shares.softirq, shares.steal, shares.idle];
                figures.extend(parts);
                figures.extend([shares.iowait, shares.guest, shares.guest_nice, shares.unaccounted]);
                let sum = shares.busy() + shares.available() + shares.steal + shares.unaccounted;
                prop_assert!(sum <= 1.0 + 1e-9, "shares add up to {sum}");
            }
        }
        for (_, op) in interval.disks.iter().flat_map(|disk| disk.operations()) {
            figures.extend([op.rate.0, op.kilobytes.0, op.merged.0, op.concurrency]);
            figures.extend(op.r#await.map(|ms| ms.0));
            figures.extend(op.request_size_kib);
        }
        for disk in &interval.disks {
            figures.extend(disk.aqu_sz);
            figures.extend(disk.busy.map(|busy| busy.0));
            prop_assert!(disk.busy.is_none_or(|busy| busy.0 <= 1.0));
        }
        for nic in &interval.network.nics {
            figures.extend([nic.rx.kilobytes.0, nic.rx.packets.0, nic.rx.average_bytes]);
            figures.extend(nic.utilization.map(|share| share.0));
            figures.extend(nic.saturation.map(|rate| rate.0));
        }
        if let Some(tasks) = &interval.tasks {
            for thread in &tasks.threads {
                let states = thread.states;
                figures.extend([states.non_sleep(), states.sleep, states.unknown]);
                figures.extend(thread.cpu.map(|cpu| cpu.0));
                prop_assert!((states.non_sleep() + states.sleep + states.unknown - 1.0).abs() < 1e-6);
            }
            figures.extend(tasks.busy_cpus);
            figures.extend(tasks.run_queue_wait);
        }
        if let Some(blocked) = &interval.idle_blocked {
            figures.extend([blocked.ratio, blocked.cpus, blocked.free, blocked.available, blocked.blocked_threads]);
            figures.extend(blocked.groups.iter().map(|group| group.ratio));
            prop_assert!(blocked.ratio <= blocked.available + 1e-9, "{} of {}", blocked.ratio, blocked.available);
            let of_groups: f64 = blocked.groups.iter().map(|group| group.ratio).sum();
            prop_assert!(of_groups <= blocked.ratio + 1e-9, "{of_groups} of {}", blocked.ratio);
        }
        prop_assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{figures:?}");
    }
}
