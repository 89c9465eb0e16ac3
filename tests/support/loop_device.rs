//! A loop device of a test's own: no one else's requests.

use std::path::Path;
use std::process::Command;

/// A loop device on a file, detached when dropped.
pub struct LoopDevice {
    /// `/dev/loop0`
    pub path: String,
}

impl LoopDevice {
    /// On that device, or on a free one. `None` where this user may not attach one, or without losetup.
    pub fn attach(image: &Path, device: Option<&str>) -> Option<LoopDevice> {
        let mut command = Command::new("losetup");
        match device {
            Some(device) => command.arg(device),
            None => command.args(["--find", "--show"]),
        };
        let output = command.arg(image).output().ok().filter(|output| output.status.success())?;
        let found = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Some(LoopDevice { path: device.map_or(found, str::to_owned) })
    }

    /// `loop0`
    pub fn name(&self) -> &str {
        self.path.strip_prefix("/dev/").unwrap()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}
