//! A netlink socket: sends a request and splits the answer into messages, whose payload is left to the caller.

use std::os::fd::{AsRawFd, OwnedFd};

use linux_raw_sys::netlink::nlmsghdr;
use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::kernel::root::absent_from_errno;
use crate::sample::{Absent, Reading};

/// The kernel fills at most 32 KiB of a receive buffer.
const RECEIVE_BUFFER_BYTES: usize = 32 << 10;

/// Most receives for one dump: an answer without an end is an error.
const MAX_RECEIVES: usize = 4096;

/// An open socket of one netlink family.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket. The kernel answers at once; a receive waits one second at most.
    pub fn open(protocol: SockProtocol) -> Reading<Netlink> {
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).map_err(absent_from_errno)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1)).map_err(absent_from_errno)?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sends a request and calls `each` with the type and payload of every message of the answer.
    pub fn dump(&mut self, request: &mut [u8], mut each: impl FnMut(u16, &[u8])) -> Reading<()> {
        self.sequence = self.sequence.wrapping_add(1);
        NetlinkBuffer::new(&mut *request).set_sequence_number(self.sequence);
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.socket.as_raw_fd(), request, &kernel, MsgFlags::empty()).map_err(absent_from_errno)?;
        let receive = |buffer: &mut [u8]| recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()).map_err(absent_from_errno);
        // Not kept: the buffers of four sockets would take 128 KiB.
        receive_dump(&mut vec![0; RECEIVE_BUFFER_BYTES], self.sequence, receive, &mut each)
    }
}

/// A message without its sequence number, which [`Netlink::dump`] sets: `struct nlmsghdr` and `body`.
pub fn request(message_type: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<nlmsghdr>()];
    bytes.extend_from_slice(body);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut header = NetlinkBuffer::new(&mut bytes);
    header.set_length(length);
    header.set_message_type(message_type);
    header.set_flags(flags);
    bytes
}

/// A field of a message in the byte order of this machine.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk::<4>().map(|field| u32::from_ne_bytes(*field))
}

/// Receives until the end of the answer. Without one the receive times out, or there are too many receives.
fn receive_dump(
    buffer: &mut [u8],
    sequence: u32,
    mut receive: impl FnMut(&mut [u8]) -> Reading<usize>,
    each: &mut impl FnMut(u16, &[u8]),
) -> Reading<()> {
    for _ in 0..MAX_RECEIVES {
        let length = receive(buffer)?;
        if parse_messages(buffer.get(..length).unwrap_or_default(), sequence, each)? == Progress::Done {
            return Ok(());
        }
    }
    Err(Absent::Malformed)
}

/// Whether the answer is complete after the received messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    More,
}

/// Splits the received bytes into messages. Answers to older requests are skipped.
pub fn parse_messages(received: &[u8], sequence: u32, each: &mut impl FnMut(u16, &[u8])) -> Reading<Progress> {
    let mut rest = received;
    while !rest.is_empty() {
        let Ok(message) = NetlinkBuffer::new_checked(rest) else { return Err(Absent::Malformed) };
        let aligned = (message.length() as usize).next_multiple_of(4);
        if message.sequence_number() == sequence {
            match message.message_type() {
                NLMSG_DONE => return Ok(Progress::Done),
                NLMSG_ERROR if is_acknowledgement(message.payload()) => return Ok(Progress::Done),
                NLMSG_ERROR => return Err(parse_error(message.payload())),
                kind => each(kind, message.payload()),
            }
        }
        rest = rest.get(aligned..).unwrap_or_default();
    }
    Ok(Progress::More)
}

/// An error message with error 0: the acknowledgement that a request with NLM_F_ACK ends with.
fn is_acknowledgement(payload: &[u8]) -> bool {
    payload.first_chunk::<4>() == Some(&[0; 4])
}

/// The reason of an error message, which begins with a negative errno.
fn parse_error(payload: &[u8]) -> Absent {
    match payload.first_chunk::<4>().map(|errno| i32::from_ne_bytes(*errno)) {
        Some(errno) if errno < 0 => absent_from_errno(Errno::from_raw(errno.saturating_neg())),
        _ => Absent::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + payload.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn only_answers_to_this_request_are_parsed() {
        let received = [message(40, 1, b"old"), message(40, 2, b"new"), message(NLMSG_DONE, 2, &[0; 4])].concat();
        let mut seen = Vec::new();
        let progress = parse_messages(&received, 2, &mut |kind, payload| seen.push((kind, payload.to_vec())));
        assert_eq!((progress, seen), (Ok(Progress::Done), vec![(40, b"new".to_vec())]));
        assert_eq!(parse_messages(&received, 3, &mut |_, _| ()), Ok(Progress::More));
    }

    #[test]
    fn an_error_message_becomes_a_reason() {
        let refused = message(NLMSG_ERROR, 1, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(parse_messages(&refused, 1, &mut |_, _| ()), Err(Absent::NoSuchFile));
        assert_eq!(parse_messages(&message(NLMSG_ERROR, 1, &[0; 20]), 1, &mut |_, _| ()), Ok(Progress::Done));
        assert_eq!(parse_messages(&message(NLMSG_ERROR, 1, &[0; 3]), 1, &mut |_, _| ()), Err(Absent::Malformed));
    }

    #[test]
    fn an_answer_without_an_end_is_an_error() {
        let part = message(40, 1, b"part");
        let mut times = 0;
        let mut for_ever = |buffer: &mut [u8]| {
            times += 1;
            buffer[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        };
        assert_eq!(receive_dump(&mut [0; 64], 1, &mut for_ever, &mut |_, _| ()), Err(Absent::Malformed));
        assert_eq!(receive_dump(&mut [0; 64], 1, |_| Ok(0), &mut |_, _| ()), Err(Absent::Malformed), "empty receipts");
        assert_eq!(times, MAX_RECEIVES);
        // What was sent ends, and nothing more comes: EAGAIN after a second.
        let mut receipts = vec![Err(Absent::Os(libc::EAGAIN)), Ok(part.len())];
        let then_nothing = |buffer: &mut [u8]| {
            buffer[..part.len()].copy_from_slice(&part);
            receipts.pop().unwrap()
        };
        assert_eq!(receive_dump(&mut [0; 64], 1, then_nothing, &mut |_, _| ()), Err(Absent::Os(libc::EAGAIN)));
        assert_eq!(receive_dump(&mut [0; 8], 1, |_| Ok(4096), &mut |_, _| ()), Err(Absent::Malformed), "longer than room");
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic() {
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0_u16..60, cut in 0_usize..40)| {
            let _ = parse_messages(&bytes, 0, &mut |_, _| ());
            let mut framed = message(kind, 1, &bytes);
            framed.truncate(framed.len().saturating_sub(cut));
            let _ = parse_messages(&framed, 1, &mut |kind, payload| drop(super::super::listeners::parse_listener(kind, payload)));
            let _ = super::super::listeners::parse_listener(20, &bytes);
        });
    }
}
