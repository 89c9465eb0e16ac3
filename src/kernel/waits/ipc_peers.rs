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
use crate::kernel::fields::{lines, parse_u32, words};
use crate::kernel::network::netlink::Netlink;
use crate::kernel::root::Root;
use crate::kernel::task::{self, files::TaskFiles};
use crate::sample::Reading;
use crate::sample::task::Tasks;
use crate::sample::waits::{Syscall, WaitClass, WaitQueueKind, Waits};

/// A thread seen asleep in a pipe or socket at one look.
#[derive(Clone, Copy, Debug)]
pub struct PeerWait {
    /// Index into `Waits::sub_samples`
    pub sub_sample: usize,
    pub group: u16,
    pub task: TaskId,
    pub kind: WaitQueueKind,
}

/// So many looks an interval are kept, so many threads followed, processes of a group and descriptors looked through.
pub const MAX_PEER_WAITS: usize = 4096;
const MAX_THREADS: usize = 64;
const MAX_PROCESSES: usize = 128;
const MAX_DESCRIPTORS: usize = 2048;

/// A group has a thread on storage when it had one in this share of the looks (docs/metrics.md, "Idle but blocked").
const MIN_ON_STORAGE_SHARE: f64 = 0.2;

/// One end of a pipe or socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Endpoint {
    PipeRead(u32),
    PipeWrite(u32),
    Socket(u32),
}

/// Adds those that are behind a peer to the counts of the looks, and keeps their queues only.
pub fn trace_ipc_peers(
    waits: &mut Waits,
    looks: &[PeerWait],
    tasks: Option<&Tasks>,
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
) {
    let mut followed: FxHashMap<TaskId, u32> = FxHashMap::default();
    for group in groups_to_trace(waits, looks) {
        let (Some(id), Some(tasks)) = (waits.groups.get(usize::from(group)), tasks) else { continue };
        let members: Vec<u32> = tasks.members(id).map(|process| process.pid).collect();
        if members.len() > MAX_PROCESSES {
            continue;
        }
        let waiting = waiter_endpoints(looks, group, files, machine);
        let holders = Holders::find(&members, &waiting, root, files);
        for (&waiter, &end) in &waiting {
            if let Some(giver) = holders.blocked_holder(waits, &waiting, end) {
                followed.insert(waiter, giver);
            }
        }
    }
    apply_blocked_holders(waits, looks, &followed);
}

fn apply_blocked_holders(waits: &mut Waits, looks: &[PeerWait], followed: &FxHashMap<TaskId, u32>) {
    let mut queues: FxHashMap<(u16, WaitQueueKind), (u32, u32)> = FxHashMap::default();
    for look in looks {
        let Some(&giver) = followed.get(&look.task) else { continue };
        let rows = waits.sub_samples.get_mut(look.sub_sample).map(|sub| &mut sub.groups);
        let Some(row) = rows.and_then(|rows| rows.iter_mut().find(|row| row.group == look.group)) else { continue };
        row.behind_ipc_peer = row.behind_ipc_peer.saturating_add(1);
        let (times, _) = queues.entry((look.group, look.kind)).or_insert((0, giver));
        *times = times.saturating_add(1);
    }
    waits.wait_queues.retain_mut(|queue| {
        if !matches!(queue.kind, WaitQueueKind::Pipe | WaitQueueKind::Socket) {
            return true;
        }
        let Some(&(times, giver)) = queues.get(&(queue.group, queue.kind)) else { return false };
        (queue.seen_count, queue.holder) = (times, Some(giver));
        true
    });
}

/// Groups that spent enough of the interval with a thread on storage, and have sleepers to ask about.
fn groups_to_trace(waits: &Waits, looks: &[PeerWait]) -> Vec<u16> {
    let whole = waits.sub_samples.len() as f64;
    let mut groups: Vec<u16> = looks.iter().map(|look| look.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|&group| {
        let rows = waits.sub_samples.iter().flat_map(|sub| &sub.groups).filter(|row| row.group == group);
        let held = rows.filter(|row| row.storage > 0).count() as f64;
        held > 0.0 && held >= whole * MIN_ON_STORAGE_SHARE
    });
    groups
}

/// The end that each waiter of a group sleeps at.
fn waiter_endpoints(looks: &[PeerWait], group: u16, files: &mut TaskFiles, machine: &[u8]) -> FxHashMap<TaskId, Endpoint> {
    let mut asked = FxHashSet::default();
    let mut ends = FxHashMap::default();
    for look in looks.iter().filter(|look| look.group == group) {
        if asked.len() >= MAX_THREADS || !asked.insert(look.task) {
            continue;
        }
        if let Ok(Some(end)) = read_endpoint(look.task, files, machine) {
            ends.insert(look.task, end);
        }
    }
    ends
}

/// The socket that a thread receives from.
pub fn receiving_socket(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Option<u32> {
    let call = read_syscall(task, files, machine).ok()?.filter(|call| is_receive(*call))?;
    let target = files.read_link(format_args!("{}/fd/{}", task.pid, call.arguments[0])).ok()?;
    parse_inode(target.as_bytes(), b"socket:[")
}

fn read_syscall(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<Syscall>> {
    let TaskId { pid, tid, .. } = task;
    let call = task::parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall"))?)?;
    Ok(Syscall::from_number(machine, call))
}

fn is_receive(call: Syscall) -> bool {
    matches!(call.name, "read" | "readv" | "recvfrom" | "recvmsg")
}

fn read_endpoint(task: TaskId, files: &mut TaskFiles, machine: &[u8]) -> Reading<Option<Endpoint>> {
    let TaskId { pid, .. } = task;
    let Some(call) = read_syscall(task, files, machine)? else { return Ok(None) };
    let reads = is_receive(call);
    let writes = matches!(call.name, "write" | "writev" | "sendto" | "sendmsg");
    if !(reads || writes) {
        return Ok(None);
    }
    let target = files.read_link(format_args!("{pid}/fd/{}", call.arguments[0]))?;
    Ok(match (parse_inode(target.as_bytes(), b"pipe:["), parse_inode(target.as_bytes(), b"socket:[")) {
        (Some(pipe), _) if reads => Some(Endpoint::PipeRead(pipe)),
        (Some(pipe), _) => Some(Endpoint::PipeWrite(pipe)),
        (_, Some(socket)) => Some(Endpoint::Socket(socket)),
        _ => None,
    })
}

/// `pipe:[12345]`
fn parse_inode(target: &[u8], kind: &[u8]) -> Option<u32> {
    parse_u32(target.strip_prefix(kind)?.strip_suffix(b"]")?)
}

/// Which processes of a group have the other ends open.
#[derive(Debug, Default)]
struct Holders {
    /// By the end that is waited at
    by_endpoint: FxHashMap<Endpoint, Vec<u32>>,
}

impl Holders {
    fn find(members: &[u32], waiting: &FxHashMap<TaskId, Endpoint>, root: &Root, files: &mut TaskFiles) -> Holders {
        let mut wanted: FxHashMap<Endpoint, Endpoint> = FxHashMap::default();
        let sockets: FxHashSet<u32> =
            waiting.values().filter_map(|end| if let Endpoint::Socket(inode) = end { Some(*inode) } else { None }).collect();
        let ask = root.is_host() && !sockets.is_empty();
        let peers = if ask { dump_unix_peers(&sockets).unwrap_or_default() } else { FxHashMap::default() };
        for &end in waiting.values() {
            let other = match end {
                Endpoint::PipeRead(pipe) => Some(Endpoint::PipeWrite(pipe)),
                Endpoint::PipeWrite(pipe) => Some(Endpoint::PipeRead(pipe)),
                Endpoint::Socket(socket) => peers.get(&socket).map(|&peer| Endpoint::Socket(peer)),
            };
            wanted.extend(other.map(|other| (other, end)));
        }
        let mut holders = Holders::default();
        let mut left = MAX_DESCRIPTORS;
        for &pid in members {
            let Ok(descriptors) = root.list_directory(format!("proc/{pid}/fd")) else { continue };
            if descriptors.len() > left {
                // Half of the truth would make a stuck process of one that works: nobody is followed.
                return Holders::default();
            }
            left -= descriptors.len();
            for descriptor in descriptors.iter().filter_map(|name| parse_u32(name.as_bytes())) {
                for end in read_open_endpoints(pid, descriptor, files) {
                    let Some(&waited) = wanted.get(&end) else { continue };
                    let pids = holders.by_endpoint.entry(waited).or_default();
                    if pids.last() != Some(&pid) {
                        pids.push(pid);
                    }
                }
            }
        }
        holders
    }

    /// A process that has the other end and is on storage, where none that has it could be giving something now.
    fn blocked_holder(&self, waits: &Waits, waiting: &FxHashMap<TaskId, Endpoint>, end: Endpoint) -> Option<u32> {
        let mut stuck = None;
        for &pid in self.by_endpoint.get(&end)? {
            match HolderState::from_waits(waits, waiting, end, pid) {
                HolderState::OnStorage => stuck = Some(pid),
                HolderState::Waiting => {}
                HolderState::Working => return None,
            }
        }
        stuck
    }
}

/// What a process that holds an end was doing in this interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HolderState {
    /// Some thread of it is on storage, and the others wait for it
    OnStorage,
    /// Asleep, or waiting at the very same end
    Waiting,
    /// A thread of it did something else: it may be the one that gives
    Working,
}

impl HolderState {
    fn from_waits(waits: &Waits, waiting: &FxHashMap<TaskId, Endpoint>, end: Endpoint, pid: u32) -> HolderState {
        let from = waits.threads.partition_point(|thread| thread.task.pid < pid);
        let threads = waits.threads.iter().skip(from).take_while(|thread| thread.task.pid == pid);
        let mut state = HolderState::Waiting;
        for thread in threads.filter(|thread| waiting.get(&thread.task) != Some(&end)) {
            let share = |classes: &[WaitClass]| {
                let times =
                    classes.iter().filter_map(|class| thread.class_counts.get(*class as usize)).map(|&times| u32::from(times));
                f64::from(times.sum::<u32>()) / f64::from(thread.sub_sample_count().max(1))
            };
            if share(&[WaitClass::Disk]) >= MIN_ON_STORAGE_SHARE {
                state = HolderState::OnStorage;
            } else if share(&[WaitClass::Lock, WaitClass::Futex]) < 0.5 {
                return HolderState::Working;
            }
        }
        state
    }
}

/// Which ends a descriptor is: of a pipe that is open for both, two.
fn read_open_endpoints(pid: u32, descriptor: u32, files: &mut TaskFiles) -> Vec<Endpoint> {
    let Ok(target) = files.read_link(format_args!("{pid}/fd/{descriptor}")) else { return Vec::new() };
    if let Some(socket) = parse_inode(target.as_bytes(), b"socket:[") {
        return vec![Endpoint::Socket(socket)];
    }
    let Some(pipe) = parse_inode(target.as_bytes(), b"pipe:[") else { return Vec::new() };
    let text = files.read_once(format_args!("{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = lines(text).find_map(|line| words(line.strip_prefix(b"flags:")?).next());
    // In octal: O_RDONLY 0, O_WRONLY 1, O_RDWR 2.
    match flags.and_then(<[u8]>::last) {
        Some(digit) if digit & 3 == 1 => vec![Endpoint::PipeWrite(pipe)],
        Some(digit) if digit & 3 == 2 => vec![Endpoint::PipeRead(pipe), Endpoint::PipeWrite(pipe)],
        Some(_) => vec![Endpoint::PipeRead(pipe)],
        None => Vec::new(),
    }
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_AND_DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// Bytes of struct unix_diag_msg, before the attributes.
const UNIX_DIAG_MSG_SIZE: usize = 16;

/// The other ends of these Unix sockets, by one UNIX_DIAG dump; any user may ask.
fn dump_unix_peers(wanted: &FxHashSet<u32>) -> Reading<FxHashMap<u32, u32>> {
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
        if let Some((socket, peer)) = parse_unix_peer(payload).filter(|(socket, _)| wanted.contains(socket)) {
            peers.insert(socket, peer);
        }
    })?;
    Ok(peers)
}

/// One message: the socket's inode and its peer's.
fn parse_unix_peer(payload: &[u8]) -> Option<(u32, u32)> {
    let word = |bytes: &[u8]| bytes.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
    let socket = word(payload.get(4..)?)?;
    let mut rest = payload.get(UNIX_DIAG_MSG_SIZE..)?;
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
    use crate::sample::waits::{GroupWaits, SubSample, ThreadWaits, WaitQueue};

    fn task(pid: u32, tid: u32) -> TaskId {
        TaskId { pid, tid, start_ticks: 1 }
    }

    fn thread(pid: u32, tid: u32, class: WaitClass) -> ThreadWaits {
        let mut seen = [0; WaitClass::COUNT];
        seen[class as usize] = 10;
        ThreadWaits { task: task(pid, tid), group: 0, class_counts: seen }
    }

    /// A server and a client that waits at the pipe 7; `others` have its other end, too.
    fn giver(threads: Vec<ThreadWaits>, holders: &[u32]) -> Option<u32> {
        let waits = Waits { threads, ..Waits::default() };
        let waiting = FxHashMap::from_iter([(task(10, 10), Endpoint::PipeRead(7))]);
        let holders = Holders { by_endpoint: FxHashMap::from_iter([(Endpoint::PipeRead(7), holders.to_vec())]) };
        holders.blocked_holder(&waits, &waiting, Endpoint::PipeRead(7))
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
        let row = GroupWaits { group: 0, ipc_peer: 2, storage: 1, ..GroupWaits::default() };
        let queue = WaitQueue {
            group: 0,
            kind: WaitQueueKind::Pipe,
            seen_count: 2,
            seen_at_one_address: 0,
            wchan: None,
            file: None,
            holder: None,
        };
        let mut waits = Waits {
            sub_samples: vec![SubSample { groups: vec![row], ..SubSample::default() }],
            wait_queues: vec![queue.clone(), WaitQueue { kind: WaitQueueKind::Socket, ..queue }],
            ..Waits::default()
        };
        let look = |tid| PeerWait { sub_sample: 0, group: 0, task: task(10, tid), kind: WaitQueueKind::Pipe };
        apply_blocked_holders(&mut waits, &[look(10), look(11)], &FxHashMap::from_iter([(task(10, 11), 20)]));
        assert_eq!(waits.sub_samples[0].groups[0].behind_ipc_peer, 1);
        let kept: Vec<_> = waits.wait_queues.iter().map(|queue| (queue.kind, queue.seen_count, queue.holder)).collect();
        assert_eq!(kept, [(WaitQueueKind::Pipe, 1, Some(20))]);
    }

    #[test]
    fn the_kernel_names_the_other_end_of_a_socket() {
        let (one, other) = UnixStream::pair().unwrap();
        let number = |stream: &UnixStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
            parse_inode(link.as_os_str().as_bytes(), b"socket:[").unwrap()
        };
        match dump_unix_peers(&FxHashSet::from_iter([number(&one)])) {
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
        assert_eq!(parse_unix_peer(&message), Some((5, 6)));
        for length in 0..message.len() {
            assert_eq!(parse_unix_peer(&message[..length]), None);
        }
    }
}
