//! Tasks that started within an interval: their counters started at 0, so that their whole value belongs to the interval.

use std::sync::Arc;

use crate::sample::task::{Process, Schedstat, TaskIo, Thread};
use crate::sample::{Host, Sample};
use crate::units::Counter;

/// Time of the older sample in clock ticks since boot, the unit of start times.
#[derive(Clone, Copy, Debug)]
pub struct IntervalStart {
    ticks: f64,
}

impl IntervalStart {
    /// The start of the interval that begins with this sample.
    pub fn new(host: &Host, older: &Sample) -> IntervalStart {
        let ticks_per_second = host.ticks_per_second.max(1) as f64;
        IntervalStart { ticks: older.at.boottime_ns as f64 / 1e9 * ticks_per_second }
    }

    /// Whether a task with this start time started after the older sample. Start times are rounded down to whole ticks.
    pub fn is_before(self, start_ticks: u64) -> bool {
        start_ticks as f64 + 1.0 >= self.ticks
    }
}

/// The process with all counters and gauges 0. Each field is named, so that the compiler asks what a new one is.
pub fn zeroed_process(new: &Process) -> Process {
    const NOTHING: Counter = Counter(0);
    Process {
        pid: new.pid,
        start_ticks: new.start_ticks,
        ppid: new.ppid,
        uid: new.uid,
        comm: new.comm.clone(),
        kernel_thread: new.kernel_thread,
        facts: Arc::clone(&new.facts),
        user_ticks: NOTHING,
        system_ticks: NOTHING,
        guest_ticks: NOTHING,
        children_cpu: new.children_cpu.map(|_| Default::default()),
        cpu_ns: new.cpu_ns.map(|_| NOTHING),
        minor_faults: NOTHING,
        major_faults: NOTHING,
        resident_pages: 0,
        virtual_bytes: new.virtual_bytes.map(|_| 0),
        shared_pages: new.shared_pages.map(|_| 0),
        io: Ok(TaskIo::default()),
        threads: Arc::default(),
    }
}

/// The thread with all counters 0. Each field is named, so that the compiler asks what a new one is.
pub fn zeroed_thread(new: &Thread) -> Thread {
    const NOTHING: Counter = Counter(0);
    Thread {
        tid: new.tid,
        start_ticks: new.start_ticks,
        comm: new.comm.clone(),
        state: new.state,
        processor: new.processor,
        user_ticks: NOTHING,
        system_ticks: NOTHING,
        minor_faults: NOTHING,
        major_faults: NOTHING,
        block_io_delay_ticks: NOTHING,
        guest_ticks: NOTHING,
        background: new.background,
        schedstat: new.schedstat.map(|_| Schedstat::default()),
        last_timeslice_ns: new.last_timeslice_ns,
        wait: new.wait.clone(),
        cpus_allowed_list: new.cpus_allowed_list.clone(),
        scheduling: new.scheduling,
    }
}
