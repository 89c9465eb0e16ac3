//! What happens on the machine of a scenario while time passes: everything that its counters count.

use stalltop::sample::histogram_bucket::HistogramBucket;

use super::{Machine, PAGE, TICKS};
use crate::format::{self, Phase, Shares};
use crate::network::Network;

impl Machine {
    pub(super) fn pass(&mut self, phase: &Phase, seconds: f64) {
        self.boottime_ns += (seconds * 1e9).round() as u64;
        self.monotonic_ns += (seconds * 1e9).round() as u64;
        for cpu in 0..self.cpus {
            let shares = phase.core.iter().find(|core| core.cpu == cpu).map_or(&phase.cpu, |core| &core.shares);
            for (field, share) in parts(shares) {
                self.add(&format!("cpu {cpu} {field}"), share * seconds * TICKS);
            }
        }
        for process in &phase.process {
            for pid in process.pid..process.pid + process.count {
                self.add(&format!("task {pid} run"), process.cpu * seconds * 1e9);
                self.add(&format!("task {pid} system"), process.system * seconds * TICKS);
                self.add(&format!("task {pid} user"), (process.cpu - process.system) * seconds * TICKS);
                self.add(&format!("task {pid} read"), process.read_kb.unwrap_or(0.0) * 1024.0 * seconds);
                self.add(&format!("task {pid} ended"), process.ended * seconds * TICKS);
                self.add(&format!("task {pid} delay"), process.run_queue * seconds * 1e9);
                self.add(&format!("task {pid} major"), process.major_faults * seconds);
                self.add(
                    &format!("task {pid} slices"),
                    match process.switches {
                        Some(rate) => rate * seconds,
                        None if process.cpu + process.run_queue > 0.0 => 10.0 * seconds,
                        None => 0.0,
                    },
                );
            }
        }
        self.add("forks", phase.forks.unwrap_or(0.0) * seconds);
        self.add("lost", phase.lost * seconds);
        for disk in &phase.disk {
            let name = &disk.name;
            let mut queue = 0.0;
            for (word, op) in operations(disk) {
                let Some(op) = op else { continue };
                for (per_second, ms) in &op.measured {
                    self.add(&format!("disk {name} {word} bucket {}", bucket(*ms)), per_second * seconds);
                }
                self.add(&format!("disk {name} {word}"), op.per_second * seconds);
                self.add(&format!("disk {name} {word} sectors"), op.per_second * seconds * op.kib * 2.0);
                self.add(&format!("disk {name} {word} ms"), op.per_second * seconds * op.await_ms);
                queue += op.per_second * op.await_ms * seconds;
            }
            self.add(&format!("disk {name} queue"), queue);
            self.add(&format!("disk {name} busy"), disk.busy / 100.0 * seconds * 1000.0);
        }
        self.add_network("", &Network::of_phase(phase), seconds);
        for namespace in &phase.namespace {
            self.add_network(&format!("{} ", namespace.pid), &Network::of_namespace(namespace), seconds);
        }
        for peer in &phase.peer {
            let mut add = |word: &str, by: f64| self.add(&format!("peer {} {word}", peer.address), by * seconds);
            add("acked", peer.sent_kb * 1024.0);
            add("segments", peer.sent_kb * 1024.0 / 1448.0);
            add("again", peer.retransmitted);
            let watched = f64::from(peer.active) * 1e6;
            add("watched", watched);
            add("busy", watched * (1.0 - peer.application / 100.0));
            add("receiver", watched * peer.receiver / 100.0);
            add("send buffer", watched * peer.send_buffer / 100.0);
        }
        for softnet in &phase.softnet {
            let mut add = |word: &str, by: f64| self.add(&format!("softnet {} {word}", softnet.cpu), by * seconds);
            add("packets", softnet.packets);
            add("squeezed", softnet.squeezed);
            add("dropped", softnet.dropped);
        }
        for group in &phase.cgroup {
            let path = &group.path;
            self.add(&format!("cgroup {path} used"), group.used_cpus * seconds * 1e9);
            self.add(&format!("cgroup {path} throttled"), group.throttled * seconds * 1e9);
            self.add(&format!("cgroup {path} periods"), 10.0 * seconds);
            let throttled = if group.throttled > 0.0 { group.throttled_periods.unwrap_or(1.0) } else { 0.0 };
            self.add(&format!("cgroup {path} throttled periods"), throttled * 10.0 * seconds);
            self.add(&format!("cgroup {path} refaults"), group.refaults * seconds);
            self.add(&format!("cgroup {path} major"), group.major_faults * seconds);
            self.add(&format!("cgroup {path} hits"), group.limit_hits.unwrap_or(0.0) * seconds);
            self.add(&format!("cgroup {path} memory stall"), group.memory_stall.unwrap_or(0.0) / 100.0 * seconds * 1e6);
            for limit in &group.io {
                self.add(&format!("cgroup {path} {} reads", limit.disk), limit.reads * seconds);
                self.add(&format!("cgroup {path} {} writes", limit.disk), limit.writes * seconds);
            }
        }
        if let Some(memory) = &phase.memory {
            self.add("memory in", memory.swap_in_mib * 1_048_576.0 / PAGE * seconds);
            self.add("memory out", memory.swap_out_mib * 1_048_576.0 / PAGE * seconds);
            self.add("memory refaults", memory.refaults * seconds);
            self.add("memory reclaimed", memory.reclaimed.unwrap_or(0.0) * seconds);
            self.add("memory direct", memory.direct.unwrap_or(0.0) * seconds);
            self.add("memory compacted", memory.compaction_stalls.or(memory.direct).unwrap_or(0.0) * seconds);
            self.add("memory major", memory.major_faults * seconds);
        }
        for limit in &phase.limit {
            self.add(&format!("refused {}", limit.kind), limit.refused.unwrap_or(0.0) * seconds);
        }
        for (word, percent) in [("cpu", phase.pressure.cpu), ("io", phase.pressure.io), ("memory", phase.pressure.memory)] {
            self.add(&format!("pressure {word}"), percent / 100.0 * seconds * 1e6);
        }
    }
}

fn parts(shares: &Shares) -> Vec<(&'static str, f64)> {
    let used = shares.user + shares.nice + shares.system + shares.irq + shares.softirq + shares.steal + shares.iowait;
    let idle = shares.idle.unwrap_or((100.0 - used).max(0.0));
    let whole = used + idle + shares.unaccounted;
    let parts = [
        ("user", shares.user),
        ("nice", shares.nice),
        ("system", shares.system),
        ("irq", shares.irq),
        ("softirq", shares.softirq),
        ("steal", shares.steal),
        ("iowait", shares.iowait),
        ("idle", idle),
    ];
    parts.map(|(field, share)| (field, share / whole)).to_vec()
}

pub(super) fn operations(disk: &format::Disk) -> [(&'static str, Option<&format::Operation>); 3] {
    [("reads", disk.reads.as_ref()), ("writes", disk.writes.as_ref()), ("flushes", disk.flushes.as_ref())]
}

/// The bucket of a latency.
fn bucket(ms: f64) -> u8 {
    let ns = (ms * 1e6) as u64;
    (0..=u8::MAX).find(|bucket| bucket.edges_ns().contains(&ns)).unwrap_or(u8::MAX)
}
