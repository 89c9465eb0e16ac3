//! The readings of a thread's run time since the last sample, with the CPU that it was on: `interval` computes from them how long it
//! ran on each CPU.

use crate::units::Counter;

/// Readings that are kept beside the first: there are about ten a second.
const MAX_OTHERS: usize = 64;

/// Run time (schedstat field 1) at readings since the last sample, each with the CPU (stat field 39) if that was read, too.
#[derive(Debug, Default)]
pub struct RunTimes {
    /// The reading before, and the first one with a CPU: a thread that stays on its CPU takes no allocation
    first: Option<(Counter, (Option<u32>, Counter))>,
    others: Vec<(Option<u32>, Counter)>,
}

impl RunTimes {
    /// Adds a reading with its CPU. `older`: run time at the reading before, which may have been without a CPU.
    pub fn add(&mut self, cpu: u32, older: Option<Counter>, newer: Option<Counter>) {
        let (Some(older), Some(newer)) = (older, newer) else { return };
        if newer <= older {
            return;
        }
        let reading = (Some(cpu), newer);
        let Some((_, first)) = &mut self.first else {
            self.first = Some((older, reading));
            return;
        };
        let last = self.others.last_mut().unwrap_or(first);
        if last.1 != older {
            self.others.push((None, older));
        } else if last.0 == Some(cpu) {
            // Readings on the same CPU in a row say no more than the last of them.
            *last = reading;
            return;
        }
        self.others.push(reading);
        if self.others.len() > MAX_OTHERS {
            self.drop_every_other();
        }
    }

    /// In a long interval fewer readings are kept, the last one always.
    fn drop_every_other(&mut self) {
        let mut keep = self.others.len().is_multiple_of(2);
        self.others.retain(|_| {
            keep = !keep;
            keep
        });
    }

    /// All readings in their order, the one before the first CPU included.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u32>, Counter)> {
        let first = self.first.iter().flat_map(|&(before, first)| [(None, before), first]);
        first.chain(self.others.iter().copied())
    }

    /// Whether it was seen on more than one CPU.
    pub fn has_moved(&self) -> bool {
        let first = self.first.and_then(|(_, (cpu, _))| cpu);
        self.others.iter().any(|&(cpu, _)| cpu.is_some() && cpu != first)
    }

    /// How long it ran before the readings with a CPU: decides which threads a sample keeps.
    pub fn run_ns(&self) -> u64 {
        let pairs = self.iter().zip(self.iter().skip(1));
        let ran = pairs.filter_map(|((_, older), (cpu, newer))| cpu.and(newer.since(older)));
        ran.fold(0, u64::saturating_add)
    }

    pub fn clear(&mut self) {
        self.first = None;
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(readings: &[(u32, u64, u64)]) -> Vec<(Option<u32>, u64)> {
        let mut times = RunTimes::default();
        for &(cpu, older, newer) in readings {
            times.add(cpu, Some(Counter(older)), Some(Counter(newer)));
        }
        times.iter().map(|(cpu, run_ns)| (cpu, run_ns.0)).collect()
    }

    #[test]
    fn readings_on_one_cpu_in_a_row_are_one() {
        assert_eq!(added(&[(1, 10, 20), (1, 20, 30), (1, 30, 30), (3, 30, 45)]), [(None, 10), (Some(1), 30), (Some(3), 45)]);
        assert_eq!(added(&[(1, 10, 10)]), [], "it did not run");
    }

    #[test]
    fn what_a_reading_without_a_cpu_saw_has_no_cpu() {
        let expected = [(None, 10), (Some(1), 20), (None, 26), (Some(1), 30)];
        assert_eq!(added(&[(1, 10, 20), (1, 26, 30)]), expected);
        assert_eq!(added(&[(1, 10, 20), (1, 20, 5), (2, 5, 9)]), [(None, 10), (Some(1), 20), (None, 5), (Some(2), 9)]);
    }

    #[test]
    fn fewer_readings_of_a_long_interval_are_kept() {
        let readings: Vec<(u32, u64, u64)> = (0..1000).map(|at| (at as u32 % 2, at, at + 1)).collect();
        let kept = added(&readings);
        assert!((MAX_OTHERS / 2..MAX_OTHERS + 3).contains(&kept.len()), "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (Some(&(None, 0)), Some(&(Some(1), 1000))));
        assert!(kept.is_sorted_by_key(|&(_, run_ns)| run_ns));
    }
}
