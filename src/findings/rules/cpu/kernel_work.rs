//! Part of the rules about saturated threads and CPUs: threads of the kernel that use a CPU by design, or for a cause that is found
//! elsewhere. They are at no limit that a user could raise, so that they are notes.

use crate::findings::rule_context::RuleContext;
use crate::findings::rules::cpu::priority::{is_low_priority, nice_value};
use crate::interval::task::ThreadSpan;

/// User time, as a share of the time, above which a thread does not run in the kernel only. docs/metrics.md, "Fixed thresholds".
const MAX_USER_SHARE: f64 = 0.02;

/// What such a thread does, for a sentence; `None` for other threads.
pub fn kernel_work(context: &RuleContext, thread: &ThreadSpan) -> Option<String> {
    let (name, _) = context.task_label(thread.id);
    let name = name.as_bytes();
    let is_kernel_thread = context.process(thread.id.pid)?.kernel_thread;
    let runs_in_kernel = is_kernel_thread || thread.states.user <= MAX_USER_SHARE;
    // A thread of its process; before Linux 5.12 one of the kernel.
    if runs_in_kernel && (is_numbered(name, b"iou-sqp-") || name == b"io_uring-sq") {
        return Some("it polls for requests of io_uring by design (SQPOLL)".to_owned());
    }
    if !is_kernel_thread {
        return None;
    }
    if is_reclaim_thread(name) {
        return Some("it frees memory for the host".to_owned());
    }
    if is_compaction_thread(name) {
        return Some("it moves pages to make contiguous free memory".to_owned());
    }
    let nice = nice_value(thread).filter(|&nice| nice > 0 && !is_low_priority(thread))?;
    Some(format!("the kernel runs it at low priority (nice {nice})"))
}

/// Whether a kernel thread of this name works because memory is short, or not contiguous.
pub fn works_for_memory(name: &[u8]) -> bool {
    is_reclaim_thread(name) || is_compaction_thread(name)
}

fn is_reclaim_thread(name: &[u8]) -> bool {
    is_numbered(name, b"kswapd")
}

fn is_compaction_thread(name: &[u8]) -> bool {
    is_numbered(name, b"kcompactd")
}

fn is_numbered(name: &[u8], prefix: &[u8]) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}
