//! What the holder of a lock does, or another thread at the end of a wait chain, by its state, wait channel and system call.

use std::net::SocketAddr;

use super::blocked_threads::BlockedThread;
use crate::sample::task::TaskState;
use crate::sample::waits::{Syscall, WaitClass, class};

/// What the holder of a lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderActivity {
    /// On storage
    Storage,
    /// In memory reclaim
    Memory,
    /// In D for another reason: a lock or an operation of the kernel
    Uninterruptible,
    /// Asleep for a fixed time
    Timer,
    /// Asleep in a futex with a timeout, with a lock of Java owned: Thread.sleep, or a wait for another thread
    TimedWait,
    /// Asleep until this host answers its request
    RemoteHost(SocketAddr),
    /// Asleep until a process of this host answers, over a pipe or a Unix socket: the next one of the chain
    LocalProcess,
    /// Asleep until a child process ends
    Child,
    /// Asleep until another lock is released, whose holder does not wait for an event
    Lock,
    /// Asleep for a lock of a deadlock
    Deadlock,
    /// Asleep for a lock of a cycle in which a thread waits with a timeout
    TimedCycle,
    /// Asleep until there is room in a pipe, which its reader does not read
    FullPipe,
    /// Asleep until there is room in the send buffer of a socket, whose other end does not read
    FullSocket,
    /// Stopped, traced or frozen
    Stopped,
    /// It has ended, and did not release the lock
    Ended,
    /// Runnable, on a CPU or not
    Running,
    /// Asleep until an event or data comes: a thread that waits for work under the lock, while the others have none (leader and
    /// followers), looks the same
    Event,
}

impl HolderActivity {
    /// Of a thread in a wait, by that alone: one that waits for a request or an answer waits for an event.
    pub fn from_wait(thread: &BlockedThread, call: Option<Syscall>) -> HolderActivity {
        let is_in =
            |of_channel: fn(&[u8]) -> bool| thread.wait.wchan.as_ref().is_some_and(|wchan| of_channel(wchan.as_bytes()));
        match (thread.wait.state, thread.class) {
            (TaskState::Running, _) => HolderActivity::Running,
            (TaskState::Zombie | TaskState::Dead, _) => HolderActivity::Ended,
            (TaskState::Stopped | TaskState::Traced, _) | (_, WaitClass::Frozen) => HolderActivity::Stopped,
            (_, WaitClass::Disk) => HolderActivity::Storage,
            (_, WaitClass::Memory) => HolderActivity::Memory,
            (_, WaitClass::Child | WaitClass::Vfork) => HolderActivity::Child,
            (TaskState::Blocked, _) => HolderActivity::Uninterruptible,
            (_, WaitClass::Timer) => HolderActivity::Timer,
            (_, WaitClass::Lock) => HolderActivity::Lock,
            (_, WaitClass::Futex) if call.is_some_and(Syscall::is_likely_mutex) => HolderActivity::Lock,
            (_, WaitClass::Pipe) if is_in(class::is_full_pipe) => HolderActivity::FullPipe,
            (_, WaitClass::Net) if is_in(class::is_full_socket) => HolderActivity::FullSocket,
            _ => HolderActivity::Event,
        }
    }

    /// Whether a thread in it waits for another process, at the other end of a pipe or socket.
    pub fn awaits_peer(self) -> bool {
        use HolderActivity::{FullPipe, FullSocket, LocalProcess, RemoteHost};
        matches!(self, LocalProcess | RemoteHost(_) | FullPipe | FullSocket)
    }
}
