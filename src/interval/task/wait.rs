//! What threads wait for: their wait class, and the shares of it.

use super::TaskSpanBuilder;
use crate::interval::wait_counts::ThreadWaits;
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Absent, Host, Sample};

/// Share of the sub-samples with requests in flight from which waits for completions count as disk.
/// docs/metrics.md, "Fixed thresholds".
const MIN_IN_FLIGHT_SHARE: f64 = 0.5;

/// Whether some device had requests in flight in at least `MIN_IN_FLIGHT_SHARE` of the sub-samples.
pub(super) fn has_io_in_flight(newer: &Sample) -> bool {
    let subs = &newer.waits.sub_samples;
    let outstanding = subs.iter().filter(|sub| sub.in_flight.is_some_and(|requests| requests > 0)).count();
    outstanding > 0 && outstanding as f64 >= subs.len() as f64 * MIN_IN_FLIGHT_SHARE
}

impl TaskSpanBuilder<'_> {
    /// Disk, lock, other blocked, sleep: shares of the sub-samples at which the thread was not running. A futex counts as a
    /// lock if the group has a thread on storage; a wait for completions counts as disk if requests are in flight.
    pub(super) fn off_cpu_shares(&self, seen: &ThreadWaits, holding: bool) -> [f64; 4] {
        let times = |class: WaitClass| f64::from(seen.count(class));
        let when = |condition: bool, class: WaitClass| if condition { times(class) } else { 0.0 };
        let disk = times(WaitClass::Disk) + when(self.io_in_flight, WaitClass::Aio);
        let lock = times(WaitClass::Lock) + when(holding, WaitClass::Futex);
        let other = times(WaitClass::Memory) + times(WaitClass::Vfork);
        let sleep = f64::from(seen.sub_sample_count()) - disk - lock - other - times(WaitClass::Running);
        let whole = disk + lock + other + sleep;
        if whole <= 0.0 {
            return [0.0; 4];
        }
        [disk, lock, other, sleep].map(|part| part / whole)
    }
}

/// The wait class of a thread at its sample.
pub fn wait_class(host: &Host, thread: &Thread) -> WaitClass {
    let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
    let unlikely = WaitClass::Other;
    match &thread.wait.wchan {
        Ok(symbol) => WaitClass::classify(thread.state, Some(symbol.as_bytes()), call).unwrap_or(unlikely),
        Err(Absent::Hidden | Absent::NoPermission) => WaitClass::classify(thread.state, None, call).unwrap_or(unlikely),
        Err(_) if thread.state == TaskState::Running => WaitClass::Running,
        Err(_) => WaitClass::Other,
    }
}

/// The wait class, with `Hidden` for a thread of another user whose wait channel is not readable.
pub fn visible_wait_class(host: &Host, process: &Process, thread: &Thread) -> WaitClass {
    match wait_class(host, thread) {
        WaitClass::Other if !process.kernel_thread && is_hidden_from_user(host, process, thread) => WaitClass::Hidden,
        class => class,
    }
}

fn is_hidden_from_user(host: &Host, process: &Process, thread: &Thread) -> bool {
    let waits = matches!(thread.state, TaskState::Sleeping | TaskState::Blocked);
    waits && thread.wait.wchan.is_err() && !host.privilege.can_inspect_tasks_of(process.uid)
}

/// An idle thread of a language runtime, as its futex call says.
pub(super) fn is_idle_runtime_thread(host: &Host, thread: &Thread) -> bool {
    let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
    call.is_some_and(Syscall::is_idle_runtime_thread)
}
