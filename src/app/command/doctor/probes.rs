//! Whether eBPF programs can be loaded and attached here: tries it.

use crate::app::program::privileges::{HOST_PIDS, bpf_remedy};
use crate::cli::ProbeMode;
use crate::kernel::probe::loader_process::{self, TaskAccess};
use crate::kernel::probe::lock_fields::{HeldLocks, LockFields};
use crate::kernel::probe::{TaskIterator, block_latencies};
use crate::kernel::{Root, wake_trace};
use crate::report::formatting::printable;

/// Whether eBPF programs can be loaded: loads the task iterator.
pub fn bpf_iterator_line(in_initial_pid_namespace: bool, probes: ProbeMode) -> String {
    if probes == ProbeMode::Off {
        return "eBPF      holders of locks inside the kernel are not named: probes = \"off\"\n".to_owned();
    }
    if !in_initial_pid_namespace {
        return format!(
            "eBPF      holders of locks inside the kernel are not named: this is a pid namespace of its own, and the kernel names \
             threads by their numbers on the host: {HOST_PIDS}\n"
        );
    }
    match TaskIterator::load(&loader_process::own_executable()) {
        Ok(iterator) => match iterator.lock_fields() {
            Ok(Some(fields)) => format!("eBPF      programs can be loaded: {}\n", kernel_locks(fields)),
            Ok(None) => "eBPF      programs can be loaded: holders of locks inside the kernel are named\n".to_owned(),
            Err(why) => {
                format!("eBPF      programs can be loaded, but holders of locks inside the kernel are not named: {why}\n")
            }
        },
        Err(why) => {
            let why = printable(&why.to_string());
            format!(
                "eBPF      programs cannot be loaded, and holders of locks inside the kernel are not named: {why}: {}\n",
                bpf_remedy(true)
            )
        }
    }
}

/// The holders of which locks inside the kernel are named, and by what, as the programs have found.
fn kernel_locks(fields: LockFields) -> String {
    let (field, has_contention) = fields.awaited_lock();
    let name = |locks: &HeldLocks| match locks {
        HeldLocks::Mutexes => "mutexes",
        HeldLocks::Semaphores => "semaphores",
        HeldLocks::RwSemaphores if has_contention => "rw-semaphores",
        HeldLocks::RwSemaphores => "rw-semaphores (from Linux 6.17 on)",
        HeldLocks::MmapLock => "mmap_lock",
    };
    let (named, others): (Vec<HeldLocks>, Vec<HeldLocks>) =
        HeldLocks::ALL.into_iter().partition(|&locks| fields.missing(locks).is_none());
    let list = |locks: &[HeldLocks]| locks.iter().map(name).collect::<Vec<_>>().join(", ");
    let how = match (field, has_contention) {
        (None, false) => String::new(),
        (Some(field), false) => format!(" (by {field})"),
        (Some(field), true) => format!(" (by {field}, else {BY_CONTENTION})"),
        (None, true) => format!(" ({BY_CONTENTION})"),
    };
    let what = "holders of locks inside the kernel";
    let Some(missing) = others.first().and_then(|&first| fields.missing(first)) else {
        return format!("{what} are named: of {}{how}", list(&named));
    };
    let remedy = if has_contention { "CONFIG_DETECT_HUNG_TASK_BLOCKER, in Linux 6.16" } else { BLOCKER_REMEDY };
    let why = format!("of {} they are not: this kernel has no {missing}: {remedy}", list(&others));
    match named.is_empty() {
        true => format!("{what} are not named: {why}"),
        false => format!("{what} are named of {}{how}; {why}", list(&named)),
    }
}

/// What it can say.
const BY_CONTENTION: &str = "by the tracepoint contention_begin, for waits that begin while threads are seen to wait";
/// The versions from which on threads say for which lock they wait.
const BLOCKER_REMEDY: &str = "CONFIG_DETECT_HUNG_TASK_BLOCKER, in Linux 6.15 for mutexes, 6.16 semaphores, 6.17 rw-semaphores; or Linux \
                              5.19 with its tracepoint contention_begin";

/// Whether the latencies of single disk requests can be measured: attaches the program, and detaches it again.
pub fn block_latencies_line(root: &Root, probes: ProbeMode) -> String {
    if probes == ProbeMode::Off {
        return "eBPF      latencies of single disk requests are not measured: probes = \"off\"\n".to_owned();
    }
    match block_latencies::try_to_attach(root, &loader_process::own_executable()) {
        Ok(()) => "eBPF      latencies of single disk requests are measured: p50, p99 and others of each disk and operation\n"
            .to_owned(),
        Err(why) => {
            let why = printable(&why.to_string());
            format!("eBPF      latencies of single disk requests are not measured: {why}: {}\n", bpf_remedy(true))
        }
    }
}

/// Whether wake-ups can be traced: attaches the programs, for no process, and detaches them again.
pub fn trace_line(root: &Root, in_initial_pid_namespace: bool, probes: ProbeMode) -> String {
    let why = match probes {
        ProbeMode::Off => "probes = \"off\"".to_owned(),
        _ if !in_initial_pid_namespace => format!("this is a pid namespace of its own: {HOST_PIDS}"),
        _ => match wake_trace::try_to_attach(root, &loader_process::own_executable()) {
            Ok(access) => {
                let how = match access {
                    TaskAccess::Types => "",
                    TaskAccess::Layout => {
                        ": the kernel does not describe its types (no BTF), where it keeps its threads was found"
                    }
                };
                return format!(
                    "eBPF      wake-ups show which thread holds a mutex of Rust that others queue for; stalltop trace can tell which thread wakes which{how}\n"
                );
            }
            Err(why) => {
                let why = printable(&why.to_string());
                format!("{why}: {}", bpf_remedy(false))
            }
        },
    };
    format!(
        "eBPF      wake-ups do not show which thread holds a mutex of Rust, and stalltop trace cannot tell which thread wakes which: {why}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_whose_holders_this_kernel_does_not_name_are_listed_with_what_it_lacks() {
        let all = kernel_locks(LockFields::new(u32::MAX, false));
        let expected =
            "are named: of mutexes, semaphores, rw-semaphores (from Linux 6.17 on), mmap_lock (by task_struct.blocker)";
        assert!(all.ends_with(expected), "{all}");
        let old = kernel_locks(LockFields::new(0b11_0100, false));
        let expected = "are named of mmap_lock; of mutexes, semaphores, rw-semaphores (from Linux 6.17 on) they are not: this kernel has \
                        no task_struct.blocker: CONFIG_DETECT_HUNG_TASK_BLOCKER, ";
        assert!(old.contains(expected), "{old}");
        let since_5_19 = kernel_locks(LockFields::new(0b11_0100, true));
        let expected = "are named of mutexes, rw-semaphores, mmap_lock (by the tracepoint contention_begin, ";
        assert!(since_5_19.contains(expected), "{since_5_19}");
        assert!(since_5_19.contains("; of semaphores they are not: this kernel has no task_struct.blocker: "), "{since_5_19}");
        let now = kernel_locks(LockFields::new(u32::MAX, true));
        assert!(now.contains("mmap_lock (by task_struct.blocker, else by the tracepoint contention_begin, "), "{now}");
        assert!(
            kernel_locks(LockFields::new(0, false))
                .starts_with("holders of locks inside the kernel are not named: of mutexes, ")
        );
    }
}
