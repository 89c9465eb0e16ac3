//! The payloads of the small frames: facts about the whole recording, gaps, marks, named sections.

use std::time::Duration;

use prost::Message;

use crate::recording::Timestamp;
use crate::recording::format::columns::{absent_code, absent_from_code};
use crate::recording::format::messages::HostMessage;
use crate::recording::format::wire::Malformed;
use crate::sample::host::Privilege;
use crate::sample::{Absent, Host, Name};

/// What a recorder leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    #[default]
    Nothing,
    /// Command lines are recorded as "hidden", and the names of containers and pods are not recorded; names of commands and
    /// executables stay.
    Arguments,
}

/// Facts about the whole recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// Version of the stalltop that recorded it.
    pub version: String,
    pub host: Host,
    pub interval: Duration,
    pub redaction: Redaction,
    /// Readings that were absent at the start, as `Sample::absent` lists them.
    pub absent: Vec<(String, Absent)>,
}

/// Samples that were due and are not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// Number of samples before it.
    pub samples_before: u64,
    pub lost_samples: u64,
    pub from: Timestamp,
    pub to: Timestamp,
    pub reason: GapReason,
}

/// The reason of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapReason {
    /// The recorder's disk was too slow.
    DiskTooSlow,
    /// The recorder's disk was full.
    NoSpace,
    /// The sample was larger than a frame may be.
    SampleTooLarge,
    /// Due and not taken: the recorder was stopped, or got no CPU, or a read did not return.
    NotSampled,
    /// Damaged in the recording that this one was copied from.
    Damaged,
    /// Between two recordings that were joined.
    BetweenRecordings,
    /// The disk failed, and there was no other file to continue in yet.
    DiskFailed,
    /// An unknown reason of a later version.
    Other,
}

impl GapReason {
    pub fn description(self) -> &'static str {
        match self {
            GapReason::DiskTooSlow => "the recorder's disk was too slow",
            GapReason::NoSpace => "the recorder's disk was full",
            GapReason::SampleTooLarge => "the sample was larger than a frame may be",
            GapReason::NotSampled => "the recorder was stopped, or got no CPU, or a read did not return",
            GapReason::Damaged => "the recording was damaged there",
            GapReason::BetweenRecordings => "nothing was recorded then",
            GapReason::DiskFailed => "the recorder's disk failed",
            GapReason::Other => "for a reason that this version does not know",
        }
    }
}

/// A text that a user put into the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of samples before it.
    pub samples_before: u64,
    pub at: Timestamp,
    /// Untrusted: to be escaped when it is shown.
    pub text: String,
}

impl Mark {
    /// The text of a mark: one line of at most `MAX_TEXT_BYTES` without control characters; `None` if nothing is left.
    pub fn sanitize(text: &str) -> Option<String> {
        let plain: String = text.chars().map(|c| if crate::ids::is_unprintable(c) { ' ' } else { c }).collect();
        let plain = plain.trim();
        let end = plain.floor_char_boundary(Mark::MAX_TEXT_BYTES);
        plain.get(..end).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Bytes.
    pub const MAX_TEXT_BYTES: usize = 1024;
}

#[derive(Message)]
struct MetaMessage {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, optional, tag = "2")]
    host: Option<HostMessage>,
    #[prost(uint64, tag = "3")]
    interval_ns: u64,
    /// 1 arguments
    #[prost(uint64, tag = "4")]
    redaction: u64,
    #[prost(message, repeated, tag = "5")]
    absent: Vec<AbsentMessage>,
}

#[derive(Message)]
struct AbsentMessage {
    #[prost(string, tag = "1")]
    what: String,
    #[prost(uint64, tag = "2")]
    why: u64,
    #[prost(sint32, tag = "3")]
    errno: i32,
}

#[derive(Message)]
struct GapMessage {
    #[prost(uint64, tag = "1")]
    lost: u64,
    #[prost(fixed64, tag = "2")]
    from_boottime_ns: u64,
    #[prost(sfixed64, tag = "3")]
    from_realtime_ns: i64,
    #[prost(uint64, tag = "4")]
    why: u64,
}

#[derive(Message)]
struct SectionMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    bytes: Vec<u8>,
}

impl Meta {
    /// A placeholder for a recording whose meta frame is not read yet.
    pub fn unknown() -> Meta {
        let name = Name::default;
        let privilege =
            Privilege { effective_uid: 0, has_cap_sys_ptrace: false, delay_accounting: Err(Absent::NotRead), hidepid: false };
        let host = Host {
            hostname: name(),
            kernel: name(),
            machine: name(),
            boot_id: name(),
            boot_time_s: None,
            page_size: 4096,
            ticks_per_second: 100,
            topology: Vec::new(),
            privilege,
            has_hypervisor: None,
        };
        Meta { version: String::new(), host, interval: Duration::ZERO, redaction: Redaction::Nothing, absent: Vec::new() }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let absent = |(what, why): &(String, Absent)| {
            let (why, errno) = absent_code(*why);
            AbsentMessage { what: what.clone(), why, errno }
        };
        MetaMessage {
            version: self.version.clone(),
            host: Some(HostMessage::from_host(&self.host)),
            interval_ns: u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX),
            redaction: match self.redaction {
                Redaction::Nothing => 0,
                Redaction::Arguments => 1,
            },
            absent: self.absent.iter().map(absent).collect(),
        }
        .encode_to_vec()
    }

    pub fn parse(bytes: &[u8]) -> Result<Meta, Malformed> {
        let message = MetaMessage::decode(bytes).map_err(|_| Malformed("the meta frame is not a message"))?;
        let host = message.host.ok_or(Malformed("the meta frame names no host"))?.into_host();
        if host.ticks_per_second == 0 || host.page_size == 0 {
            return Err(Malformed("the host's clock has no ticks, or its pages no size"));
        }
        Ok(Meta {
            version: message.version,
            host,
            interval: Duration::from_nanos(message.interval_ns),
            redaction: if message.redaction == 0 { Redaction::Nothing } else { Redaction::Arguments },
            absent: message
                .absent
                .into_iter()
                .map(|absent| (absent.what, absent_from_code(absent.why, absent.errno)))
                .collect(),
        })
    }
}

impl Gap {
    pub fn to_bytes(&self) -> Vec<u8> {
        GapMessage {
            lost: self.lost_samples,
            from_boottime_ns: self.from.boottime_ns,
            from_realtime_ns: self.from.realtime_ns,
            why: match self.reason {
                GapReason::Other => 0,
                GapReason::DiskTooSlow => 1,
                GapReason::NoSpace => 2,
                GapReason::SampleTooLarge => 3,
                GapReason::NotSampled => 4,
                GapReason::Damaged => 5,
                GapReason::BetweenRecordings => 6,
                GapReason::DiskFailed => 7,
            },
        }
        .encode_to_vec()
    }

    /// `to` is the timestamp of the frame.
    pub fn parse(bytes: &[u8], before: u64, to: Timestamp) -> Result<Gap, Malformed> {
        let message = GapMessage::decode(bytes).map_err(|_| Malformed("a gap frame is not a message"))?;
        Ok(Gap {
            samples_before: before,
            lost_samples: message.lost,
            from: Timestamp { boottime_ns: message.from_boottime_ns, realtime_ns: message.from_realtime_ns },
            to,
            reason: match message.why {
                1 => GapReason::DiskTooSlow,
                2 => GapReason::NoSpace,
                3 => GapReason::SampleTooLarge,
                4 => GapReason::NotSampled,
                5 => GapReason::Damaged,
                6 => GapReason::BetweenRecordings,
                7 => GapReason::DiskFailed,
                _ => GapReason::Other,
            },
        })
    }
}

/// Encodes the payload of a section frame.
pub fn encode_section(name: &str, bytes: &[u8]) -> Vec<u8> {
    SectionMessage { name: name.to_owned(), bytes: bytes.to_vec() }.encode_to_vec()
}

/// Parses the name and the bytes of a section frame.
pub fn parse_section(bytes: &[u8]) -> Result<(String, Vec<u8>), Malformed> {
    let message = SectionMessage::decode(bytes).map_err(|_| Malformed("a section frame is not a message"))?;
    Ok((message.name, message.bytes))
}
