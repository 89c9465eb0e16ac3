//! Threads that wait for pages, and the processes with most major faults.

use crate::findings::cgroups::name_siblings;
use crate::findings::formatting::significant_digits;
use crate::findings::rule_context::RuleContext;
use crate::interval::blocked_threads::BlockedThread;
use crate::sample::waits::{Syscall, WaitClass};

/// Share of all major faults from which a process is named.
const MIN_NAMED_FAULT_SHARE: f64 = 0.1;

/// `; most major faults: fio (4 processes) 3200/s`; empty without faulters.
pub fn major_faults_clause(faulters: &str) -> String {
    if faulters.is_empty() { String::new() } else { format!("; most major faults: {faulters}") }
}

/// `fio (4 processes) 3200/s, app (4711) 12.0/s`; empty without one that has a significant part of these major faults per second.
pub fn list_major_faulters(context: &RuleContext, faults: f64) -> String {
    let awake = context.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.active_processes);
    let rates = awake.iter().filter_map(|span| Some((context.process(span.id.pid)?, span.major_faults?.0)));
    let groups = name_siblings(rates);
    let many = |rate: f64| rate >= 1.0 && rate >= faults * MIN_NAMED_FAULT_SHARE && faults > 0.0;
    let named = groups.iter().filter(|group| many(group.weight)).take(3);
    let listed: Vec<String> = named.map(|group| format!("{} {}/s", group.label(), significant_digits(group.weight))).collect();
    listed.join(", ")
}

/// Whether it waits for a page that is not in memory, or for memory itself.
pub fn waits_for_page(context: &RuleContext, thread: &BlockedThread) -> bool {
    let page = thread
        .wait
        .wchan
        .as_ref()
        .is_some_and(|channel| PAGE_WAIT_CHANNELS.iter().any(|prefix| channel.as_bytes().starts_with(prefix.as_bytes())));
    let call = thread.wait.syscall.and_then(|call| Syscall::from_number(context.interval.host.machine.as_bytes(), call));
    let syncing = call.is_some_and(Syscall::is_fsync_family);
    thread.class == WaitClass::Memory || thread.class == WaitClass::Disk && !syncing && (thread.is_page_fault() || page)
}

/// Wait channels of page cache readers, new kernels and old.
const PAGE_WAIT_CHANNELS: &[&str] =
    &["folio_wait", "__folio_lock", "folio_lock", "wait_on_page", "__lock_page", "filemap_", "swap_read"];
