//! What threads wait for: their wait class, and the shares of it.

use super::TaskSpanBuilder;
use crate::interval::wait_counts::ThreadWaits;
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::class::may_be_core_dump;
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Absent, Host, Sample};

/// Share of the sub-samples with requests in flight from which waits for completions count as disk.
/// docs/metrics.md, "Fixed thresholds".
const MIN_IN_FLIGHT_SHARE: f64 = 0.5;

/// Whether some device had requests in flight in at least `MIN_IN_FLIGHT_SHARE` of the sub-samples; `None` if that depends on
/// sub-samples that could not read it.
pub(super) fn has_io_in_flight(newer: &Sample) -> Option<bool> {
    let subs = &newer.waits.sub_samples;
    let number = |is: fn(Option<u32>) -> bool| subs.iter().filter(|sub| is(sub.in_flight)).count();
    let (outstanding, unknown) = (number(|requests| requests > Some(0)), number(|requests| requests.is_none()));
    let is_enough = |number: usize| number > 0 && number as f64 >= subs.len() as f64 * MIN_IN_FLIGHT_SHARE;
    match (is_enough(outstanding), is_enough(outstanding + unknown)) {
        (true, _) => Some(true),
        (false, false) => Some(false),
        (false, true) => None,
    }
}

/// Shares of the sub-samples at which a thread was not running.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OffCpuShares {
    pub disk: f64,
    pub lock: f64,
    pub other_blocked: f64,
    pub sleep: f64,
    /// In a wait for completions while it is not known whether requests were in flight
    pub unknown: f64,
}

impl TaskSpanBuilder<'_> {
    /// Whether it is in D where threads wait for the core dump of their process, and the process dumps core.
    pub(super) fn waits_for_core_dump(&self, process: &Process, thread: &Thread) -> bool {
        thread.state == TaskState::Blocked
            && self.waits.dumps_core(process.pid)
            && thread.wait.wchan.as_ref().is_ok_and(|channel| may_be_core_dump(channel.as_bytes()))
    }

    /// `futex_is_lock`: the group has a thread on storage, so that a futex counts as a lock; a wait for completions counts as disk if requests are in
    /// flight, as far as they may be those of its process. The sub-samples that did not read a thread which slept at the older sample
    /// (`old`) count as sleep: it was not hot yet, or not any more. `None` if the thread was running at all of them.
    pub(super) fn off_cpu_shares(&self, old: Option<&Thread>, seen: &ThreadWaits, futex_is_lock: bool) -> Option<OffCpuShares> {
        let times = |class: WaitClass| f64::from(seen.count(class));
        let for_completions = times(WaitClass::Aio) * self.aio_waits.share_of_process(seen.task.pid);
        let (on_device, unknown) = match self.io_in_flight {
            Some(true) => (for_completions, 0.0),
            Some(false) => (0.0, 0.0),
            None => (0.0, for_completions),
        };
        let disk = times(WaitClass::Disk) + on_device;
        let lock = times(WaitClass::Lock) + if futex_is_lock { times(WaitClass::Futex) } else { 0.0 };
        let unlisted = f64::from(seen.blocked_other);
        let other = times(WaitClass::Memory) + times(WaitClass::Vfork) + times(WaitClass::CoreDump) + unlisted;
        let seen_count = seen.sub_sample_count();
        let all = u32::try_from(self.waits.sub_samples.len()).unwrap_or(u32::MAX);
        let slept_before = old.is_some_and(|old| old.state == TaskState::Sleeping);
        let count = if slept_before { seen_count.max(all) } else { seen_count };
        let sleep = f64::from(count) - disk - lock - other - unknown - times(WaitClass::Running);
        let whole = disk + lock + other + sleep + unknown;
        (whole > 0.0).then(|| OffCpuShares {
            disk: disk / whole,
            lock: lock / whole,
            other_blocked: other / whole,
            sleep: sleep / whole,
            unknown: unknown / whole,
        })
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
