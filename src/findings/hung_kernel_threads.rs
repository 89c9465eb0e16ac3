//! Hung kernel threads as evidence for findings about stalled devices and hung tasks.

use crate::findings::finding::Evidence;
use crate::findings::formatting::lossy_name;
use crate::findings::hung_threads::waited_seconds;
use crate::findings::kernel_thread_tracker::HungKernelThread;
use crate::findings::rule_context::{RuleContext, evidence_optional, evidence_text};
use crate::ids::DiskId;

/// Number of threads that a sentence names.
const MAX_NAMED: usize = 3;

/// A kernel thread may have entered D this long before the device is seen to be stalled.
const ONSET_SLACK_NS: u64 = 2_000_000_000;

/// Kernel threads that have hung for `hung_seconds`.
pub fn hung_kernel_threads<'a>(context: &'a RuleContext) -> Vec<&'a HungKernelThread> {
    let long =
        |thread: &&HungKernelThread| waited_seconds(context.interval, thread.since_ns) >= context.thresholds.hung_seconds;
    context.state.hung_kernel_threads().iter().filter(long).collect()
}

/// Kernel threads that entered D when a device stalled. If several devices are stalled, the thread's name says which one.
pub fn hung_with_device<'a>(context: &'a RuleContext, device: DiskId) -> Vec<&'a HungKernelThread> {
    let Some(silent_ns) = context.state.stalled_since(device) else { return Vec::new() };
    let only = context.interval.disks.iter().all(|span| span.id == device || !span.stalled);
    let of_name = context.disk_name(device);
    let of_number = format!("{}:{}", device.major, device.minor);
    let since = |thread: &&HungKernelThread| thread.since_ns.saturating_add(ONSET_SLACK_NS) >= silent_ns;
    let its = |thread: &&HungKernelThread| {
        only || [&of_name, &of_number].iter().any(|word| lossy_name(&thread.name).contains(word.as_str()))
    };
    let long =
        |thread: &&HungKernelThread| waited_seconds(context.interval, thread.since_ns) >= context.thresholds.stalled_seconds;
    context.state.hung_kernel_threads().iter().filter(since).filter(its).filter(long).collect()
}

/// `jbd2/sdb1-8, kworker/u8:1+flush-8:16 and 2 more`
pub fn kernel_thread_names(threads: &[&HungKernelThread]) -> String {
    let named: Vec<String> = threads.iter().take(MAX_NAMED).map(|thread| lossy_name(&thread.name)).collect();
    let more = threads.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}

/// Names of the threads, as evidence.
pub fn kernel_thread_evidence(threads: &[&HungKernelThread]) -> Evidence {
    match threads {
        [] => evidence_optional("kernel_threads", None),
        some => evidence_text("kernel_threads", kernel_thread_names(some).as_str()),
    }
}
