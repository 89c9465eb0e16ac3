//! A mounted FUSE file system whose daemon is the test.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::mount::{MsFlags, mount};

/// Mounts it there, under this name. Its requests are read from the file; `None` where no FUSE file system can be mounted.
pub fn mount_fuse(at: &Path, source: &str) -> Option<File> {
    let fuse = File::options().read(true).write(true).open("/dev/fuse").ok()?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    mount(Some(source), at, Some("fuse"), MsFlags::empty(), Some(options.as_str())).ok()?;
    Some(fuse)
}
