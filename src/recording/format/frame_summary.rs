//! What the recorder saw in each sample, a few bits of it, so that the strip of a day paints at once. Only a cache: it is
//! shown until the samples themselves have been judged, and nothing else rests on it. It stands in front of the index, all of
//! it, and before each key frame, of the samples since the one before: a recording that nobody closed has no index.

use crate::recording::format::wire::{ByteReader, Malformed, put_varint};

/// A longer one is left out, as the index is: about a million samples.
const MAX_SAMPLES: usize = 1 << 20;

/// What was seen in the interval that a sample ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSummary {
    /// Shares of the box that were busy, and idle but blocked: 0 … 255 for 0 … 1.
    pub busy: u8,
    pub blocked: u8,
    pub worst_severity: SummarySeverity,
}

/// How bad it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SummarySeverity {
    /// Nobody judged it, or it ends no interval.
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

    /// What a later version sees is not known here.
    fn from_code(number: u8) -> SummarySeverity {
        SummarySeverity::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }
}

/// The digests of all samples, as they grow while a recording is written.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    all: Vec<FrameSummary>,
    /// Of the samples since the last key frame
    key_group: Vec<FrameSummary>,
}

/// To take back those of samples that could not be written.
#[derive(Clone, Debug)]
pub struct SummaryCheckpoint {
    all_len: usize,
    key_group: Vec<FrameSummary>,
}

impl SummaryBuilder {
    pub fn push(&mut self, digest: FrameSummary) {
        // One more than is kept tells that there are too many.
        if self.all.len() <= MAX_SAMPLES {
            self.all.push(digest);
        }
        self.key_group.push(digest);
    }

    pub fn checkpoint(&self) -> SummaryCheckpoint {
        SummaryCheckpoint { all_len: self.all.len(), key_group: self.key_group.clone() }
    }

    /// Bytes of the payloads at most, of all and of the last group.
    pub fn max_payload_len(&self) -> usize {
        (self.all.len() + self.key_group.len()) * 3 + 20
    }

    pub fn roll_back(&mut self, length: SummaryCheckpoint) {
        self.all.truncate(length.all_len);
        self.key_group = length.key_group;
    }

    /// The payload of the digest frame of all; `None` where there is nothing to tell, or too much.
    pub fn encode_payload(&self) -> Option<Vec<u8>> {
        if self.all.len() > MAX_SAMPLES { None } else { payload(&self.all) }
    }

    /// The payload of the digest frame of the samples since this was asked last; `None` where there is nothing to tell.
    pub fn take_key_group_payload(&mut self) -> Option<Vec<u8>> {
        let told = payload(&self.key_group);
        self.key_group.clear();
        told
    }
}

fn payload(list: &[FrameSummary]) -> Option<Vec<u8>> {
    list.iter().any(|digest| digest.worst_severity != SummarySeverity::NotEvaluated).then(|| {
        let mut out = Vec::with_capacity(list.len() * 3 + 10);
        put_varint(&mut out, list.len() as u64);
        out.extend(list.iter().map(|digest| digest.worst_severity.code()));
        out.extend(list.iter().map(|digest| digest.busy));
        out.extend(list.iter().map(|digest| digest.blocked));
        out
    })
}

/// The most bytes that the payload of a digest frame of so many samples has.
pub fn max_payload_len(samples: usize) -> usize {
    samples.saturating_mul(3).saturating_add(10)
}

/// Reads the payload of a digest frame of at most so many samples.
pub fn parse(raw: &[u8], samples: usize) -> Result<Vec<FrameSummary>, Malformed> {
    let mut input = ByteReader::new(raw);
    let count = input.read_count()?;
    let columns = input.read_bytes(input.remaining())?;
    if count > samples || count == 0 || columns.len() != count.saturating_mul(3) {
        return Err(Malformed("the digest is not that of its samples"));
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
        let mut digests = SummaryBuilder::default();
        digests.push(list[0]);
        assert_eq!(digests.encode_payload(), None, "nobody judged anything");
        list[1..].iter().for_each(|&digest| digests.push(digest));
        let length = digests.checkpoint();
        digests.push(seen(SummarySeverity::Note, 1));
        assert_eq!(parse(&digests.take_key_group_payload().unwrap(), 4).unwrap().len(), 4);
        digests.roll_back(length);
        let payload = digests.encode_payload().unwrap();
        assert_eq!(parse(&payload, 3).unwrap(), list);
        assert_eq!((digests.take_key_group_payload(), digests.take_key_group_payload()), (Some(payload.clone()), None));
        assert!(payload.len() <= max_payload_len(3));
        assert!(parse(&payload, 2).is_err() && parse(&payload[..9], 3).is_err() && parse(&[], 0).is_err());
        assert!(parse(&[0], 3).is_err());
        assert!(parse(&[payload.as_slice(), &[0]].concat(), 3).is_err());
        let later: Vec<u8> = payload.iter().map(|&byte| if byte == 4 { 200 } else { byte }).collect();
        assert_eq!(parse(&later, 3).unwrap()[1].worst_severity, SummarySeverity::NotEvaluated);
        assert!(parse(&[0xff; 12], 3).is_err());
    }
}
