//! Who waits over a pipe or a socket for a process of its own group that is on storage.
//!
//! A pool of idle workers sleeps in the same read, and some thread beside it may well be on storage for reasons of its own.
//! So the other end decides: those who hold it must all be on storage (or just wait for it, too). It is looked for only
//! in groups that had a thread on storage and active sleepers in pipes and sockets, within bounds; whose other end is
//! not found does not count. The other end of a TCP connection is named (`remote`) and counts as nothing.

use std::os::unix::ffi::OsStrExt;

use nix::sys::socket::SockProtocol;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::TaskId;
use crate::kernel::fields::{lines, small_number, words};
use crate::kernel::network::netlink::Netlink;
use crate::kernel::root::Root;
use crate::kernel::task::{self, files::TaskFiles};
use crate::sample::Reading;
use crate::sample::task::Tasks;
use crate::sample::waits::{Call, QueueKind, WaitClass, Waits};

/// A thread seen asleep in a pipe or socket at one look.
#[derive(Clone, Copy, Debug)]
pub struct PeerLook {
    /// Index into `Waits::sub_samples`
    pub look: usize,
    pub group: u16,
    pub task: TaskId,
    pub kind: QueueKind,
}

/// So many looks an interval are kept, so many threads followed, processes of a group and descriptors looked through.
pub const MOST_LOOKS: usize = 4096;
const MOST_THREADS: usize = 64;
const MOST_PROCESSES: usize = 128;
const MOST_DESCRIPTORS: usize = 2048;

/// A group has a thread on storage when it had one in this share of the looks (metrics.md section 3).
const HOLDING_SHARE: f64 = 0.2;

/// One end of a pipe or socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    PipeRead(u32),
    PipeWrite(u32),
    Socket(u32),
}

/// Adds those that are behind a peer to the counts of the looks, and keeps their queues only.
pub fn trace(waits: &mut Waits, looks: &[PeerLook], tasks: Option<&Tasks>, root: &Root, files: &mut TaskFiles, machine: &[u8]) {
    let mut followed: FxHashMap<TaskId, u32> = FxHashMap::default();
    for group in worth_it(waits, looks) {
        let (Some(id), Some(tasks)) = (waits.groups.get(usize::from(group)), tasks) else { continue };
        let members: Vec<u32> = tasks.members(id).map(|process| process.pid).collect();
        if members.len() > MOST_PROCESSES {
            continue;
        }
        let waiting = ends_of_waiters(looks, group, files, machine);
        let holders = Holders::of(&members, &waiting, root, files);
        for (&waiter, &end) in &waiting {
            if let Some(giver) = holders.stuck_giver(waits, &waiting, end) {
                followed.insert(waiter, giver);
            }
        }
    }
    apply(waits, looks, &followed);
}

fn apply(waits: &mut Waits, looks: &[PeerLook], followed: &FxHashMap<TaskId, u32>) {
    let mut queues: FxHashMap<(u16, QueueKind), (u32, u32)> = FxHashMap::default();
    for look in looks {
        let Some(&giver) = followed.get(&look.task) else { continue };
        let rows = waits.sub_samples.get_mut(look.look).map(|sub| &mut sub.groups);
        let Some(row) = rows.and_then(|rows| rows.iter_mut().find(|row| row.group == look.group)) else { continue };
        row.behind_peer = row.behind_peer.saturating_add(1);
        let (times, _) = queues.entry((look.group, look.kind)).or_insert((0, giver));
        *times = times.saturating_add(1);
    }
    waits.queues.retain_mut(|queue| {
        if !matches!(queue.kind, QueueKind::Pipe | QueueKind::Socket) {
            return true;
        }
        let Some(&(times, giver)) = queues.get(&(queue.group, queue.kind)) else { return false };
        (queue.times, queue.holder) = (times, Some(giver));
        true
    });
}

/// Groups that spent enough of the interval with a thread on storage, and have sleepers to ask about.
fn worth_it(waits: &Waits, looks: &[PeerLook]) -> Vec<u16> {
    let whole = waits.sub_samples.len() as f64;
    let mut groups: Vec<u16> = looks.iter().map(|look| look.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|&group| {
        let rows = waits.sub_samples.iter().flat_map(|sub| &sub.groups).filter(|row| row.group == group);
        let held = rows.filter(|row| row.storage > 0).count() as f64;
        held > 0.0 && held >= whole * HOLDING_SHARE
    });
    groups
}

/// The end that each waiter of a group sleeps at.
fn ends_of_waiters(looks: &[PeerLook], group: u16, files: &mut TaskFiles, machine: &[u8]) -> FxHashMap<TaskId, End> {
    let mut asked = FxHashSet::default();
    let mut ends = FxHashMap::default();
    for look in looks.iter().filter(|look| look.group == group) {
        if asked.len() >= MOST_THREADS || !asked.insert(look.task) {
            continue;
        }
        if let Ok(Some(end)) = end_of(look.task, files, machine) {
            ends.insert(look.task, end);
        }
    }
    ends
}

/// The socket that a thread receives from.
pub fn socket_of_receiver(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Option<u32> {
    let call = call_of(task, files, machine).ok()?.filter(|call| receives(*call))?;
    let target = files.link(format_args!("{}/fd/{}", task.pid, call.arguments[0])).ok()?;
    inode(target.as_bytes(), b"socket:[")
}

fn call_of(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<Call>> {
    let TaskId { pid, tid, .. } = task;
    let call = task::system_call(files.once(format_args!("{pid}/task/{tid}/syscall"))?)?;
    Ok(Call::from_number(machine, call))
}

fn receives(call: Call) -> bool {
    matches!(call.name, "read" | "readv" | "recvfrom" | "recvmsg")
}

fn end_of(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<End>> {
    let TaskId { pid, .. } = task;
    let Some(call) = call_of(task, files, machine)? else { return Ok(None) };
    let reads = receives(call);
    let writes = matches!(call.name, "write" | "writev" | "sendto" | "sendmsg");
    if !(reads || writes) {
        return Ok(None);
    }
    let target = files.link(format_args!("{pid}/fd/{}", call.arguments[0]))?;
    Ok(match (inode(target.as_bytes(), b"pipe:["), inode(target.as_bytes(), b"socket:[")) {
        (Some(pipe), _) if reads => Some(End::PipeRead(pipe)),
        (Some(pipe), _) => Some(End::PipeWrite(pipe)),
        (_, Some(socket)) => Some(End::Socket(socket)),
        _ => None,
    })
}

/// `pipe:[12345]`
fn inode(target: &[u8], kind: &[u8]) -> Option<u32> {
    small_number(target.strip_prefix(kind)?.strip_suffix(b"]")?)
}

/// Which processes of a group have the other ends open.
#[derive(Debug, Default)]
struct Holders {
    /// By the end that is waited at
    of: FxHashMap<End, Vec<u32>>,
}

impl Holders {
    fn of(members: &[u32], waiting: &FxHashMap<TaskId, End>, root: &Root, files: &mut TaskFiles) -> Holders {
        let mut wanted: FxHashMap<End, End> = FxHashMap::default();
        let sockets: FxHashSet<u32> =
            waiting.values().filter_map(|end| if let End::Socket(inode) = end { Some(*inode) } else { None }).collect();
        let ask = root.is_host() && !sockets.is_empty();
        let peers = if ask { unix_peers(&sockets).unwrap_or_default() } else { FxHashMap::default() };
        for &end in waiting.values() {
            let other = match end {
                End::PipeRead(pipe) => Some(End::PipeWrite(pipe)),
                End::PipeWrite(pipe) => Some(End::PipeRead(pipe)),
                End::Socket(socket) => peers.get(&socket).map(|&peer| End::Socket(peer)),
            };
            wanted.extend(other.map(|other| (other, end)));
        }
        let mut holders = Holders::default();
        let mut left = MOST_DESCRIPTORS;
        for &pid in members {
            let Ok(descriptors) = root.list(format!("proc/{pid}/fd")) else { continue };
            if descriptors.len() > left {
                // Half of the truth would make a stuck process of one that works: nobody is followed.
                return Holders::default();
            }
            left -= descriptors.len();
            for descriptor in descriptors.iter().filter_map(|name| small_number(name.as_bytes())) {
                for end in open_ends(pid, descriptor, files) {
                    let Some(&waited) = wanted.get(&end) else { continue };
                    let pids = holders.of.entry(waited).or_default();
                    if pids.last() != Some(&pid) {
                        pids.push(pid);
                    }
                }
            }
        }
        holders
    }

    /// A process that has the other end and is on storage, where none that has it could be giving something now.
    fn stuck_giver(&self, waits: &Waits, waiting: &FxHashMap<TaskId, End>, end: End) -> Option<u32> {
        let mut stuck = None;
        for &pid in self.of.get(&end)? {
            match State::of(waits, waiting, end, pid) {
                State::Stuck => stuck = Some(pid),
                State::Waits => {}
                State::Works => return None,
            }
        }
        stuck
    }
}

/// What a process that holds an end was doing in this interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Some thread of it is on storage, and the others wait for it
    Stuck,
    /// Asleep, or waiting at the very same end
    Waits,
    /// A thread of it did something else: it may be the one that gives
    Works,
}

impl State {
    fn of(waits: &Waits, waiting: &FxHashMap<TaskId, End>, end: End, pid: u32) -> State {
        let from = waits.threads.partition_point(|thread| thread.task.pid < pid);
        let threads = waits.threads.iter().skip(from).take_while(|thread| thread.task.pid == pid);
        let mut state = State::Waits;
        for thread in threads.filter(|thread| waiting.get(&thread.task) != Some(&end)) {
            let share = |classes: &[WaitClass]| {
                let times = classes.iter().filter_map(|class| thread.seen.get(*class as usize)).map(|&times| u32::from(times));
                f64::from(times.sum::<u32>()) / f64::from(thread.looks().max(1))
            };
            if share(&[WaitClass::Disk]) >= HOLDING_SHARE {
                state = State::Stuck;
            } else if share(&[WaitClass::Lock, WaitClass::Futex]) < 0.5 {
                return State::Works;
            }
        }
        state
    }
}

/// Which ends a descriptor is: of a pipe that is open for both, two.
fn open_ends(pid: u32, descriptor: u32, files: &mut TaskFiles) -> Vec<End> {
    let Ok(target) = files.link(format_args!("{pid}/fd/{descriptor}")) else { return Vec::new() };
    if let Some(socket) = inode(target.as_bytes(), b"socket:[") {
        return vec![End::Socket(socket)];
    }
    let Some(pipe) = inode(target.as_bytes(), b"pipe:[") else { return Vec::new() };
    let text = files.once(format_args!("{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = lines(text).find_map(|line| words(line.strip_prefix(b"flags:")?).next());
    // In octal: O_RDONLY 0, O_WRONLY 1, O_RDWR 2.
    match flags.and_then(<[u8]>::last) {
        Some(digit) if digit & 3 == 1 => vec![End::PipeWrite(pipe)],
        Some(digit) if digit & 3 == 2 => vec![End::PipeRead(pipe), End::PipeWrite(pipe)],
        Some(_) => vec![End::PipeRead(pipe)],
        None => Vec::new(),
    }
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_AND_DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// Bytes of struct unix_diag_msg, before the attributes.
const UNIX_DIAG_MSG: usize = 16;

/// The other ends of these Unix sockets, by one UNIX_DIAG dump; any user may ask.
fn unix_peers(wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, u32>> {
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST_AND_DUMP.to_ne_bytes());
    request.extend([0; 8]); // sequence number, set when it is sent; port
    request.extend([AF_UNIX, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes()); // every state
    request.extend(0_u32.to_ne_bytes());
    request.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    request.extend([0xff; 8]); // no cookie
    let mut peers = FxHashMap::default();
    Netlink::open(SockProtocol::NetlinkSockDiag)?.dump(&mut request, |_, payload| {
        if let Some((socket, peer)) = unix_peer(payload).filter(|(socket, _)| wanted.contains(socket)) {
            peers.insert(socket, peer);
        }
    })?;
    Ok(peers)
}

/// One message: the socket's inode and its peer's.
fn unix_peer(payload: &[u8]) -> Option<(u32, u32)> {
    let word = |bytes: &[u8]| bytes.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
    let socket = word(payload.get(4..)?)?;
    let mut rest = payload.get(UNIX_DIAG_MSG..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk::<2>()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk::<2>()?);
        if kind == UNIX_DIAG_PEER {
            return Some((socket, word(rest.get(4..)?)?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sample::waits::{GroupWaits, Queue, SubSample, ThreadWaits};

    fn task(pid: u32, tid: u32) -> TaskId {
        TaskId { pid, tid, start_ticks: 1 }
    }

    fn thread(pid: u32, tid: u32, class: WaitClass) -> ThreadWaits {
        let mut seen = [0; WaitClass::COUNT];
        seen[class as usize] = 10;
        ThreadWaits { task: task(pid, tid), group: 0, seen }
    }

    /// A server and a client that waits at the pipe 7; `others` have its other end, too.
    fn giver(threads: Vec<ThreadWaits>, holders: &[u32]) -> Option<u32> {
        let waits = Waits { threads, ..Waits::default() };
        let waiting = FxHashMap::from_iter([(task(10, 10), End::PipeRead(7))]);
        let holders = Holders { of: FxHashMap::from_iter([(End::PipeRead(7), holders.to_vec())]) };
        holders.stuck_giver(&waits, &waiting, End::PipeRead(7))
    }

    #[test]
    fn whoever_may_be_giving_something_is_waited_for_in_vain() {
        let client = || thread(10, 10, WaitClass::Pipe);
        let server = |class| thread(20, 20, class);
        assert_eq!(giver(vec![client(), server(WaitClass::Disk)], &[20]), Some(20));
        assert_eq!(giver(vec![client(), server(WaitClass::Disk)], &[10, 20]), Some(20), "it waits at its own end");
        assert_eq!(giver(vec![client(), server(WaitClass::Poll)], &[20]), None, "a dispatcher that waits for work");
        let logger = vec![client(), server(WaitClass::Disk), thread(20, 21, WaitClass::Timer)];
        assert_eq!(giver(logger, &[20]), None, "which of its threads gives is not known");
        let behind = vec![client(), server(WaitClass::Disk), thread(20, 21, WaitClass::Futex)];
        assert_eq!(giver(behind, &[20]), Some(20));
        let two = vec![client(), server(WaitClass::Disk), thread(30, 30, WaitClass::Poll)];
        assert_eq!(giver(two, &[20, 30]), None, "somebody else has it, too, and works");
        assert_eq!(giver(vec![client()], &[20]), None, "a parked process gives nothing, and waits for nothing");
        assert_eq!(giver(vec![client(), server(WaitClass::Disk)], &[]), None);
    }

    #[test]
    fn only_those_that_were_followed_are_counted() {
        let row = GroupWaits { group: 0, peer: 2, storage: 1, ..GroupWaits::default() };
        let queue =
            Queue { group: 0, kind: QueueKind::Pipe, times: 2, times_at_one: 0, channel: None, file: None, holder: None };
        let mut waits = Waits {
            sub_samples: vec![SubSample { groups: vec![row], ..SubSample::default() }],
            queues: vec![queue.clone(), Queue { kind: QueueKind::Socket, ..queue }],
            ..Waits::default()
        };
        let look = |tid| PeerLook { look: 0, group: 0, task: task(10, tid), kind: QueueKind::Pipe };
        apply(&mut waits, &[look(10), look(11)], &FxHashMap::from_iter([(task(10, 11), 20)]));
        assert_eq!(waits.sub_samples[0].groups[0].behind_peer, 1);
        let kept: Vec<_> = waits.queues.iter().map(|queue| (queue.kind, queue.times, queue.holder)).collect();
        assert_eq!(kept, [(QueueKind::Pipe, 1, Some(20))]);
    }

    #[test]
    fn the_kernel_names_the_other_end_of_a_socket() {
        let (one, other) = UnixStream::pair().unwrap();
        let number = |stream: &UnixStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
            inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
        };
        match unix_peers(&FxHashSet::from_iter([number(&one)])) {
            Ok(peers) => assert_eq!(peers, FxHashMap::from_iter([(number(&one), number(&other))])),
            Err(why) => println!("skipped: this kernel has no UNIX_DIAG ({why})"),
        }
    }

    #[test]
    fn a_message_that_is_cut_is_no_peer() {
        let mut message = vec![1, 1, 1, 0];
        message.extend(5_u32.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([8, 0, 2, 0]);
        message.extend(6_u32.to_ne_bytes());
        assert_eq!(unix_peer(&message), Some((5, 6)));
        for length in 0..message.len() {
            assert_eq!(unix_peer(&message[..length]), None);
        }
    }
}
