//! A cgroup with a CPU quota on the running machine, through whichever version has the cpu controller. Needs root.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::busy::Busy;
use crate::until::until;

/// Removed when it is dropped.
pub struct QuotaGroup {
    pub directory: PathBuf,
    busy: Option<Busy>,
}

impl QuotaGroup {
    /// A group with this quota in a period of 100 ms; `None` where none can be made.
    pub fn create(name: &str, quota_us: u32) -> Option<QuotaGroup> {
        let places = [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota_us.to_string()),
            ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", quota_us.to_string()),
            ("/sys/fs/cgroup", "cpu.max", format!("{quota_us} 100000")),
        ];
        places.into_iter().find_map(|(mount, file, quota)| {
            let directory = Path::new(mount).join(name);
            fs::create_dir(&directory).ok()?;
            let group = QuotaGroup { directory, busy: None };
            let path = group.directory.join(file);
            (path.exists() && fs::write(path, quota).is_ok()).then_some(group)
        })
    }

    /// Its path as a sample has it.
    pub fn path(&self) -> String {
        format!("/{}", self.directory.file_name().unwrap().to_str().unwrap())
    }

    /// Runs a busy loop in it.
    pub fn start_busy_loop(&mut self) {
        let busy = self.busy.insert(Busy::start());
        fs::write(self.directory.join("cgroup.procs"), busy.pid().to_string()).unwrap();
    }

    pub fn end_busy_loop(&mut self) {
        self.busy = None;
    }

    /// Waits until it was throttled in so many periods.
    pub fn until_throttled(&self, periods: u64) {
        let throttled = || {
            let stat = fs::read_to_string(self.directory.join("cpu.stat")).unwrap();
            stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok()).unwrap()
        };
        until("it is throttled", || throttled() >= periods);
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        self.busy = None;
        // A process that has been killed may need a moment to leave it.
        for _ in 0..200 {
            if fs::remove_dir(&self.directory).is_ok() || !self.directory.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
