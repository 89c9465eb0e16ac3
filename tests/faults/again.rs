//! Runs this test binary once more inside a namespace, and runs the program to its end.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::executable::copy_executable;
use crate::harness::{program, state_directory};
use crate::load_process::PART;
pub use crate::load_process::{Load, plays, ready_until_killed};

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs this binary as that test behind a wrapper (`unshare …`); what it said, or why it could not be run.
pub fn inside(wrapper: &[&str], test: &str) -> Result<String, String> {
    let Some((program, arguments)) = wrapper.split_first() else { return Err("no wrapper".to_owned()) };
    let can = Command::new(program).args(arguments).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        return Err(format!("{} does not work here", wrapper.join(" ")));
    }
    let output = Command::new(program)
        .args(arguments)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(PART, test)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    Ok(said)
}

/// The program, with a state directory of its own.
pub fn stalltop(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).env("XDG_STATE_HOME", state_directory()).current_dir(state_directory());
    command
}

/// Code, standard output, standard error.
pub fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("no text: {bytes:?}"));
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A copy of the program that every user may run, in a directory that every user may enter.
pub fn for_everybody() -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("stalltop");
    copy_executable(program(), &copy);
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    (directory, copy)
}
