//! Reads some of the processes that did not run, at each sample others: memory is reclaimed, and the freezer stops threads, without them
//! running.

use super::TaskScanner;

/// Each process is read once in so many samples. docs/metrics.md, "Tasks"
const SAMPLES_PER_TURN: usize = 30;
/// Most processes of a sample: each takes 6.5 µs. With more than 960 processes a turn has more samples.
const MAX_PER_SAMPLE: usize = 32;

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Turns {
    /// The next process has this pid or a higher one.
    next_pid: u32,
    /// Processes times samples since the last process that was due, below `SAMPLES_PER_TURN`
    passed: usize,
}

impl Turns {
    /// How many of the processes are due at this sample.
    fn due(&mut self, process_count: usize) -> usize {
        let passed = self.passed + process_count;
        self.passed = passed % SAMPLES_PER_TURN;
        (passed / SAMPLES_PER_TURN).min(MAX_PER_SAMPLE)
    }
}

impl TaskScanner {
    /// Reads the processes whose turn it is, unless this scan has read them.
    pub(super) fn reread_in_turn(&mut self) {
        // Without clocks each process is read by each scan.
        if !self.context.clocks.are_available() {
            return;
        }
        let Self { processes, context, turns, .. } = self;
        for _ in 0..turns.due(processes.len()) {
            let at = processes.partition_point(|known| known.pid < turns.next_pid);
            let at = if at < processes.len() { at } else { 0 };
            let Some(known) = processes.get_mut(at) else { return };
            turns.next_pid = known.pid.saturating_add(1);
            known.reread_without_run(context);
        }
    }
}
