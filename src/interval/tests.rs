//! Edge cases of the arithmetic: counters that decrease, CPUs, devices and tasks that appear and vanish, and arbitrary values as
//! in a damaged recording. Nothing may panic, and no figure may be NaN, infinite or negative.

mod asleep;
mod hidden;
mod hidden_time;
mod late_readings;
mod log_writer;
mod microstates;
mod new_tasks;
mod properties;
mod run_queue;

use std::sync::Arc;

use proptest::prelude::*;

use super::Interval;
use super::wait_counts::GroupWaits;
use crate::ids::{CpuId, GroupId, ProcessId, TaskId};
use crate::sample::cpu::{Cpu, CpuTimes};
use crate::sample::disk::{Disk, DiskFacts, OpCounters};
use crate::sample::host::Host;
use crate::sample::network::{DirectionCounters, Duplex, Nic, NicFacts};
use crate::sample::task::{Process, ReadTime, Schedstat, TaskIo, TaskState, Tasks, Thread};
use crate::sample::waits::{SubSample, WaitClass, Waits};
use crate::sample::{Absent, Sample};
use crate::synthetic::{self, cpu_times as times};
use crate::units::Counter;

fn host() -> Arc<Host> {
    Arc::new(synthetic::host())
}

fn at(seconds: f64) -> Sample {
    synthetic::sample(seconds).build()
}

fn between(older: &Sample, newer: &Sample) -> Interval {
    Interval::between(&host(), &Arc::new(older.clone()), &Arc::new(newer.clone())).expect("time passed")
}

fn cpus(total: CpuTimes, each: &[(u32, CpuTimes)]) -> Cpu {
    Cpu { total, cpus: each.iter().map(|&(id, times)| (CpuId(id), times)).collect(), ..Cpu::default() }
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

#[test]
fn samples_at_the_same_time_have_no_interval() {
    let sample = Arc::new(at(10.0));
    assert!(Interval::between(&host(), &sample, &sample).is_none());
    assert!(Interval::between(&host(), &Arc::new(at(11.0)), &sample).is_none(), "backwards");
}

#[test]
fn time_in_suspend_counts_and_is_reported() {
    let (older, mut newer) = (at(10.0), at(3610.0));
    newer.at.monotonic_ns = 20_000_000_000;
    let interval = between(&older, &newer);
    assert!(close(interval.seconds, 3600.0) && close(interval.suspended_seconds, 3590.0));
}

#[test]
fn shares_add_up_and_unaccounted_time_stays_visible() {
    let (mut older, mut newer) = (at(10.0), at(11.0));
    older.cpu = Ok(cpus(times(0, 0, 0, 0), &[(0, times(0, 0, 0, 0))]));
    newer.cpu = Ok(cpus(times(17, 0, 7, 0), &[(0, times(17, 0, 7, 0))]));
    let total = between(&older, &newer).cpu.expect("two readings").total;
    assert!(close(total.user, 0.17) && close(total.idle, 0.07) && close(total.unaccounted, 0.76), "{total:?}");
    newer.cpu = Ok(cpus(times(100, 0, 20, 0), &[(0, times(100, 0, 20, 0))]));
    let total = between(&older, &newer).cpu.expect("two readings").total;
    assert!(close(total.busy() + total.available() + total.unaccounted, 1.0), "120 % counted: {total:?}");
}

#[test]
fn a_counter_that_decreased_has_no_value_except_idle_and_iowait() {
    let (mut older, mut newer) = (at(10.0), at(11.0));
    older.cpu = Ok(cpus(times(500, 0, 900, 70), &[(0, times(500, 0, 900, 70))]));
    newer.cpu = Ok(cpus(times(590, 0, 899, 65), &[(0, times(590, 0, 899, 65))]));
    let total = between(&older, &newer).cpu.expect("a correction of idle costs nothing").total;
    assert!(close(total.user, 0.9) && total.idle == 0.0 && total.iowait == 0.0);
    newer.cpu = Ok(cpus(times(4, 0, 990, 80), &[(0, times(4, 0, 990, 80))]));
    assert!(between(&older, &newer).cpu.is_none(), "user fell");
}

#[test]
fn guest_time_is_never_more_than_the_user_time_it_is_in() {
    let (mut older, mut newer) = (at(10.0), at(11.0));
    let before = CpuTimes { guest_ticks: Some(Counter(0)), ..times(0, 0, 0, 0) };
    let after = CpuTimes { guest_ticks: Some(Counter(60)), ..times(50, 0, 50, 0) };
    older.cpu = Ok(cpus(before, &[(0, before)]));
    newer.cpu = Ok(cpus(after, &[(0, after)]));
    let total = between(&older, &newer).cpu.expect("two readings").total;
    assert!(close(total.guest, 0.5) && close(total.busy(), 0.5), "guest is not added again");
}

#[test]
fn a_cpu_that_went_offline_or_came_back_has_no_value_and_the_others_have() {
    let (mut older, mut newer) = (at(10.0), at(11.0));
    older.cpu =
        Ok(cpus(times(300, 0, 300, 0), &[(0, times(100, 0, 100, 0)), (1, times(100, 0, 100, 0)), (2, times(100, 0, 100, 0))]));
    // CPU 1 went offline, CPU 3 came online, the counters of CPU 2 were reset.
    newer.cpu = Ok(cpus(times(360, 0, 400, 0), &[(0, times(150, 0, 150, 0)), (2, times(1, 0, 2, 0)), (3, times(5, 0, 9, 0))]));
    let cpu = between(&older, &newer).cpu.expect("CPU 0 at least");
    assert_eq!(cpu.cpus.iter().map(|cpu| cpu.id.0).collect::<Vec<_>>(), [0]);
    assert!(close(cpu.total.user, 0.5) && close(cpu.total.idle, 0.5), "{:?}", cpu.total);
}

#[test]
fn any_number_of_cpus_may_go_offline_and_come_back() {
    let of = |ids: &[u32], busy: u64, idle: u64| {
        let each: Vec<_> = ids.iter().map(|&id| (id, times(busy, 0, idle, 0))).collect();
        cpus(times(busy * ids.len() as u64, 0, idle * ids.len() as u64, 0), &each)
    };
    let many: Vec<u32> = (0..300).collect();
    for (was, now, same) in
        [(&many[..2], &many[..], 2), (&many, &many[7..8], 1), (&[0, 2, 5], &[2, 5, 8191], 2), (&[0], &[1], 0)]
    {
        let (mut older, mut newer) = (at(10.0), at(11.0));
        older.cpu = Ok(of(was, 1000, 1000));
        newer.cpu = Ok(of(now, 1025, 1075));
        let cpu = between(&older, &newer).cpu;
        assert_eq!(cpu.as_ref().map_or(0, |cpu| cpu.cpus.len()), same);
        if let Some(cpu) = cpu.filter(|cpu| !cpu.cpus.is_empty()) {
            assert!(close(cpu.total.user, 0.25) && close(cpu.total.idle, 0.75), "{:?}", cpu.total);
        }
    }
}

#[test]
fn the_total_is_the_mean_of_the_cpus_if_its_line_decreased() {
    let (mut older, mut newer) = (at(10.0), at(11.0));
    older.cpu = Ok(cpus(times(900, 0, 900, 0), &[(0, times(0, 0, 0, 0)), (1, times(0, 0, 0, 0))]));
    newer.cpu = Ok(cpus(times(100, 0, 100, 0), &[(0, times(100, 0, 0, 0)), (1, times(0, 0, 100, 0))]));
    let cpu = between(&older, &newer).cpu.expect("both CPUs");
    assert!(close(cpu.total.user, 0.5) && close(cpu.tick_busy_cpus, 1.0));
}

fn disk(reads: u64, ms: u64) -> Disk {
    let reads = OpCounters { merged: Counter(reads), ..synthetic::operations(reads, 4, ms) };
    let facts = DiskFacts { serial: Some("A".into()), ..DiskFacts::default() };
    synthetic::disk("sda").facts(facts).reads(reads).in_flight(1).busy_ms(ms.min(1000), ms).build()
}

fn with_disks(seconds: f64, disks: Vec<Disk>) -> Sample {
    Sample { disks: Ok(disks), ..at(seconds) }
}

#[test]
fn a_disk_as_iostat_shows_it() {
    let interval = between(&with_disks(10.0, vec![disk(0, 0)]), &with_disks(12.0, vec![disk(800, 16_000)]));
    let span = &interval.disks[0];
    assert!(close(span.reads.rate.0, 400.0) && close(span.reads.r#await.expect("reads completed").0, 20.0));
    assert!(close(span.reads.kilobytes.0, 1600.0) && close(span.reads.request_size_kib.expect("reads"), 4.0));
    assert!(close(span.reads.concurrency, 8.0) && close(span.aqu_sz.expect("grew"), 8.0));
    assert!(close(span.reads.merged_share().expect("requests").0, 0.5));
    assert_eq!(span.writes.r#await, None, "no write completed");
    assert!(span.discards.is_none() && span.flushes.is_none(), "14 fields: unknown, not 0");
}

#[test]
fn eighteen_and_twenty_fields_have_discards_and_flushes() {
    let old = Disk { discards: Some(OpCounters::default()), ..disk(0, 0) };
    let new = Disk {
        flushes: Some(Counter(24)),
        flush_time_ms: Some(Counter(960)),
        discards: Some(OpCounters { completed: Counter(2), ..OpCounters::default() }),
        ..disk(0, 0)
    };
    let interval = between(&with_disks(10.0, vec![old]), &with_disks(11.0, vec![new.clone()]));
    assert_eq!(interval.disks[0].discards.expect("both have them").completed, 2);
    assert!(interval.disks[0].flushes.is_none(), "only one of the samples has them");
    let was = Disk { flushes: Some(Counter(0)), flush_time_ms: Some(Counter(0)), ..new.clone() };
    let interval = between(&with_disks(10.0, vec![was]), &with_disks(11.0, vec![new]));
    let flushes = interval.disks[0].flushes.expect("both have them");
    assert!(close(flushes.r#await.expect("completed").0, 40.0) && close(flushes.concurrency, 0.96));
}

#[test]
fn another_disk_under_the_same_name_is_another_disk() {
    let other = Disk { facts: Arc::new(DiskFacts { serial: Some("B".into()), ..DiskFacts::default() }), ..disk(900, 900) };
    assert!(between(&with_disks(10.0, vec![disk(0, 0)]), &with_disks(11.0, vec![other])).disks.is_empty());
    assert!(between(&with_disks(10.0, vec![disk(9, 9)]), &with_disks(11.0, vec![disk(5, 5)])).disks.is_empty(), "fell");
    assert!(between(&with_disks(10.0, vec![]), &with_disks(11.0, vec![disk(5, 5)])).disks.is_empty(), "new");
    assert!(between(&with_disks(10.0, vec![disk(5, 5)]), &with_disks(11.0, vec![])).disks.is_empty(), "gone");
}

#[test]
fn a_device_that_completes_nothing_has_no_queue() {
    let interval = between(&with_disks(10.0, vec![disk(5, 5)]), &with_disks(11.0, vec![disk(5, 5)]));
    assert!(interval.disks[0].stalled && interval.disks[0].aqu_sz.is_none());
}

fn nic(index: u32, bytes: u64) -> Nic {
    let (rx, tx) = (synthetic::traffic(bytes, bytes / 1000), synthetic::traffic(bytes / 2, bytes / 1000));
    synthetic::nic(index, "eth0").speed_mbps(100).rx(rx).tx(tx).build()
}

#[test]
fn an_interface_as_nicstat_defines_it() {
    let sample = |seconds, nic| Sample { nics: Ok(vec![nic]), ..at(seconds) };
    let interval = between(&sample(10.0, nic(2, 0)), &sample(12.0, nic(2, 12_500_000)));
    let span = &interval.network.nics[0];
    assert!(close(span.rx.kilobytes.0, 6_250_000.0 / 1024.0) && close(span.rx.average_bytes, 1000.0));
    assert!(close(span.rx.utilization.expect("speed").0, 0.5) && close(span.utilization.expect("speed").0, 0.5));
    let half = |mut nic: Nic| {
        nic.facts = Arc::new(NicFacts { duplex: Ok(Duplex::Half), ..(*nic.facts).clone() });
        nic
    };
    let interval = between(&sample(10.0, nic(2, 0)), &sample(12.0, half(nic(2, 12_500_000))));
    assert!(close(interval.network.nics[0].utilization.expect("speed").0, 0.75), "half duplex adds both up");
    let interval = between(&sample(10.0, nic(2, 0)), &sample(12.0, nic(3, 12_500_000)));
    assert!(interval.network.nics.is_empty(), "plugged again: another interface of the same name");
}

fn thread(tid: u32, start_ticks: u64, run_ns: u64) -> Thread {
    synthetic::thread(tid, "t").started(start_ticks).ran(run_ns, run_ns / 2, run_ns / 1_000_000).build()
}

fn process(pid: u32, start_ticks: u64, run_ns: u64) -> Arc<Process> {
    synthetic::process(pid, "p").started(start_ticks).ran(run_ns).threads([thread(pid, start_ticks, run_ns)]).into()
}

fn with_tasks(seconds: f64, processes: Vec<Arc<Process>>) -> Sample {
    synthetic::sample(seconds).processes(processes).build()
}

#[test]
fn a_reused_pid_is_a_new_task() {
    let older = with_tasks(10.0, vec![process(50, 1, 9_000_000_000), process(60, 1, 0)]);
    let late = process(55, 500, 3_000_000_000);
    let newer = with_tasks(11.0, vec![process(50, 1010, 400_000_000), late, process(60, 1, 250_000_000)]);
    let tasks = between(&older, &newer).tasks.expect("both samples have tasks");
    assert!(close(tasks.active_processes[0].cpu.expect("all it has used").0, 0.4), "no difference between two strangers");
    let thread = tasks.thread(TaskId { pid: 50, tid: 50, start_ticks: 1010 }).and_then(|thread| thread.cpu);
    assert!(close(thread.expect("all it has used").0, 0.4));
    assert_eq!(tasks.active_processes[1].cpu, None, "it was there before, unseen");
    assert!(close(tasks.active_processes[2].cpu.expect("the same").0, 0.25));
    assert_eq!((tasks.new_processes, close(tasks.busy_cpus.expect("two"), 0.65)), (2, true));
}

/// The sampler lost its CPU for 1.2 s while it read the second sample: what the process used meanwhile is in that reading, and is not
/// in the third one.
#[test]
fn cpu_time_is_divided_by_the_time_between_the_readings_of_the_process() {
    let cpu = |ticks| cpus(times(ticks, 0, 0, 0), &[(0, times(ticks / 2, 0, 0, 0)), (1, times(ticks / 2, 0, 0, 0))]);
    let with_cpus = |sample: Sample, ticks| Sample { cpu: Ok(cpu(ticks)), ..sample };
    let earlier = || process(20, 1, 5_000_000_000);
    let busy = |run_ns| synthetic::process(50, "p").started(1).ran(run_ns).threads([thread(50, 1, run_ns / 4)]).into();
    let first = with_cpus(with_tasks(10.0, vec![earlier(), busy(0)]), 0);
    let mut late = with_cpus(with_tasks(11.0, vec![earlier(), busy(4_180_000_000)]), 200);
    if let Ok(tasks) = &mut late.tasks {
        tasks.read_times = vec![ReadTime { pid: 50, boottime_ns: 12_200_000_000 }];
    }
    let third = with_cpus(with_tasks(13.0, vec![earlier(), busy(5_700_000_000)]), 600);
    let used = |older: &Sample, newer: &Sample| {
        let tasks = between(older, newer).tasks.expect("both samples have tasks");
        let span = tasks.process(&busy(0));
        (span.cpu.expect("two readings").0, tasks.threads[0].cpu.expect("two readings").0)
    };
    let (process_cpus, thread_cpus) = used(&first, &late);
    assert!(close(process_cpus, 1.9) && close(thread_cpus, 0.475), "4.18 s in 2.2 s: {process_cpus} {thread_cpus}");
    assert!(close(used(&late, &third).0, 1.9), "1.52 s in 0.8 s: {:?}", used(&late, &third));
    // A recording of an earlier version does not say when the process was read.
    if let Ok(tasks) = &mut late.tasks {
        tasks.read_times.clear();
    }
    assert!(close(used(&first, &late).0, 2.0), "there are two CPUs");
}

#[test]
fn memory_may_grow_and_shrink_and_a_new_process_grew_from_nothing() {
    let with_memory = |pid, start_ticks, run_ns, pages, bytes| -> Arc<Process> {
        let thread = thread(pid, start_ticks, run_ns);
        let process = synthetic::process(pid, "p").started(start_ticks).ran(run_ns).threads([thread]);
        process.with(|process| (process.resident_pages, process.virtual_bytes) = (pages, Some(bytes))).into()
    };
    let older = with_tasks(10.0, vec![with_memory(50, 1, 0, 100, 8192), with_memory(60, 1, 0, 100, 8192)]);
    let grown = vec![
        with_memory(50, 1, 1_000_000, 300, 4096),
        with_memory(60, 1, 0, 100, 8192),
        with_memory(70, 1050, 1_000_000, 7, 512),
    ];
    let newer = with_tasks(12.0, grown);
    let tasks = between(&older, &newer).tasks.expect("both samples have tasks");
    let growth = |at: usize| {
        let process = &newer.tasks.as_ref().expect("tasks").processes[at];
        let span = tasks.process(process);
        (span.resident_pages_growth.map(|pages| pages.0), span.virtual_bytes_growth.map(|bytes| bytes.0))
    };
    assert_eq!(growth(0), (Some(100.0), Some(-2048.0)));
    assert_eq!(growth(1), (Some(0.0), Some(0.0)), "it slept");
    assert_eq!(growth(2), (Some(3.5), Some(256.0)), "it started in the interval");
}

/// The row of a group and the chain above it have one count.
#[test]
fn a_process_group_counts_all_of_its_processes_as_the_wait_chain_does() {
    let siblings = |ran: u64| {
        let each = |pid| {
            let mut process = process(pid, 1, if pid == 50 { ran } else { 0 });
            Arc::make_mut(&mut process).ppid = 40;
            process
        };
        (50..53).map(each).collect::<Vec<_>>()
    };
    let interval = between(&with_tasks(10.0, siblings(0)), &with_tasks(11.0, siblings(300_000_000)));
    let groups = crate::interval::process_groups::process_groups(&interval);
    assert_eq!(groups.len(), 1, "one process of three is active");
    let label = crate::interval::group_label::group_label(&groups[0].id, &interval.older, &interval.newer);
    assert_eq!((groups[0].processes, label.processes), (3, 3));
}

/// Threads asleep for completions, with this many requests in flight: idle-but-blocked, and whether it is a lower bound.
fn blocked_on_completions(in_flight: Option<u32>) -> (f64, bool) {
    let cpu = |idle_ticks| CpuTimes { idle_ticks: Counter(idle_ticks), ..CpuTimes::default() };
    let (mut older, mut newer) = (at(1.0), at(2.0));
    older.cpu = Ok(cpus(cpu(0), &[(0, cpu(0))]));
    newer.cpu = Ok(cpus(cpu(100), &[(0, cpu(100))]));
    let waits = synthetic::waits::group(&GroupWaits { aio: 1, ..GroupWaits::default() });
    let boottime_ns = newer.at.boottime_ns;
    newer.waits.groups = vec![GroupId::Process(ProcessId { pid: 7, start_ticks: 1 })];
    newer.waits.observed = synthetic::waits::observed();
    newer.waits.sub_samples = vec![SubSample { boottime_ns, cpu: Some(cpu(100)), in_flight, waits }];
    let blocked = between(&older, &newer).idle_blocked.expect("CPU times");
    (blocked.blocked_threads, blocked.lower_bound)
}

#[test]
fn an_unknown_number_of_requests_in_flight_makes_a_lower_bound() {
    assert_eq!(blocked_on_completions(Some(1)), (1.0, false));
    assert_eq!(blocked_on_completions(Some(0)), (0.0, false));
    assert_eq!(blocked_on_completions(None), (0.0, true));
}
