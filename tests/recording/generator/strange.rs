//! Strange samples: every field may hold anything, be missing, or be missing for any reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use stalltop::ids::CpuId;
use stalltop::sample::block_latencies::BlockLatencies;
use stalltop::sample::cgroup::CgroupWeight;
use stalltop::sample::cpu::{Cpu, CpuFrequency, Load};
use stalltop::sample::exits::{Exits, UnlistedExits};
use stalltop::sample::limits::Limits;
use stalltop::sample::memory::MemoryNode;
use stalltop::sample::network::namespaces::{NamespaceNic, NetworkNamespaces};
use stalltop::sample::operations::Operations;
use stalltop::sample::pressure::Pressure;
use stalltop::sample::stacks::{ThreadStack, UserStack};
use stalltop::sample::task::{HiddenTasks, Process, ReadTime, RunTime, Tasks, WaitState};
use stalltop::sample::{Absent, Instant, ReadDelays, Sample, SamplingCost};

use super::dice::Dice;
use super::strange_host::{cgroup, container_name, cpu_times, disk, io_limit, latency_bucket, limit, memory, stall};
use super::strange_network::{network_namespace, nic, protocols};
use super::strange_tasks::{call, exited, strange_process, task, task_delays, used};
use super::strange_waits::waits;

/// Any sample: every field may hold anything, be missing, or be missing for any reason.
pub fn strange_sample(dice: &mut Dice) -> Sample {
    let d = dice;
    Sample {
        at: Instant { boottime_ns: d.u64(), monotonic_ns: d.u64(), realtime_ns: i64::from_ne_bytes(d.u64().to_ne_bytes()) },
        cpu: d.reading(|d| Cpu {
            total: cpu_times(d),
            cpus: d.list(4, |d| (CpuId(d.u32()), cpu_times(d))),
            context_switches: d.maybe(Dice::counter),
            interrupts: d.maybe(Dice::counter),
            forks: d.maybe(Dice::counter),
            running: d.maybe(Dice::u32),
            blocked: d.maybe(Dice::u32),
        }),
        load: d.reading(|d| Load { one: d.float(), five: d.float(), fifteen: d.float(), runnable: d.u32(), entities: d.u32() }),
        memory: d.reading(memory),
        pressure: Pressure { cpu: d.reading(stall), io: d.reading(stall), memory: d.reading(stall), irq: d.reading(stall) },
        disks: d.reading(|d| d.list(3, disk)),
        block_latencies: d.reading(|d| BlockLatencies { since_boottime_ns: d.u64(), buckets: d.list(5, latency_bucket) }),
        nics: d.reading(|d| d.list(3, nic)),
        protocols: protocols(d),
        limits: d.reading(|d| Limits {
            has_descriptor_counts: d.bool(),
            has_unanswered_statfs: d.bool(),
            rows: d.list(3, limit),
        }),
        network_namespaces: d.reading(|d| NetworkNamespaces {
            count: d.u32(),
            hidden_processes: d.u32(),
            rows: d.list(3, network_namespace),
            nics: d.list(3, |d| NamespaceNic { namespace: d.u64(), nic: nic(d) }),
        }),
        cgroups: d.reading(|d| d.list(3, cgroup)),
        io_limits: d.list(3, io_limit),
        delays: d.reading(|d| d.list(3, task_delays)),
        stacks: d.reading(|d| d.list(3, |d| ThreadStack { task: task(d), kernel: d.reading(Dice::name) })),
        user_stacks: d.reading(|d| d.list(3, |d| UserStack { task: task(d), functions: d.reading(Dice::name) })),
        memory_nodes: d.list(3, |d| MemoryNode {
            node: d.u32(),
            total_kb: d.u64(),
            free_kb: d.u64(),
            file_kb: d.u64(),
            slab_reclaimable_kb: d.u64(),
        }),
        cpu_frequencies: d.list(3, |d| CpuFrequency { cpu: CpuId(d.u32()), khz: d.u32(), max_khz: d.u32(), read_s: d.u32() }),
        cgroup_weights: d.list(3, |d| CgroupWeight { id: cgroup(d).id, weight: d.u64() }),
        read_delays: ReadDelays { disks_us: d.u32(), nics_us: d.u32(), cgroups_us: d.u32(), network_namespaces_us: d.u32() },
        container_names: d.list(3, container_name),
        // No recording has them.
        context_switches: Err(Absent::NotRead),
        tasks: d.reading(|d| {
            let mut processes = d.list(6, strange_process);
            processes.sort_by_key(|process| process.pid);
            processes.dedup_by_key(|process| process.pid);
            Tasks {
                processes: processes.into_iter().map(Arc::new).collect(),
                users: Arc::new(d.list(3, |d| (d.u32(), d.name())).into_iter().collect()),
                hidden: HiddenTasks { wait_channels: d.u32(), schedstats: d.u32(), processes: d.bool() },
                read_times: d.list(3, |d| ReadTime { pid: d.u32(), boottime_ns: d.u64() }),
                run_times: d.list(3, |d| RunTime { task: task(d), run_ns: d.counter(), cpu: d.maybe(|d| CpuId(d.u32())) }),
            }
        }),
        waits: waits(d),
        exits: d.reading(|d| Exits {
            rows: d.list(4, exited),
            unlisted: UnlistedExits { processes: d.u32(), cpu: used(d), threads: d.u32() },
            previously_sampled: d.u32(),
            lost_messages: d.counter(),
        }),
        operations: d.reading(|d| Operations { total: d.counter(), printed_boottime_ns: d.u64() }),
        cost: SamplingCost {
            process_cpu_ns: d.counter(),
            scan_cpu_ns: d.u64(),
            sub_samples_cpu_ns: d.u64(),
            start_delay_ns: d.u64(),
            tasks_read: d.u32(),
            skipped_samples: d.u32(),
        },
    }
}

/// Samples in which much stays, some changes, comes and goes, and now and then nothing is as it was.
pub fn strange_samples(dice: &mut Dice, count: usize) -> Vec<Arc<Sample>> {
    let mut samples: Vec<Arc<Sample>> = Vec::new();
    for _ in 0..count {
        let mut next = strange_sample(dice);
        if let Some(last) = samples.last().filter(|_| !dice.one_in(5)) {
            if let (Ok(new), Ok(old)) = (&mut next.tasks, &last.tasks) {
                let mut processes: BTreeMap<u32, Arc<Process>> = BTreeMap::new();
                for process in &old.processes {
                    if dice.one_in(5) {
                        continue;
                    }
                    let kept = match dice.below(4) {
                        0 => {
                            let mut process = Process::clone(process);
                            process.user_ticks = dice.counter();
                            if let Some(thread) = process.threads_mut().first_mut() {
                                thread.user_ticks = dice.counter();
                                thread.wait = WaitState {
                                    wchan: dice.reading(Dice::name),
                                    syscall: dice.reading(|dice| call(dice).into()),
                                };
                            }
                            Arc::new(process)
                        }
                        1 => Arc::new(Process::clone(process)),
                        _ => process.clone(),
                    };
                    processes.insert(process.pid, kept);
                }
                for process in std::mem::take(&mut new.processes) {
                    processes.entry(process.pid).or_insert(process);
                }
                new.processes = processes.into_values().collect();
                if dice.bool() {
                    new.users = old.users.clone();
                }
            }
            if dice.bool() {
                next.disks = last.disks.clone();
                next.memory = last.memory;
                next.waits = last.waits.clone();
            }
        }
        samples.push(Arc::new(next));
    }
    samples
}
