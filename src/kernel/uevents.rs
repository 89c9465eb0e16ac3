//! Detects that a device was added, removed or changed, by /sys/kernel/uevent_seqnum: the number of the last uevent.
//!
//! Facts of devices are then read again at once: a name that another device receives within one interval must not keep the
//! facts of the old device.

use super::fields::parse_single_u64;
use super::root::{FileHandle, Root};

/// The number of the last uevent that was seen.
#[derive(Debug)]
pub struct UeventWatcher {
    file: FileHandle,
    buffer: Vec<u8>,
    last_seqnum: Option<u64>,
}

impl Default for UeventWatcher {
    fn default() -> UeventWatcher {
        UeventWatcher { file: FileHandle::new("sys/kernel/uevent_seqnum"), buffer: Vec::new(), last_seqnum: None }
    }
}

impl UeventWatcher {
    /// Whether there was a uevent since the last call.
    pub fn has_new_event(&mut self, root: &Root) -> bool {
        let Some(now) = self.file.read(root, &mut self.buffer).ok().and_then(|()| parse_single_u64(&self.buffer)) else {
            return false;
        };
        self.last_seqnum.replace(now).is_some_and(|last| last != now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn an_event_is_reported_once() {
        let tree = ProcTree::empty();
        let number = |number: &str| tree.write("sys/kernel/uevent_seqnum", number);
        let root = tree.root();
        let mut uevents = UeventWatcher::default();
        assert!(!uevents.has_new_event(&root), "no such file");
        number("7\n");
        assert!(!uevents.has_new_event(&root), "nothing was known before");
        assert!(!uevents.has_new_event(&root));
        number("9\n");
        assert!(uevents.has_new_event(&root));
        assert!(!uevents.has_new_event(&root));
        number("");
        assert!(!uevents.has_new_event(&root));
    }
}
