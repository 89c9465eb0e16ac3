//! What is read of the threads that wait at a sample: the files and processes that they wait for, their stacks, and the senders to
//! full unix sockets.

use super::network::unix_senders::UnixSenderReader;
use super::root::Root;
use super::scan::TaskScanner;
use super::stacks::{self, StackReader, StuckThread};
use super::system_readers::SystemReaders;
use super::user_stacks::UserStackReader;
use super::waits::owner_namespaces::OwnerNamespaces;
use super::waits::owner_peers::OwnerPeerReader;
use super::waits::sleeping_pipe_readers::SleepingPipeReaders;
use super::waits::{IntervalWaits, blocked, remote_waits};
use crate::ids::CgroupId;
use crate::sample::Sample;
use crate::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};

/// A reader per subject, with what it last read.
#[derive(Debug)]
pub struct WaitReaders {
    stacks: StackReader,
    user_stacks: UserStackReader,
    unix_senders: UnixSenderReader,
    owner_peers: OwnerPeerReader,
    sleeping_pipe_readers: SleepingPipeReaders,
}

/// The waits of an interval.
pub struct SeenWaits<'a> {
    pub interval: IntervalWaits,
    /// Threads that the last sub-sample saw blocked or behind a lock
    pub stuck: &'a [StuckThread],
}

impl WaitReaders {
    pub fn new(root: &Root) -> WaitReaders {
        WaitReaders {
            stacks: StackReader::new(root),
            user_stacks: UserStackReader::new(root),
            unix_senders: UnixSenderReader::default(),
            owner_peers: OwnerPeerReader::default(),
            sleeping_pipe_readers: SleepingPipeReaders::default(),
        }
    }

    /// Reads into a sample that has tasks, disks and cgroups. `machine`: as uname says it.
    pub fn sample(
        &mut self,
        (root, machine): (&Root, &[u8]),
        system: &mut SystemReaders,
        scanner: &mut TaskScanner,
        seen: SeenWaits<'_>,
        sample: &mut Sample,
    ) {
        let now_ns = sample.at.boottime_ns;
        let disks = sample.disks.as_deref().unwrap_or_default();
        let throttled: Vec<&CgroupId> = system.cgroup.throttled().collect();
        let known = blocked::SampleReadings { disks, tasks: sample.tasks.as_ref().ok(), throttled: &throttled };
        sample.waits = blocked::resolve_files(seen.interval, root, scanner.files(), machine, known);
        self.sleeping_pipe_readers.read(
            &mut sample.waits,
            sample.tasks.as_ref().ok(),
            (root, machine),
            scanner.files(),
            now_ns,
        );
        let namespaces = system.network.known_namespaces();
        let mut namespaces = OwnerNamespaces::new(scanner.network_namespaces(), namespaces);
        remote_waits::read_other_namespaces(&mut sample.waits, &mut namespaces, root, scanner.files(), machine);
        let tasks = sample.tasks.as_ref().ok();
        let servers = servers_that_owe_answers(sample.protocols.waiting_connections.as_deref().unwrap_or_default());
        self.owner_peers.read(&mut sample.waits, (tasks, &servers), (root, machine), scanner.files(), &mut namespaces);
        if let Ok(tasks) = &sample.tasks {
            let stuck = stacks::candidates(seen.stuck, &sample.waits, tasks);
            // Another thread reads them while this one reads the kernel stacks and what follows.
            self.user_stacks.request(&stuck);
            sample.stacks = self.stacks.sample(scanner.files(), stuck, now_ns);
        } else {
            self.user_stacks.request(&[]);
        }
        let read = (sample.tasks.as_ref().ok(), &sample.waits);
        let namespaces = system.network.known_namespaces();
        sample.protocols.unix_senders = self.unix_senders.sample(root, scanner.files(), machine, now_ns, read, namespaces);
        sample.user_stacks = self.user_stacks.sample();
    }
}

/// Pids of the processes of this host for whose answer threads wait.
fn servers_that_owe_answers(waiting: &[WaitingConnections]) -> Vec<u32> {
    let answers = waiting.iter().filter(|row| row.wait == ConnectionWait::Answer);
    answers.filter_map(|row| row.receiver.as_ref()).map(|(process, _)| process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::clock::SampleClock;
    use crate::kernel::host;
    use crate::kernel::waits::WaitCounter;
    use crate::proc_tree::ProcTree;
    use crate::sample::Absent;
    use crate::sample::task::Tasks;

    #[test]
    fn without_tasks_no_stacks_are_read() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let mut scanner = TaskScanner::new(&root, &host::read(&root)).unwrap();
        let (mut system, mut readers) = (SystemReaders::default(), WaitReaders::new(&root));
        let mut sample = |tasks| {
            let mut sample = system.sample(&root, &SampleClock::default());
            sample.tasks = tasks;
            let seen = SeenWaits { interval: WaitCounter::default().finish_interval(), stuck: &[] };
            readers.sample((&root, b"x86_64"), &mut system, &mut scanner, seen, &mut sample);
            (sample.stacks, sample.protocols.unix_senders)
        };
        assert_eq!(sample(Err(Absent::NotRead)), (Err(Absent::NotRead), Err(Absent::NotRead)));
        assert_eq!(sample(Ok(Tasks::default())), (Ok(Vec::new()), Err(Absent::NotRead)), "sockets are not in files");
    }
}
