//! Other users cannot set marks in root's recorder or read its recordings. Needs root.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stalltop::recording::Replayer;

use crate::child_guard::ChildGuard;
use crate::executable::copy_executable;
use crate::harness::program;
use crate::until::until;

const NOBODY: u32 = 65_534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A recorder that runs as root, with its files in a world-readable directory.
struct Recorder {
    child: ChildGuard,
    folder: tempfile::TempDir,
}

impl Recorder {
    /// `None` if the test does not run as root.
    fn start() -> Option<Recorder> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: changing the user needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        mode(folder.path(), 0o755);
        // The build directory may not be readable for others.
        copy_executable(program(), folder.path().join("stalltop"));
        copy_executable(std::env::current_exe().unwrap(), folder.path().join("test"));
        let runtime = folder.path().join("runtime");
        fs::create_dir(&runtime).unwrap();
        mode(&runtime, 0o700);
        let mut command = own(folder.path(), &["record", "-i", "200ms", "--for", "10m"]);
        let child = command.arg(folder.path().join("own.stalltop")).stderr(std::process::Stdio::null()).spawn().unwrap();
        let recorder = Recorder { folder, child: ChildGuard(child) };
        until("there is a mark socket", || recorder.socket().is_some());
        Some(recorder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> Option<PathBuf> {
        let path = self.path("runtime/stalltop").join(format!("{}.sock", self.child.id()));
        path.exists().then_some(path)
    }

    fn as_nobody(&self, arguments: &[&str]) -> Output {
        let mut command = own(self.folder.path(), arguments);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap()
    }

    /// Ends the recorder and returns the marks of the recording.
    fn end(&mut self) -> Vec<String> {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        let replayer = Replayer::open(&self.path("own.stalltop")).unwrap();
        replayer.marks().iter().map(|mark| mark.text.clone()).collect()
    }
}

fn own(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(folder.join("stalltop"));
    command.args(arguments).env("XDG_RUNTIME_DIR", folder.join("runtime")).env("XDG_STATE_HOME", folder.join("state"));
    command.env("XDG_CONFIG_HOME", folder.join("config"));
    command
}

/// Connects to the socket of the environment as the current user and prints the reply. Does nothing by itself.
#[test]
fn connects_to_the_socket_of_the_environment() {
    let Some(door) = std::env::var_os("STALLTOP_TEST_DOOR") else { return };
    let mut stream = match UnixStream::connect(door) {
        Ok(stream) => stream,
        Err(error) => return println!("cannot connect: {error}"),
    };
    // A refused connection may be closed early: the reply up to then counts.
    let _ = stream.write_all(b"evil").and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    println!("answered: {answer}");
}

#[test]
fn other_users_cannot_set_a_mark() {
    let Some(mut recorder) = Recorder::start() else { return };
    assert!(own(recorder.folder.path(), &["mark", "mine"]).output().unwrap().status.success());
    // Another user cannot reach the socket.
    let connect = || {
        let mut command = Command::new(recorder.path("test"));
        command.args(["--exact", "other_users::connects_to_the_socket_of_the_environment", "--nocapture"]);
        command.env("STALLTOP_TEST_DOOR", recorder.socket().unwrap()).uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap()
    };
    let said = String::from_utf8(connect().stdout).unwrap();
    assert!(said.contains("cannot connect: Permission denied"), "{said}");
    // With open directories the recorder checks the credentials of the peer.
    for (path, wide) in [("runtime", 0o777), ("runtime/stalltop", 0o777)] {
        mode(&recorder.path(path), wide);
    }
    mode(&recorder.socket().unwrap(), 0o666);
    let said = String::from_utf8(connect().stdout).unwrap();
    assert!(said.contains("answered: refused: only its own user and root may mark"), "{said}");
    assert_eq!(recorder.end(), ["mine"]);
}

#[test]
fn a_user_learns_why_there_are_no_kernel_stacks() {
    let Some(recorder) = Recorder::start() else { return };
    let said = String::from_utf8(recorder.as_nobody(&["doctor"]).stdout).unwrap();
    let line = "not seen  kernel stacks of stuck threads (/proc/PID/stack): no permission: run as root: the kernel wants CAP_SYS_ADMIN";
    assert!(said.lines().any(|said| said == line), "{said}");
}

#[test]
fn a_host_whose_directory_another_user_cannot_read_says_so_in_its_row() {
    let Some(recorder) = Recorder::start() else { return };
    let host = recorder.path("fleet/db1");
    fs::create_dir_all(&host).unwrap();
    mode(&host, 0o700);
    let output = recorder.as_nobody(&["fleet", "--replay", recorder.path("fleet").to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    let row = said.lines().find(|line| line.starts_with("db1: unknown: cannot read ")).unwrap_or_default();
    assert!(row.contains("Permission denied") && output.status.code() == Some(3), "{said}");
}

#[test]
fn other_users_cannot_read_a_recording() {
    let Some(mut recorder) = Recorder::start() else { return };
    let file = recorder.path("own.stalltop");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for (command, code) in [("info", 6), ("check", 3), ("replay", 2)] {
        let output = recorder.as_nobody(&[command, file.to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && output.stdout.is_empty(), "{command}: {said}");
        assert!(command == "replay" || said.contains("Permission denied"), "{command}: {said}");
    }
    assert!(recorder.end().is_empty());
}
