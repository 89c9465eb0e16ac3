//! Which processes are found at the other ends, and what is read of them.

use super::*;
use crate::kernel::network::namespaces::NamespaceReader;
use crate::kernel::scan::NetworkNamespaceMembers;
use crate::proc_tree::{ProcTree, ThreadFiles};
use crate::sample::Name;
use crate::sample::task::RawSyscall;
use crate::sample::waits::{LockOwner, OwnerField, SubSample};
use crate::synthetic;

const READ_ONLY: &str = "flags:\t0100000\n";
const WRITE_ONLY: &str = "flags:\t0100001\n";

/// A process with one thread asleep in clock_nanosleep, and the pipes that it has open: descriptor, inode, flags.
fn add_process(tree: &ProcTree, pid: u32, pipes: &[(u32, u32, &str)]) {
    tree.process(pid, "server", task(pid).start_ticks, 0, &[ThreadFiles::sleeping(pid)]);
    for (descriptor, inode, flags) in pipes {
        tree.link(format!("pipe:[{inode}]"), format!("proc/{pid}/fd/{descriptor}"));
        tree.write(format!("proc/{pid}/fdinfo/{descriptor}"), flags);
    }
}

fn task(pid: u32) -> TaskId {
    TaskId { pid, tid: pid, start_ticks: 1 }
}

/// The owner of a lock, thread 100 of process 100, which reads descriptor 3, an empty pipe.
fn waits() -> Waits {
    let owner = BlockedWait {
        group: 7,
        syscall: Some(RawSyscall { number: 0, arguments: [3, 0, 0] }),
        ..synthetic::waits::asleep(task(100), "app", "anon_pipe_read")
    };
    let row = LockOwner {
        group: 7,
        futex_address: 0x1000,
        is_shared: false,
        field: OwnerField::GlibcMutex,
        waiters: 120,
        owner,
        kernel_lock: None,
        timed_waiters: 0,
        awaited_java_lock: None,
    };
    let observed = synthetic::waits::observed();
    Waits { lock_owners: vec![row], sub_samples: vec![SubSample::default(); 10], observed, ..Waits::default() }
}

/// A process, and the pipes that it has open: descriptor, inode, flags.
type Opened<'a> = (u32, &'a [(u32, u32, &'a str)]);

/// Reads them where these processes have these pipes open.
fn read(mut waits: Waits, processes: &[Opened<'_>]) -> Waits {
    let tree = ProcTree::empty();
    processes.iter().for_each(|(pid, pipes)| add_process(&tree, *pid, pipes));
    let sampled = |(pid, _): &(u32, _)| synthetic::process(*pid, "p").threads([synthetic::thread(*pid, "p")]).build().into();
    let tasks = Tasks { processes: processes.iter().map(sampled).collect(), ..Tasks::default() };
    let root = tree.root();
    let mut files = TaskFiles::open(&root).unwrap();
    let mut reader = NamespaceReader::default();
    let mut namespaces = OwnerNamespaces::new(&NetworkNamespaceMembers::default(), &mut reader);
    OwnerPeerReader::default().read(&mut waits, (Some(&tasks), &[]), (&root, b"x86_64"), &mut files, &mut namespaces);
    waits
}

const ASKS: Opened<'_> = (100, &[(3, 11, READ_ONLY), (4, 12, WRITE_ONLY)]);
const ANSWERS: Opened<'_> = (200, &[(5, 11, WRITE_ONLY), (6, 12, READ_ONLY)]);

#[test]
fn the_process_that_writes_to_the_pipe_is_found_with_what_it_does() {
    let waits = read(waits(), &[ASKS, ANSWERS, (300, &[(5, 13, WRITE_ONLY)])]);
    assert_eq!(waits.owner_peers, [OwnerPeer { owner: task(100), peer: 200, is_pipe: true, may_answer: true }]);
    let [wait] = waits.peer_waits.as_slice() else { panic!("{:?}", waits.peer_waits) };
    assert_eq!((wait.task, wait.group, wait.seen_count), (task(200), 7, 10));
    assert_eq!(wait.wchan, Some(Name::from("hrtimer_nanosleep")));
    assert_eq!(wait.syscall.map(|call| call.number), Some(230));
}

#[test]
fn a_process_that_only_writes_has_no_request_to_answer() {
    let waits = read(waits(), &[ASKS, (200, &[(5, 11, WRITE_ONLY)])]);
    assert_eq!(waits.owner_peers, [OwnerPeer { owner: task(100), peer: 200, is_pipe: true, may_answer: false }]);
}

#[test]
fn with_several_writers_none_is_taken() {
    let waits = read(waits(), &[ASKS, ANSWERS, (300, &[(5, 11, WRITE_ONLY)])]);
    assert_eq!((waits.owner_peers, waits.peer_waits), (vec![], vec![]));
}

#[test]
fn what_sub_samples_saw_of_the_threads_is_used() {
    let mut seen = waits();
    seen.threads = synthetic::waits::thread(task(200), 0, &[(WaitClass::Timer, 7), (WaitClass::Running, 3)]);
    let waits = read(seen, &[ASKS, ANSWERS]);
    let mut counts: Vec<(TaskState, u16, bool)> =
        waits.peer_waits.iter().map(|wait| (wait.state, wait.seen_count, wait.syscall.is_some())).collect();
    counts.sort_by_key(|&(_, seen_count, _)| seen_count);
    assert_eq!(counts, [(TaskState::Running, 3, false), (TaskState::Sleeping, 7, true)]);
}

#[test]
fn an_owner_that_does_something_else_has_no_peer() {
    let mut sleeping = waits();
    sleeping.lock_owners[0].owner.wchan = Some(Name::from("hrtimer_nanosleep"));
    assert_eq!(read(sleeping, &[ASKS, ANSWERS]).owner_peers, []);
}
