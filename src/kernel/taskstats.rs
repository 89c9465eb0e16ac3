//! Client of the kernel's taskstats over generic netlink: statistics of one task, and of every task as it exits.
//!
//! Both need CAP_NET_ADMIN in the initial user namespace (exits also the initial pid namespace): without it the kernel
//! answers EPERM, `Absent::NoPermission`. A kernel without CONFIG_TASKSTATS has no such family: `Absent::NoSuchFile`.
//! kernel/taskstats.c, Documentation/accounting/taskstats.rst.
//!
//! `TaskstatsClient` sends requests. `ExitListener` has a socket of its own: exit messages that are not fetched in time are
//! lost, and answers to requests must not be lost with them.

pub mod message;
mod stats;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::gettid;

pub use stats::{Delay, LAYOUT, TaskStats};

use super::root::absent_from_errno;
use super::sys;
use crate::sample::{Absent, Reading};
use message::{Answer, AttributeType};

/// An answer has 500 bytes, and as many for the thread group.
const ANSWER_BUFFER_BYTES: usize = 8 << 10;
/// Socket buffer for about 3,000 exits between two fetches; the kernel allocates memory only as tasks exit.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// More messages than the socket's buffer holds.
const MAX_MESSAGES_PER_TEST: usize = 16 << 10;
/// Messages that are skipped while waiting for an answer.
const MAX_UNRELATED_ANSWERS: usize = 64;

/// A socket for requests.
#[derive(Debug)]
pub struct TaskstatsClient {
    socket: GenericNetlinkSocket,
}

impl TaskstatsClient {
    /// Looks up the family; fails where the kernel has none. A missing privilege shows only with a request.
    pub fn open() -> Reading<TaskstatsClient> {
        Ok(TaskstatsClient { socket: GenericNetlinkSocket::open()? })
    }

    /// Statistics of a thread, by its tid in the pid namespace of this process. `Vanished` when it has ended.
    pub fn query_thread(&mut self, tid: u32) -> Reading<TaskStats> {
        let mut found = None;
        self.socket.request(message::TASKSTATS_CMD_GET, message::TASKSTATS_CMD_ATTR_PID, &tid.to_ne_bytes(), |payload| {
            found = message::parse_stats(payload)
        })?;
        found.ok_or(Absent::Malformed)
    }
}

/// A socket that receives a message for each thread that exits.
#[derive(Debug)]
pub struct ExitListener {
    socket: GenericNetlinkSocket,
    overruns: u64,
}

impl ExitListener {
    /// Registers for the exits on `cpus`, a list as in /sys/devices/system/cpu/possible. The kernel removes the registration
    /// when the socket is closed.
    pub fn register(cpus: &[u8]) -> Reading<ExitListener> {
        let mut link = GenericNetlinkSocket::open()?;
        // Beyond rmem_max, which needs CAP_NET_ADMIN; a smaller buffer loses more messages, and lost ones are counted.
        let _ = setsockopt(&link.socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES);
        let list: Vec<u8> = cpus.trim_ascii().iter().copied().chain([0]).collect();
        link.request(message::TASKSTATS_CMD_GET, message::TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, &list, |_| ())?;
        Ok(ExitListener { socket: link, overruns: 0 })
    }

    /// Tests with a thread of this process whether exits are received; true also where that is not known, since messages were lost. The kernel accepts a registration from any network
    /// namespace but sends exits only in the initial one (send_cpu_listeners, kernel/taskstats.c). It sends the message before
    /// it wakes the thread that joins. Messages received before are discarded.
    pub fn may_receive_exits(&mut self) -> Reading<bool> {
        let thread = thread::Builder::new().name("end".into()).spawn(gettid).ok();
        let Some(tid) = thread.and_then(|thread| thread.join().ok()).and_then(|tid| u32::try_from(tid.as_raw()).ok()) else {
            return Ok(true);
        };
        let mut received = false;
        self.fetch(MAX_MESSAGES_PER_TEST, |account| received |= account.tid == tid)?;
        // Where many tasks exit, the message may be among the lost ones.
        Ok(received || self.lost_messages() > 0)
    }

    /// Calls `each` with the statistics received since the last call, at most `most` messages; the rest comes with the next
    /// call. Does not wait. Messages of an unknown layout are skipped.
    pub fn fetch(&mut self, most: usize, mut each: impl FnMut(&TaskStats)) -> Reading<()> {
        for _ in 0..most {
            let length = match recv(self.socket.socket.as_raw_fd(), &mut self.socket.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => {
                    self.overruns = self.overruns.saturating_add(1);
                    continue;
                }
                Err(errno) => return Err(absent_from_errno(errno)),
            };
            let received = self.socket.buffer.get(..length).unwrap_or_default();
            if let Some(Answer::Payload(payload)) = message::parse_notification(received, self.socket.family)
                && let Some(account) = message::parse_stats(payload)
            {
                each(&account);
            }
        }
        Ok(())
    }

    /// Messages lost since the start. Before Linux 4.12 the number of overruns, a lower bound.
    pub fn lost_messages(&self) -> u64 {
        let exact = sys::socket_drops(self.socket.socket.as_fd()).ok().flatten();
        exact.map_or(self.overruns, |drops| u64::from(drops).max(self.overruns))
    }
}

/// A generic netlink socket, and the number of the family TASKSTATS.
#[derive(Debug)]
struct GenericNetlinkSocket {
    socket: OwnedFd,
    buffer: Vec<u8>,
    family: u16,
    sequence: u32,
}

impl GenericNetlinkSocket {
    fn open() -> Reading<GenericNetlinkSocket> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkGeneric).map_err(absent_from_errno)?;
        // The kernel answers within sendto; a receive waits one second at most.
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1)).map_err(absent_from_errno)?;
        let mut link =
            GenericNetlinkSocket { socket, buffer: vec![0; ANSWER_BUFFER_BYTES], family: message::GENL_ID_CTRL, sequence: 0 };
        let mut family = None;
        link.request(message::CTRL_CMD_GETFAMILY, message::CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0", |payload| {
            family = message::parse_family_id(payload)
        })?;
        link.family = family.ok_or(Absent::Malformed)?;
        Ok(link)
    }

    /// Sends a request and calls `each` with the answers' payloads until the kernel acknowledges.
    fn request(&mut self, command: u8, attribute: AttributeType, value: &[u8], mut each: impl FnMut(&[u8])) -> Reading<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message::request(self.family, self.sequence, command, attribute, value);
        sendto(self.socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).map_err(absent_from_errno)?;
        for _ in 0..MAX_UNRELATED_ANSWERS {
            let length = match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EINTR | Errno::ENOBUFS) => continue,
                Err(errno) => return Err(absent_from_errno(errno)),
            };
            let received = self.buffer.get(..length).unwrap_or_default();
            for answer in message::parse_answers(received, self.family, self.sequence) {
                match answer {
                    Answer::Payload(payload) => each(payload),
                    Answer::Acknowledged => return Ok(()),
                    Answer::Refused(why) => return Err(why),
                }
            }
        }
        Err(Absent::Malformed)
    }
}
