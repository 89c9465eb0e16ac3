//! The kernel's taskstats over generic netlink: the account of one living task, and of every task as it ends.
//!
//! Both need CAP_NET_ADMIN, in the initial user namespace (listening also in the initial pid namespace); without it the
//! kernel answers EPERM, which is `Absent::NoPermission`. A kernel without CONFIG_TASKSTATS has no such family:
//! `Absent::NoSuchFile`. kernel/taskstats.c, Documentation/accounting/taskstats.rst.
//!
//! `Taskstats` asks and is answered at once. `Exits` hears; give it a socket of its own, since what it did not fetch in
//! time is lost, and that must not touch an answer.

mod account;
pub mod message;

use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, GetSockOpt, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, getsockopt, recv, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::gettid;

pub use account::{Account, Delay};

use super::root::absent;
use crate::sample::{Absent, Reading};
use message::{Answer, Attribute};

/// More than any answer has: 500 bytes, and as many again for the thread group.
const ROOM: usize = 8 << 10;
/// What the kernel may hold for us between two fetches: about 3,000 exits. Not memory until something exits.
const HELD_BYTES: usize = 4 << 20;
/// More messages than the socket holds.
const MOST_HEARD: usize = 16 << 10;
/// Answers that are passed over while waiting for the one that was asked for.
const MOST_STRAY: usize = 64;

/// A question-and-answer socket.
#[derive(Debug)]
pub struct Taskstats {
    link: Link,
}

impl Taskstats {
    /// Looks up the family; fails where this kernel has none. The privilege shows only when something is asked.
    pub fn open() -> Reading<Taskstats> {
        Ok(Taskstats { link: Link::open()? })
    }

    /// One thread, by the tid of the initial pid namespace. `Vanished` when it has ended.
    pub fn thread(&mut self, tid: u32) -> Reading<Account> {
        self.account(message::ASK_THREAD, tid)
    }

    /// The whole process: delays and switches summed over its threads, ended ones included. The kernel walks them all, and
    /// leaves name, times and CPU time 0.
    pub fn process(&mut self, tgid: u32) -> Reading<Account> {
        self.account(message::ASK_PROCESS, tgid)
    }

    fn account(&mut self, question: Attribute, id: u32) -> Reading<Account> {
        let mut found = None;
        self.link.ask(message::GET, question, &id.to_ne_bytes(), |payload| found = message::account(payload))?;
        found.ok_or(Absent::Malformed)
    }
}

/// A socket that hears of each thread that ends.
#[derive(Debug)]
pub struct Exits {
    link: Link,
    overruns: u64,
}

impl Exits {
    /// Registers for the exits on `cpus`, a list as in /sys/devices/system/cpu/possible. The kernel forgets it by itself
    /// once the socket is closed, however the program ends.
    pub fn listen(cpus: &[u8]) -> Reading<Exits> {
        let mut link = Link::open()?;
        // Beyond rmem_max with CAP_NET_ADMIN, which is needed anyway; less room means more losses, and those are counted.
        let _ = setsockopt(&link.socket, sockopt::RcvBufForce, &HELD_BYTES);
        let list: Vec<u8> = cpus.trim_ascii().iter().copied().chain([0]).collect();
        link.ask(message::GET, message::REGISTER, &list, |_| ())?;
        Ok(Exits { link, overruns: 0 })
    }

    /// Whether ends reach us, tried with a thread of our own: the kernel tells of them in the initial network namespace alone
    /// (send_cpu_listeners, kernel/taskstats.c), and yet lets anybody register. It does so before it wakes who joins the thread.
    /// What was heard before is passed over.
    pub fn hears_us(&mut self) -> Reading<bool> {
        let thread = thread::Builder::new().name("end".into()).spawn(gettid).ok();
        let Some(tid) = thread.and_then(|thread| thread.join().ok()).and_then(|tid| u32::try_from(tid.as_raw()).ok()) else {
            return Ok(true);
        };
        let mut heard = false;
        self.fetch(MOST_HEARD, |account| heard |= account.tid == tid)?;
        // Where others end too fast, that one may be among those that were lost.
        Ok(heard || self.lost() > 0)
    }

    /// Gives what was heard since the last time to `each`; never waits. `most` bounds how long it takes: what is left
    /// comes the next time. Messages of a layout that is not known are passed over.
    pub fn fetch(&mut self, most: usize, mut each: impl FnMut(&Account)) -> Reading<()> {
        for _ in 0..most {
            let length = match recv(self.link.socket.as_raw_fd(), &mut self.link.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => {
                    self.overruns = self.overruns.saturating_add(1);
                    continue;
                }
                Err(errno) => return Err(reason(errno)),
            };
            let received = self.link.buffer.get(..length).unwrap_or_default();
            if let Some(Answer::Payload(payload)) = message::first(received, self.link.family)
                && let Some(account) = message::account(payload)
            {
                each(&account);
            }
        }
        Ok(())
    }

    /// How many messages were lost since the beginning. Before Linux 4.12 only how often some were, a lower bound.
    pub fn lost(&self) -> u64 {
        let exact = getsockopt(&self.link.socket, MemInfo).ok().and_then(|info| info.get(SK_MEMINFO_DROPS).copied());
        exact.map_or(self.overruns, |drops| u64::from(drops).max(self.overruns))
    }
}

/// Index in the answer to SO_MEMINFO: sk_drops.
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

/// A generic netlink socket that knows the number of the family.
#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    buffer: Vec<u8>,
    family: u16,
    sequence: u32,
}

impl Link {
    fn open() -> Reading<Link> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkGeneric).map_err(reason)?;
        // The kernel answers while it is asked; should it not, a second is waited at most.
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1)).map_err(reason)?;
        let mut link = Link { socket, buffer: vec![0; ROOM], family: message::CONTROL, sequence: 0 };
        let mut family = None;
        link.ask(message::GET_FAMILY, message::FAMILY_NAME, b"TASKSTATS\0", |payload| family = message::family(payload))?;
        link.family = family.ok_or(Absent::Malformed)?;
        Ok(link)
    }

    /// Sends one request and gives the answers' payloads to `each`, until the kernel acknowledges it.
    fn ask(&mut self, command: u8, question: Attribute, value: &[u8], mut each: impl FnMut(&[u8])) -> Reading<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message::request(self.family, self.sequence, command, question, value);
        sendto(self.socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).map_err(reason)?;
        for _ in 0..MOST_STRAY {
            let length = match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EINTR | Errno::ENOBUFS) => continue,
                Err(errno) => return Err(reason(errno)),
            };
            let received = self.buffer.get(..length).unwrap_or_default();
            for answer in message::answers(received, self.family, self.sequence) {
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

fn reason(errno: Errno) -> Absent {
    absent(&errno.into())
}
