//! Which thread held a lock at which time, as the load wrote it itself, against the owners that a recording has.

use stalltop::recording::Replayer;
use stalltop::sample::Sample;
use stalltop::sample::waits::LockOwner;
use std::path::Path;
use std::sync::Arc;

/// From a sub-sample, when the owner may have been read, ns.
const READ_WITHIN_NS: i128 = 5_000_000;

/// The times (CLOCK_REALTIME, ns) in which each thread held the lock.
pub struct HeldTruth(Vec<(i128, i128, u32)>);

impl HeldTruth {
    /// Lines `BEGIN END TID`.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a str>) -> HeldTruth {
        let held = |line: &str| {
            let numbers: Vec<i128> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
            let [begin, end, tid] = numbers.try_into().expect("three numbers");
            (begin, end, u32::try_from(tid).expect("a tid"))
        };
        HeldTruth(lines.map(held).collect())
    }

    /// The end of the last time that is known.
    pub fn last_end(&self) -> i128 {
        self.0.iter().map(|&(_, end, _)| end).max().unwrap_or(i128::MIN)
    }

    /// Whether the owner held the lock when it was last seen.
    pub fn agrees(&self, sample: &Sample, row: &LockOwner) -> bool {
        let Some(last) = sample.waits.sub_samples.get(usize::from(row.owner.last_sub_sample)) else { return false };
        let at = i128::from(sample.at.realtime_ns) - i128::from(sample.at.boottime_ns) + i128::from(last.boottime_ns);
        let mut held = self.0.iter().filter(|&&(begin, end, _)| begin <= at + READ_WITHIN_NS && end >= at);
        held.any(|&(_, _, tid)| tid == row.owner.task.tid)
    }
}

/// All samples of a recording.
pub fn samples(recording: &Path) -> Vec<Arc<Sample>> {
    let mut replayer = Replayer::open(recording).expect("its recording");
    (0..replayer.len()).filter_map(|index| replayer.sample(index).ok()).collect()
}
