//! A mutex whose holder is frozen by its cgroup: it is in state S (version 2) or D (version 1), as a thread that waits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::attempt::Attempt;
use crate::disk_load::Load;
use crate::holders::{lines_after, mutexes, names_a_holder};
use crate::scenario::Lab;
use crate::until::until;

/// A cgroup whose processes can be frozen; thawed and removed when dropped.
struct Freezer {
    folder: PathBuf,
    /// The file that freezes, and what is written to it to freeze and to thaw
    control: (&'static str, &'static str, &'static str),
}

impl Freezer {
    fn make(name: &str) -> Option<Freezer> {
        let version_2 = ("cgroup.freeze", "1", "0");
        let kinds = [
            ("/sys/fs/cgroup", version_2),
            ("/sys/fs/cgroup/unified", version_2),
            ("/sys/fs/cgroup/freezer", ("freezer.state", "FROZEN", "THAWED")),
        ];
        let mut kinds = kinds.into_iter().map(|(root, control)| (Path::new(root), control));
        // The root cannot be frozen: the file is in the groups.
        let (folder, control) = kinds.find_map(|(root, control)| {
            let folder = root.join(name);
            let is_made = root.join("cgroup.procs").exists() && fs::create_dir_all(&folder).is_ok();
            (is_made && folder.join(control.0).exists()).then_some((folder, control))
        })?;
        Some(Freezer { folder, control })
    }

    /// The process is stopped before, and sleeps when it is continued.
    fn freeze(&self, pid: &str) {
        let write = |file: &str, text: &str| fs::write(self.folder.join(file), text).expect("a file of the cgroup");
        write("cgroup.procs", pid);
        kill(Pid::from_raw(pid.parse().expect("a pid")), Signal::SIGCONT).expect("the holder is continued");
        until("the holder sleeps", || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") S ")));
        write(self.control.0, self.control.1);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join(self.control.0), self.control.2);
        // Its process has been killed, and ends now.
        until("the cgroup is empty", || fs::remove_dir(&self.folder).is_ok());
    }
}

#[test]
fn a_holder_that_is_frozen() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let Some(freezer) = Freezer::make("lab-mutexes") else { return println!("skipped: no cgroup hierarchy can freeze") };
    let state = tempfile::tempdir().expect("a folder");
    let truth = state.path().join("truth");
    let mut command = Command::new(mutexes());
    command.args(["frozen", "12", "60"]).env("TRUTH", &truth);
    let _load = Load::start(command);
    let holders = lines_after(&fs::read_to_string(&truth).expect("what the load wrote"), "holder ");
    freezer.freeze(holders.first().expect("the holder"));
    Attempt { seconds: 5, ..Attempt::new("mutexes-frozen", state.path()) }.check(|_, said| {
        let found = said.must("idle-but-blocked", "host", "critical");
        said.says(&found, &[" behind mutexes/", ", which is frozen by its cgroup (freezer)"]);
        names_a_holder(said, &found, "mutexes/", &holders);
    });
}
