//! Whether some device came, went, or became another one: the number of the kernel's last uevent, one small read.
//!
//! What is known of devices is read again then, and not only after a while: a name that is given to another device within
//! one interval must not take over what was known of the old one.

use super::fields::parse_single_u64;
use super::root::{FileHandle, Root};

/// Remembers the last event.
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
    /// Whether there was an event since the last time this was asked.
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

    #[test]
    fn an_event_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sys/kernel")).unwrap();
        let number = |number: &str| std::fs::write(directory.path().join("sys/kernel/uevent_seqnum"), number).unwrap();
        let root = Root::at_directory(directory.path().to_owned());
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
