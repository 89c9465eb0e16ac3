//! Whether some device came, went, or became another one: the number of the kernel's last uevent, one small read.
//!
//! What is known of devices is read again then, and not only after a while: a name that is given to another device within
//! one interval must not take over what was known of the old one.

use super::fields::sole_number;
use super::root::{KeptFile, Root};

/// Remembers the last event.
#[derive(Debug)]
pub struct Uevents {
    file: KeptFile,
    buffer: Vec<u8>,
    last: Option<u64>,
}

impl Default for Uevents {
    fn default() -> Uevents {
        Uevents { file: KeptFile::new("sys/kernel/uevent_seqnum"), buffer: Vec::new(), last: None }
    }
}

impl Uevents {
    /// Whether there was an event since the last time this was asked.
    pub fn happened(&mut self, root: &Root) -> bool {
        let Some(now) = self.file.read(root, &mut self.buffer).ok().and_then(|()| sole_number(&self.buffer)) else {
            return false;
        };
        self.last.replace(now).is_some_and(|last| last != now)
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
        let root = Root::at(directory.path().to_owned());
        let mut uevents = Uevents::default();
        assert!(!uevents.happened(&root), "no such file");
        number("7\n");
        assert!(!uevents.happened(&root), "nothing was known before");
        assert!(!uevents.happened(&root));
        number("9\n");
        assert!(uevents.happened(&root));
        assert!(!uevents.happened(&root));
        number("");
        assert!(!uevents.happened(&root));
    }
}
