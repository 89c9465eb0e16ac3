//! taskstats over generic netlink: the statistics of a living task, and of every task when it exits.
//!
//! Both need CAP_NET_ADMIN in the initial user namespace (listening also the initial pid namespace); without it the kernel answers EPERM,
//! which is `Absent::NoPermission`. A kernel without CONFIG_TASKSTATS has no such family: `Absent::NoSuchFile`. kernel/taskstats.c,
//! Documentation/accounting/taskstats.rst.
//!
//! `TaskstatsClient` sends a request and reads the answer. `ExitListener` only receives, on a socket of its own: a full buffer must not
//! lose answers.

pub mod message;
mod stats;

use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, GetSockOpt, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, getsockopt, recv, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::gettid;

pub use stats::{Delay, TaskStats};

use super::root::absent_from_io_error;
use crate::sample::{Absent, Reading};
use message::{Answer, AttributeType};

/// More than any answer: 500 bytes, and as many again for the thread group.
const ANSWER_BUFFER_BYTES: usize = 8 << 10;
/// Socket buffer: holds about 3,000 exits between two fetches, and takes no memory before a task exits.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// More messages than the socket buffer holds.
const MAX_MESSAGES_PER_TEST: usize = 16 << 10;
/// Answers to other requests that are skipped while waiting for one.
const MAX_UNRELATED_ANSWERS: usize = 64;

/// Requests statistics of living tasks.
#[derive(Debug)]
pub struct TaskstatsClient {
    socket: GenericNetlinkSocket,
}

impl TaskstatsClient {
    /// Looks up the family; fails if the kernel has none. A missing privilege shows with the first request.
    pub fn open() -> Reading<TaskstatsClient> {
        Ok(TaskstatsClient { socket: GenericNetlinkSocket::open()? })
    }

    /// Statistics of a thread, by its tid in the initial pid namespace. `Vanished` if it has exited.
    pub fn query_thread(&mut self, tid: u32) -> Reading<TaskStats> {
        self.query(message::TASKSTATS_CMD_ATTR_PID, tid)
    }

    /// Statistics of a process: delays and switches summed over its threads, exited ones included. The kernel walks all threads, and leaves
    /// name, times and CPU time 0.
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

/// A socket that receives a message for each thread that exits.
#[derive(Debug)]
pub struct ExitListener {
    socket: GenericNetlinkSocket,
    overruns: u64,
}

impl ExitListener {
    /// Registers for exits on `cpus`, a list as in /sys/devices/system/cpu/possible. The kernel removes the registration when the socket is
    /// closed, however the program ends.
    pub fn register(cpus: &[u8]) -> Reading<ExitListener> {
        let mut link = GenericNetlinkSocket::open()?;
        // Above rmem_max with CAP_NET_ADMIN, which is needed anyway. A smaller buffer loses more messages, and losses are counted.
        let _ = setsockopt(&link.socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES);
        let list: Vec<u8> = cpus.trim_ascii().iter().copied().chain([0]).collect();
        link.request(message::TASKSTATS_CMD_GET, message::TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, &list, |_| ())?;
        Ok(ExitListener { socket: link, overruns: 0 })
    }

    /// Whether messages arrive, tried with a thread of this process: the kernel sends them in the initial network namespace only
    /// (send_cpu_listeners, kernel/taskstats.c), but lets anybody register. It sends them before it wakes what joins the thread. Messages
    /// received before are skipped.
    pub fn receives_own_exits(&mut self) -> Reading<bool> {
        let thread = thread::Builder::new().name("end".into()).spawn(gettid).ok();
        let Some(tid) = thread.and_then(|thread| thread.join().ok()).and_then(|tid| u32::try_from(tid.as_raw()).ok()) else {
            return Ok(true);
        };
        let mut heard = false;
        self.fetch(MAX_MESSAGES_PER_TEST, |account| heard |= account.tid == tid)?;
        // If many tasks exit, this message may be among the lost ones.
        Ok(heard || self.lost_messages() > 0)
    }

    /// Passes each message received since the last call to `each`; never waits. At most `most` messages; the next call returns the rest.
    /// Messages of an unknown layout are skipped.
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

    /// Messages lost since the start. Before Linux 4.12 the number of times that some were lost, a lower bound.
    pub fn lost_messages(&self) -> u64 {
        let exact = getsockopt(&self.socket.socket, MemInfo).ok().and_then(|info| info.get(SK_MEMINFO_DROPS).copied());
        exact.map_or(self.overruns, |drops| u64::from(drops).max(self.overruns))
    }
}

/// Index of sk_drops in the answer to SO_MEMINFO.
const SK_MEMINFO_DROPS: usize = 8;

/// getsockopt(SO_MEMINFO), include/uapi/linux/sock_diag.h: nine numbers.
#[derive(Clone, Copy, Debug)]
struct MemInfo;

impl GetSockOpt for MemInfo {
    type Val = Vec<u32>;

    fn get<F: std::os::fd::AsFd>(&self, fd: &F) -> nix::Result<Vec<u32>> {
        let mut values = [0_u32; SK_MEMINFO_DROPS + 1];
        let mut length = libc::socklen_t::try_from(size_of_val(&values)).unwrap_or_default();
        // SAFETY: the kernel writes at most `length` bytes, the size of `values`, and any bytes are a valid u32.
        let status = unsafe {
            libc::getsockopt(
                fd.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                values.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        Errno::result(status)?;
        let written = usize::try_from(length).unwrap_or_default() / size_of::<u32>();
        Ok(values.iter().take(written).copied().collect())
    }
}

/// A generic netlink socket, and the id of the family TASKSTATS.
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
        // The kernel answers within the request; in any case wait one second at most.
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

    /// Sends a request and passes the payload of each answer to `each`, until the kernel acknowledges the request.
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

fn absent_from_errno(errno: Errno) -> Absent {
    absent_from_io_error(&errno.into())
}
