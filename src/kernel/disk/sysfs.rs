//! Directories and device numbers of block devices in sysfs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::ids::DiskId;
use crate::kernel::fields::{lines, parse_u32};

/// The directory of a block device in sysfs, where `!` stands for a `/` in the name (cciss/c0d0).
pub fn sysfs_directory(name: &[u8]) -> PathBuf {
    let name = name.iter().map(|byte| if *byte == b'/' { b'!' } else { *byte }).collect();
    Path::new("sys/class/block").join(OsString::from_vec(name))
}

/// Parses the file `dev`: `254:0`.
pub fn parse_device_number(bytes: &[u8]) -> Option<DiskId> {
    let mut numbers = lines(bytes).next()?.splitn(2, |byte| *byte == b':').map(parse_u32);
    Some(DiskId { major: numbers.next()??, minor: numbers.next()?? })
}
