//! The kernel's taskstats over generic netlink: the account of one living task, and of every task as it ends.
//!
//! Both need CAP_NET_ADMIN, in the initial user namespace (listening also in the initial pid namespace); without it the
//! kernel answers EPERM, which is `Absent::NoPermission`. A kernel without CONFIG_TASKSTATS has no such family:
//! `Absent::NoSuchFile`. kernel/taskstats.c, Documentation/accounting/taskstats.rst.
//!
//! `Taskstats` asks and is answered at once. `Exits` hears; give it a socket of its own, since what it did not fetch in
//! time is lost, and that must not touch an answer.

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

pub use stats::{Delay, TaskStats};

use super::root::absent_from_errno;
use super::sys;
use crate::sample::{Absent, Reading};
use message::{Answer, AttributeType};

/// More than any answer has: 500 bytes, and as many again for the thread group.
const ANSWER_BUFFER_BYTES: usize = 8 << 10;
/// What the kernel may hold for us between two fetches: about 3,000 exits. Not memory until something exits.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// More messages than the socket holds.
const MAX_MESSAGES_PER_TEST: usize = 16 << 10;
/// Answers that are passed over while waiting for the one that was asked for.
const MAX_UNRELATED_ANSWERS: usize = 64;

/// A question-and-answer socket.
#[derive(Debug)]
pub struct TaskstatsClient {
    socket: GenericNetlinkSocket,
}

impl TaskstatsClient {
    /// Looks up the family; fails where this kernel has none. The privilege shows only when something is asked.
    pub fn open() -> Reading<TaskstatsClient> {
        Ok(TaskstatsClient { socket: GenericNetlinkSocket::open()? })
    }

    /// One thread, by the tid of the initial pid namespace. `Vanished` when it has ended.
    pub fn query_thread(&mut self, tid: u32) -> Reading<TaskStats> {
        self.query(message::TASKSTATS_CMD_ATTR_PID, tid)
    }

    /// The whole process: delays and switches summed over its threads, ended ones included. The kernel walks them all, and
    /// leaves name, times and CPU time 0.
    pub fn query_process(&mut self, tgid: u32) -> Reading<TaskStats> {
        self.query(message::TASKSTATS_CMD_ATTR_TGID, tgid)
    }

    fn query(&mut self, question: AttributeType, id: u32) -> Reading<TaskStats> {
        let mut found = None;
        self.socket.request(message::TASKSTATS_CMD_GET, question, &id.to_ne_bytes(), |payload| {
            found = message::parse_stats(payload)
        })?;
        found.ok_or(Absent::Malformed)
    }
}

/// A socket that hears of each thread that ends.
#[derive(Debug)]
pub struct ExitListener {
    socket: GenericNetlinkSocket,
    overruns: u64,
}

impl ExitListener {
    /// Registers for the exits on `cpus`, a list as in /sys/devices/system/cpu/possible. The kernel forgets it by itself
    /// once the socket is closed, however the program ends.
    pub fn register(cpus: &[u8]) -> Reading<ExitListener> {
        let mut link = GenericNetlinkSocket::open()?;
        // Beyond rmem_max with CAP_NET_ADMIN, which is needed anyway; less room means more losses, and those are counted.
        let _ = setsockopt(&link.socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES);
        let list: Vec<u8> = cpus.trim_ascii().iter().copied().chain([0]).collect();
        link.request(message::TASKSTATS_CMD_GET, message::TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, &list, |_| ())?;
        Ok(ExitListener { socket: link, overruns: 0 })
    }

    /// Whether ends reach us, tried with a thread of our own: the kernel tells of them in the initial network namespace alone
    /// (send_cpu_listeners, kernel/taskstats.c), and yet lets anybody register. It does so before it wakes who joins the thread.
    /// What was heard before is passed over.
    pub fn receives_own_exits(&mut self) -> Reading<bool> {
        let thread = thread::Builder::new().name("end".into()).spawn(gettid).ok();
        let Some(tid) = thread.and_then(|thread| thread.join().ok()).and_then(|tid| u32::try_from(tid.as_raw()).ok()) else {
            return Ok(true);
        };
        let mut heard = false;
        self.fetch(MAX_MESSAGES_PER_TEST, |account| heard |= account.tid == tid)?;
        // Where others end too fast, that one may be among those that were lost.
        Ok(heard || self.lost_messages() > 0)
    }

    /// Gives what was heard since the last time to `each`; never waits. `most` bounds how long it takes: what is left
    /// comes the next time. Messages of a layout that is not known are passed over.
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

    /// How many messages were lost since the beginning. Before Linux 4.12 only how often some were, a lower bound.
    pub fn lost_messages(&self) -> u64 {
        let exact = sys::socket_drops(self.socket.socket.as_fd()).ok().flatten();
        exact.map_or(self.overruns, |drops| u64::from(drops).max(self.overruns))
    }
}

/// A generic netlink socket that knows the number of the family.
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
        // The kernel answers while it is asked; should it not, a second is waited at most.
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

    /// Sends one request and gives the answers' payloads to `each`, until the kernel acknowledges it.
    fn request(&mut self, command: u8, question: AttributeType, value: &[u8], mut each: impl FnMut(&[u8])) -> Reading<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message::request(self.family, self.sequence, command, question, value);
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
