//! Frame summaries: three bytes per sample that the recorder evaluated, so that the timeline of a day is drawn at once. Only
//! a cache: nothing else depends on them. They are at the end of the index, for all samples, and before each key frame, for
//! the samples since the key frame before: a recording that was not closed has no index.

use crate::recording::format::wire::{ByteReader, Malformed, put_varint};

/// Samples beyond which the index has no summaries.
const MAX_SAMPLES: usize = 1 << 20;

/// What the recorder evaluated for the interval that a sample ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSummary {
    /// Shares of the host that were busy, and idle but blocked: 0 to 255 for 0 to 1.
    pub busy: u8,
    pub blocked: u8,
    pub worst_severity: SummarySeverity,
}

/// The worst finding of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SummarySeverity {
    /// Not evaluated, or no interval.
    #[default]
    NotEvaluated,
    NoFinding,
    Note,
    Warning,
    Critical,
}

impl SummarySeverity {
    const ALL: [SummarySeverity; 5] = [
        SummarySeverity::NotEvaluated,
        SummarySeverity::NoFinding,
        SummarySeverity::Note,
        SummarySeverity::Warning,
        SummarySeverity::Critical,
    ];

    fn code(self) -> u8 {
        self as u8
    }

    /// An unknown code of a later version reads as not evaluated.
    fn from_code(number: u8) -> SummarySeverity {
        SummarySeverity::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }
}

/// Collects the summaries while a recording is written.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    all: Vec<FrameSummary>,
    /// Summaries of the samples since the last key frame.
    key_group: Vec<FrameSummary>,
}

/// The state before some samples, to roll back to.
#[derive(Clone, Debug)]
pub struct SummaryCheckpoint {
    all_len: usize,
    key_group: Vec<FrameSummary>,
}

impl SummaryBuilder {
    pub fn push(&mut self, summary: FrameSummary) {
        // One more than the limit shows that there are too many.
        if self.all.len() <= MAX_SAMPLES {
            self.all.push(summary);
        }
        self.key_group.push(summary);
    }

    pub fn checkpoint(&self) -> SummaryCheckpoint {
        SummaryCheckpoint { all_len: self.all.len(), key_group: self.key_group.clone() }
    }

    /// Most bytes of the payloads of all samples and of the last key group.
    pub fn max_payload_len(&self) -> usize {
        (self.all.len() + self.key_group.len()) * 3 + 20
    }

    pub fn roll_back(&mut self, length: SummaryCheckpoint) {
        self.all.truncate(length.all_len);
        self.key_group = length.key_group;
    }

    /// The summaries of all samples; `None` if none was evaluated, or if there are too many.
    pub fn encode_payload(&self) -> Option<Vec<u8>> {
        if self.all.len() > MAX_SAMPLES { None } else { payload(&self.all) }
    }

    /// The payload of the summary frame of the last key group, which is empty afterwards; `None` if nothing was evaluated.
    pub fn take_key_group_payload(&mut self) -> Option<Vec<u8>> {
        let payload = payload(&self.key_group);
        self.key_group.clear();
        payload
    }
}

fn payload(list: &[FrameSummary]) -> Option<Vec<u8>> {
    list.iter().any(|summary| summary.worst_severity != SummarySeverity::NotEvaluated).then(|| {
        let mut out = Vec::with_capacity(list.len() * 3 + 10);
        put_varint(&mut out, list.len() as u64);
        out.extend(list.iter().map(|summary| summary.worst_severity.code()));
        out.extend(list.iter().map(|summary| summary.busy));
        out.extend(list.iter().map(|summary| summary.blocked));
        out
    })
}

/// Most bytes of the payload of a summary frame of this number of samples.
pub fn max_payload_len(samples: usize) -> usize {
    samples.saturating_mul(3).saturating_add(10)
}

/// Parses the payload of a summary frame of at most this number of samples.
pub fn parse(raw: &[u8], samples: usize) -> Result<Vec<FrameSummary>, Malformed> {
    let mut input = ByteReader::new(raw);
    let count = input.read_count()?;
    let columns = input.read_bytes(input.remaining())?;
    if count > samples || count == 0 || columns.len() != count.saturating_mul(3) {
        return Err(Malformed("the summaries are not those of its samples"));
    }
    let (worst, shares) = columns.split_at(count);
    let (busy, blocked) = shares.split_at(count);
    let rows = worst.iter().zip(busy).zip(blocked);
    Ok(rows
        .map(|((&worst, &busy), &blocked)| FrameSummary { busy, blocked, worst_severity: SummarySeverity::from_code(worst) })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_and_can_be_taken_back() {
        let seen = |worst, busy| FrameSummary { busy, blocked: 255 - busy, worst_severity: worst };
        let list = [FrameSummary::default(), seen(SummarySeverity::Critical, 7), seen(SummarySeverity::NoFinding, 255)];
        let mut summaries = SummaryBuilder::default();
        summaries.push(list[0]);
        assert_eq!(summaries.encode_payload(), None, "nothing was evaluated");
        list[1..].iter().for_each(|&summary| summaries.push(summary));
        let length = summaries.checkpoint();
        summaries.push(seen(SummarySeverity::Note, 1));
        assert_eq!(parse(&summaries.take_key_group_payload().unwrap(), 4).unwrap().len(), 4);
        summaries.roll_back(length);
        let payload = summaries.encode_payload().unwrap();
        assert_eq!(parse(&payload, 3).unwrap(), list);
        assert_eq!((summaries.take_key_group_payload(), summaries.take_key_group_payload()), (Some(payload.clone()), None));
        assert!(payload.len() <= max_payload_len(3));
        assert!(parse(&payload, 2).is_err() && parse(&payload[..9], 3).is_err() && parse(&[], 0).is_err());
        assert!(parse(&[0], 3).is_err());
        assert!(parse(&[payload.as_slice(), &[0]].concat(), 3).is_err());
        let later: Vec<u8> = payload.iter().map(|&byte| if byte == 4 { 200 } else { byte }).collect();
        assert_eq!(parse(&later, 3).unwrap()[1].worst_severity, SummarySeverity::NotEvaluated);
        assert!(parse(&[0xff; 12], 3).is_err());
    }
}
