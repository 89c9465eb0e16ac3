//! A copy of a captured tree that may be damaged, and which figures depend on each of its files.

use std::fs;
use std::path::Path;

/// The files, by the beginning of their path, with the subjects whose readings rest on them.
const RESTS_ON: [(&str, &[&str]); 15] = [
    ("proc/stat", &["cpu", "host"]),
    ("proc/loadavg", &["load"]),
    ("proc/meminfo", &["memory"]),
    ("proc/vmstat", &["memory"]),
    ("proc/pressure/", &["pressure"]),
    ("proc/diskstats", &["disks"]),
    ("proc/net/dev", &["nics"]),
    ("proc/net/", &["protocols"]),
    ("proc/self/mountinfo", &["disks", "cgroups", "host"]),
    ("proc/self/status", &["host"]),
    ("proc/sys/", &["host"]),
    ("sys/class/block/", &["disks"]),
    ("sys/class/net/", &["nics"]),
    ("sys/fs/cgroup/", &["cgroups"]),
    ("proc/700/", &[]),
];

/// Which subjects may change when a file is damaged; `None` is a file of which nothing is known here.
pub fn subjects_of(file: &str) -> Option<&'static [&'static str]> {
    RESTS_ON.iter().find(|(prefix, _)| file.starts_with(prefix)).map(|(_, subjects)| *subjects)
}

/// All of a tree, its links as they are.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
