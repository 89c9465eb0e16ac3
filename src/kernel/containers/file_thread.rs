//! The thread that reads state files, which may be on a file system that does not answer.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use super::state_files::{ContainerKey, read_name};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::cgroup::ContainerName;

/// Requests that wait for the thread.
const QUEUE: usize = 64;
/// The stack of the thread: it parses JSON, whose depth serde_json limits.
const STACK_BYTES: usize = 256 << 10;

/// The sampler's side of the thread. It is blocked while there is nothing to read, and ends with the sampler.
#[derive(Debug)]
pub struct FileThread {
    requests: SyncSender<ContainerKey>,
    answers: Receiver<(Name, Option<ContainerName>)>,
}

impl FileThread {
    /// Starts it. Without a thread all names stay unknown.
    pub fn start(root: Root) -> FileThread {
        let (requests, work) = sync_channel::<ContainerKey>(QUEUE);
        let (sender, answers) = sync_channel(QUEUE);
        let body = move || {
            while let Ok(key) = work.recv() {
                let name = read_name(&root, &key);
                if sender.send((key.id, name)).is_err() {
                    return;
                }
            }
        };
        // The receiver of the requests is dropped with the closure: then each request is refused.
        drop(Builder::new().name("containers".to_owned()).stack_size(STACK_BYTES).spawn(body));
        FileThread { requests, answers }
    }

    /// Whether the request was accepted: the queue is full while the thread is blocked.
    pub fn request(&self, key: ContainerKey) -> bool {
        self.requests.try_send(key).is_ok()
    }

    /// The next answer: the container's id, and its name if it could be read.
    pub fn receive(&self) -> Option<(Name, Option<ContainerName>)> {
        self.answers.try_recv().ok()
    }
}
