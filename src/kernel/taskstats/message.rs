//! Builds and parses messages of the generic netlink family TASKSTATS, and of the controller, which has its number.

use netlink_packet_core::{NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NlasIterator};

use super::stats::TaskStats;
use crate::kernel::network::netlink;
use crate::kernel::root::absent_from_io_error;
use crate::sample::Absent;

/// Type of a netlink attribute.
pub type AttributeType = u16;

/// The controller's family, its command and attributes (include/uapi/linux/genetlink.h).
pub const GENL_ID_CTRL: u16 = 0x10;
pub const CTRL_CMD_GETFAMILY: u8 = 3;
pub const CTRL_ATTR_FAMILY_NAME: AttributeType = 2;
const CTRL_ATTR_FAMILY_ID: AttributeType = 1;

/// The command, and its attributes (include/uapi/linux/taskstats.h).
pub const TASKSTATS_CMD_GET: u8 = 1;
pub const TASKSTATS_CMD_ATTR_PID: AttributeType = 1;
pub const TASKSTATS_CMD_ATTR_TGID: AttributeType = 2;
pub const TASKSTATS_CMD_ATTR_REGISTER_CPUMASK: AttributeType = 3;

/// Attributes of an answer.
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
const TASKSTATS_TYPE_AGGR_TGID: u16 = 5;

const GENL_HDRLEN: usize = 4;

/// The numbers above for tests/kernel/structs.rs.
pub const LAYOUT: &[(&str, &str, usize)] = &[
    ("linux/genetlink.h", "GENL_ID_CTRL", GENL_ID_CTRL as usize),
    ("linux/genetlink.h", "CTRL_CMD_GETFAMILY", CTRL_CMD_GETFAMILY as usize),
    ("linux/genetlink.h", "CTRL_ATTR_FAMILY_NAME", CTRL_ATTR_FAMILY_NAME as usize),
    ("linux/genetlink.h", "CTRL_ATTR_FAMILY_ID", CTRL_ATTR_FAMILY_ID as usize),
    ("linux/genetlink.h", "GENL_HDRLEN", GENL_HDRLEN),
    ("linux/taskstats.h", "TASKSTATS_CMD_GET", TASKSTATS_CMD_GET as usize),
    ("linux/taskstats.h", "TASKSTATS_CMD_ATTR_PID", TASKSTATS_CMD_ATTR_PID as usize),
    ("linux/taskstats.h", "TASKSTATS_CMD_ATTR_TGID", TASKSTATS_CMD_ATTR_TGID as usize),
    ("linux/taskstats.h", "TASKSTATS_CMD_ATTR_REGISTER_CPUMASK", TASKSTATS_CMD_ATTR_REGISTER_CPUMASK as usize),
    ("linux/taskstats.h", "TASKSTATS_TYPE_STATS", TASKSTATS_TYPE_STATS as usize),
    ("linux/taskstats.h", "TASKSTATS_TYPE_AGGR_PID", TASKSTATS_TYPE_AGGR_PID as usize),
    ("linux/taskstats.h", "TASKSTATS_TYPE_AGGR_TGID", TASKSTATS_TYPE_AGGR_TGID as usize),
];

/// One message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The attributes of a message of the requested family
    Payload(&'a [u8]),
    /// Error 0: the request is complete
    Acknowledged,
    Refused(Absent),
}

/// A request with one attribute, and with NLM_F_ACK.
pub fn request(family: u16, sequence: u32, command: u8, attribute: AttributeType, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(NLA_HEADER_SIZE + value.len()).unwrap_or(u16::MAX);
    // struct genlmsghdr: command, version and two reserved bytes; then struct nlattr
    let mut body = vec![command, 1, 0, 0];
    body.extend(length.to_ne_bytes());
    body.extend(attribute.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
    let mut bytes = netlink::request(family, NLM_F_REQUEST | NLM_F_ACK, &body);
    NetlinkBuffer::new(&mut bytes).set_sequence_number(sequence);
    bytes
}

/// The messages among the received bytes that answer this request, up to a truncated one.
pub fn parse_answers(received: &[u8], family: u16, sequence: u32) -> impl Iterator<Item = Answer<'_>> {
    let mut rest = received;
    std::iter::from_fn(move || {
        while let Ok(message) = NetlinkBuffer::new_checked(rest) {
            rest = rest.get((message.length() as usize).next_multiple_of(4)..).unwrap_or_default();
            if message.sequence_number() == sequence
                && let Some(answer) = parse_answer(&message, family)
            {
                return Some(answer);
            }
        }
        None
    })
}

/// The first message of received bytes that are not an answer.
pub fn parse_notification(received: &[u8], family: u16) -> Option<Answer<'_>> {
    parse_answer(&NetlinkBuffer::new_checked(received).ok()?, family)
}

fn parse_answer<'a>(message: &NetlinkBuffer<&'a [u8]>, family: u16) -> Option<Answer<'a>> {
    let payload = message.payload();
    match message.message_type() {
        NLMSG_ERROR => Some(match payload.first_chunk::<4>().map(|errno| i32::from_ne_bytes(*errno)) {
            Some(0) => Answer::Acknowledged,
            // ESRCH: the task of the request has ended.
            Some(errno) if errno == -libc::ESRCH => Answer::Refused(Absent::Vanished),
            Some(errno) if errno < 0 => {
                Answer::Refused(absent_from_io_error(&std::io::Error::from_raw_os_error(errno.saturating_neg())))
            }
            _ => Answer::Refused(Absent::Malformed),
        }),
        kind if kind == family => payload.get(GENL_HDRLEN..).map(Answer::Payload),
        _ => None,
    }
}

/// CTRL_ATTR_FAMILY_ID of the controller's answer.
pub fn parse_family_id(payload: &[u8]) -> Option<u16> {
    find_attribute(payload, |kind| kind == CTRL_ATTR_FAMILY_ID)?.first_chunk().copied().map(u16::from_ne_bytes)
}

/// The statistics in an answer or an exit. An exit may also have those of the whole process, which contain nothing that the
/// thread's do not.
pub fn parse_stats(payload: &[u8]) -> Option<TaskStats> {
    let one = find_attribute(payload, |kind| kind == TASKSTATS_TYPE_AGGR_PID || kind == TASKSTATS_TYPE_AGGR_TGID)?;
    TaskStats::parse(find_attribute(one, |kind| kind == TASKSTATS_TYPE_STATS)?)
}

fn find_attribute(bytes: &[u8], wanted: impl Fn(u16) -> bool) -> Option<&[u8]> {
    let mut attributes = NlasIterator::new(bytes).map_while(Result::ok);
    let found = attributes.find(|attribute| wanted(attribute.kind()))?;
    let end = usize::from(found.length());
    found.into_inner().get(NLA_HEADER_SIZE..end)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{DefaultNla, Emitable};
    use proptest::prelude::*;

    use super::*;

    fn nested(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
        let nla = DefaultNla::new(kind, parts.concat());
        let mut bytes = vec![0; nla.buffer_len()];
        nla.emit(&mut bytes);
        bytes
    }

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + payload.len()).unwrap();
        let mut bytes = vec![0; 16];
        let mut header = NetlinkBuffer::new(&mut bytes);
        header.set_length(length);
        header.set_message_type(kind);
        header.set_sequence_number(sequence);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn exit(family: u16) -> Vec<u8> {
        let mut stats = vec![0_u8; 432];
        stats[0] = 14;
        stats[80..84].copy_from_slice(b"true");
        stats[128..132].copy_from_slice(&4711_u32.to_ne_bytes());
        // The order of the kernel: pid, padding to 8 bytes, stats.
        let of_thread = nested(
            TASKSTATS_TYPE_AGGR_PID,
            &[&nested(1, &[&4711_u32.to_ne_bytes()]), &nested(6, &[]), &nested(TASKSTATS_TYPE_STATS, &[&stats])],
        );
        let of_process = nested(TASKSTATS_TYPE_AGGR_TGID, &[&nested(TASKSTATS_TYPE_STATS, &[&[0; 432]])]);
        message(family, 0, &[&[2, 1, 0, 0], &of_thread[..], &of_process[..]].concat())
    }

    #[test]
    fn an_exit_message_has_the_statistics_of_the_thread() {
        let bytes = exit(23);
        let Some(Answer::Payload(payload)) = parse_notification(&bytes, 23) else { panic!("no payload") };
        let account = parse_stats(payload).expect("an account");
        assert_eq!((account.comm(), account.tid, account.version), (&b"true"[..], 4711, 14));
        assert_eq!(parse_notification(&bytes, 24), None, "another family's");
    }

    #[test]
    fn a_request_is_what_the_kernel_expects() {
        let bytes = request(GENL_ID_CTRL, 7, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0");
        let header = NetlinkBuffer::new_checked(&bytes[..]).expect("sound");
        assert_eq!((header.length(), header.message_type(), header.sequence_number()), (36, GENL_ID_CTRL, 7));
        assert_eq!(&bytes[16..24], &[3, 1, 0, 0, 14, 0, 2, 0]);
        assert_eq!(&bytes[24..34], b"TASKSTATS\0");
    }

    #[test]
    fn answers_are_payloads_acknowledgements_or_errors() {
        let controller = nested(CTRL_ATTR_FAMILY_ID, &[&29_u16.to_ne_bytes()]);
        let received = [
            message(GENL_ID_CTRL, 1, b"old."),
            message(GENL_ID_CTRL, 2, &[&[1, 2, 0, 0], &controller[..]].concat()),
            message(NLMSG_ERROR, 2, &[0; 20]),
        ]
        .concat();
        let found: Vec<Answer> = parse_answers(&received, GENL_ID_CTRL, 2).collect();
        let [Answer::Payload(payload), Answer::Acknowledged] = found[..] else { panic!("{found:?}") };
        assert_eq!(parse_family_id(payload), Some(29));
        for (errno, why) in
            [(libc::EPERM, Absent::NoPermission), (libc::ENOENT, Absent::NoSuchFile), (libc::ESRCH, Absent::Vanished)]
        {
            let refused = message(NLMSG_ERROR, 2, &(-errno).to_ne_bytes());
            assert_eq!(parse_answers(&refused, GENL_ID_CTRL, 2).collect::<Vec<_>>(), [Answer::Refused(why)]);
        }
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic() {
        let sound = exit(23);
        let damaged = (0..sound.len(), any::<prop::sample::Index>(), any::<u8>()).prop_map(move |(cut, at, byte)| {
            let mut bytes = sound.clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            bytes
        });
        let bytes = prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), damaged];
        proptest!(|(bytes in bytes, sequence in 0_u32..3)| {
            for answer in parse_answers(&bytes, 23, sequence).chain(parse_notification(&bytes, 23)) {
                if let Answer::Payload(payload) = answer {
                    let _ = (parse_stats(payload), parse_family_id(payload));
                }
            }
        });
    }
}
