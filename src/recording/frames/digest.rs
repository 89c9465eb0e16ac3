//! What the recorder saw in each sample, a few bits of it, so that the strip of a day paints at once. Only a cache: it is
//! shown until the samples themselves have been judged, and nothing else rests on it. It stands in front of the index, all of
//! it, and before each key frame, of the samples since the one before: a recording that nobody closed has no index.

use crate::recording::wire::{Input, Malformed, put_varint};

/// A longer one is left out, as the index is: about a million samples.
const MOST: usize = 1 << 20;

/// What was seen in the interval that a sample ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Shares of the box that were busy, and idle but blocked: 0 … 255 for 0 … 1.
    pub busy: u8,
    pub blocked: u8,
    pub worst: Seen,
}

/// How bad it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Nobody judged it, or it ends no interval.
    #[default]
    NotJudged,
    Nothing,
    Note,
    Warning,
    Critical,
}

impl Seen {
    const ALL: [Seen; 5] = [Seen::NotJudged, Seen::Nothing, Seen::Note, Seen::Warning, Seen::Critical];

    fn number(self) -> u8 {
        self as u8
    }

    /// What a later version sees is not known here.
    fn from_number(number: u8) -> Seen {
        Seen::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }
}

/// The digests of all samples, as they grow while a recording is written.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    all: Vec<Digest>,
    /// Of the samples since the last key frame
    group: Vec<Digest>,
}

/// To take back those of samples that could not be written.
#[derive(Clone, Debug)]
pub struct DigestLength {
    all: usize,
    group: Vec<Digest>,
}

impl Digests {
    pub fn push(&mut self, digest: Digest) {
        // One more than is kept tells that there are too many.
        if self.all.len() <= MOST {
            self.all.push(digest);
        }
        self.group.push(digest);
    }

    pub fn length(&self) -> DigestLength {
        DigestLength { all: self.all.len(), group: self.group.clone() }
    }

    /// Bytes of the payloads at most, of all and of the last group.
    pub fn payload_length(&self) -> usize {
        (self.all.len() + self.group.len()) * 3 + 20
    }

    pub fn take_back(&mut self, length: DigestLength) {
        self.all.truncate(length.all);
        self.group = length.group;
    }

    /// The payload of the digest frame of all; `None` where there is nothing to tell, or too much.
    pub fn payload(&self) -> Option<Vec<u8>> {
        if self.all.len() > MOST { None } else { payload(&self.all) }
    }

    /// The payload of the digest frame of the samples since this was asked last; `None` where there is nothing to tell.
    pub fn take_group(&mut self) -> Option<Vec<u8>> {
        let told = payload(&self.group);
        self.group.clear();
        told
    }
}

fn payload(list: &[Digest]) -> Option<Vec<u8>> {
    list.iter().any(|digest| digest.worst != Seen::NotJudged).then(|| {
        let mut out = Vec::with_capacity(list.len() * 3 + 10);
        put_varint(&mut out, list.len() as u64);
        out.extend(list.iter().map(|digest| digest.worst.number()));
        out.extend(list.iter().map(|digest| digest.busy));
        out.extend(list.iter().map(|digest| digest.blocked));
        out
    })
}

/// The most bytes that the payload of a digest frame of so many samples has.
pub fn longest(samples: usize) -> usize {
    samples.saturating_mul(3).saturating_add(10)
}

/// Reads the payload of a digest frame of at most so many samples.
pub fn parse(raw: &[u8], samples: usize) -> Result<Vec<Digest>, Malformed> {
    let mut input = Input::new(raw);
    let count = input.count()?;
    let columns = input.take(input.left())?;
    if count > samples || count == 0 || columns.len() != count.saturating_mul(3) {
        return Err(Malformed("the digest is not that of its samples"));
    }
    let (worst, shares) = columns.split_at(count);
    let (busy, blocked) = shares.split_at(count);
    let rows = worst.iter().zip(busy).zip(blocked);
    Ok(rows.map(|((&worst, &busy), &blocked)| Digest { busy, blocked, worst: Seen::from_number(worst) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_and_can_be_taken_back() {
        let seen = |worst, busy| Digest { busy, blocked: 255 - busy, worst };
        let list = [Digest::default(), seen(Seen::Critical, 7), seen(Seen::Nothing, 255)];
        let mut digests = Digests::default();
        digests.push(list[0]);
        assert_eq!(digests.payload(), None, "nobody judged anything");
        list[1..].iter().for_each(|&digest| digests.push(digest));
        let length = digests.length();
        digests.push(seen(Seen::Note, 1));
        assert_eq!(parse(&digests.take_group().unwrap(), 4).unwrap().len(), 4);
        digests.take_back(length);
        let payload = digests.payload().unwrap();
        assert_eq!(parse(&payload, 3).unwrap(), list);
        assert_eq!((digests.take_group(), digests.take_group()), (Some(payload.clone()), None));
        assert!(payload.len() <= longest(3));
        assert!(parse(&payload, 2).is_err() && parse(&payload[..9], 3).is_err() && parse(&[], 0).is_err());
        assert!(parse(&[0], 3).is_err());
        assert!(parse(&[payload.as_slice(), &[0]].concat(), 3).is_err());
        let later: Vec<u8> = payload.iter().map(|&byte| if byte == 4 { 200 } else { byte }).collect();
        assert_eq!(parse(&later, 3).unwrap()[1].worst, Seen::NotJudged);
        assert!(parse(&[0xff; 12], 3).is_err());
    }
}
