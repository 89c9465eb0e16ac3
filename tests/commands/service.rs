//! assets/stalltop-record.service, stalltop-armed.service and stalltop-serve.service: with the unit's user, capabilities and command the
//! recorders see all tasks and accept marks from root, and the metrics are of all threads. Needs root and setpriv. Mounts and seccomp of systemd are
//! described in docs/reliability.md.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stalltop::recording::{Replayer, Tail};

use crate::executable::copy_executable;
use crate::harness::program;
use crate::until::{until, until_some};

/// A user id as systemd assigns for DynamicUser=.
const SOMEBODY: u32 = 61_184;

const RECORDER: &str = "stalltop-record";
const ARMED: &str = "stalltop-armed";
const SERVER: &str = "stalltop-serve";

/// The value of a setting of the unit.
fn said(unit: &str, name: &str) -> String {
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("assets/{unit}.service"))).unwrap();
    unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).expect(name).to_owned()
}

/// Creates a directory with mode 0700 that belongs to the user.
fn directory(path: PathBuf) -> PathBuf {
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    path
}

/// Sets a mark through the recorder's socket, as soon as it exists.
fn mark(runtime: &Path, text: &str) -> String {
    let socket = || fs::read_dir(runtime.join("stalltop")).ok()?.find_map(|entry| Some(entry.ok()?.path()));
    // The socket exists shortly before the recorder accepts.
    let mut stream = until_some("there is a mark socket", || UnixStream::connect(socket()?).ok());
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Whether this test can run; otherwise says why not.
fn can_change_user() -> bool {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: changing the user needs root");
        return false;
    }
    if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: no setpriv (util-linux)");
        return false;
    }
    true
}

/// A program cannot be executed while a child of another test has it open for writing: one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The program and its state directory, for the unit's user.
struct Place {
    folder: tempfile::TempDir,
    state: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Place {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_executable(program(), folder.path().join("stalltop"));
        let state = directory(folder.path().join("state"));
        Place { folder, state, _turn: turn }
    }

    /// The program with the unit's user and capabilities, without arguments.
    fn command(&self, unit: &str) -> Command {
        let capabilities = said(unit, "AmbientCapabilities");
        assert_eq!(capabilities, said(unit, "CapabilityBoundingSet"));
        let names = capabilities.split_whitespace().map(|name| name.trim_start_matches("CAP_").to_lowercase());
        let given = format!("-all,{}", names.map(|name| format!("+{name}")).collect::<Vec<_>>().join(","));
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={SOMEBODY}"), format!("--regid={SOMEBODY}"), "--clear-groups".into()]);
        command.args([format!("--inh-caps={given}"), format!("--ambient-caps={given}"), format!("--bounding-set={given}")]);
        command.arg("--no-new-privs").arg(self.folder.path().join("stalltop"));
        command.env_clear().env("XDG_STATE_HOME", &self.state).stderr(Stdio::piped());
        command
    }
}

fn terminate(child: &std::process::Child) {
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
}

/// Runs the command of a unit of a recorder, and marks it; returns the recording in its directory.
fn marked_recording(unit: &str) -> Replayer {
    let place = Place::new();
    let (state, runtime) = (&place.state, directory(place.folder.path().join("runtime")));
    let start = said(unit, "ExecStart");
    let mut words: Vec<&str> = start.split_whitespace().skip(1).collect();
    // A state directory of its own: its files will belong to the service's user.
    assert_ne!(said(unit, "StateDirectory"), "stalltop");
    let kept = format!("/var/lib/{}", said(unit, "StateDirectory"));
    assert_eq!(words.pop(), Some(kept.as_str()));
    assert_eq!(said(unit, "Environment"), format!("XDG_STATE_HOME={kept}"));
    let mut command = place.command(unit);
    command.args(words).arg(state).args(["-i", "200ms"]).env("RUNTIME_DIRECTORY", &runtime);
    let mut child = command.spawn().unwrap();
    assert_eq!(mark(&runtime, "deploy 42"), "marked");
    until("it takes samples", || Replayer::open(state).is_ok_and(|replayer| replayer.len() >= 2));
    terminate(&child);
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{told}");
    println!("{told}");
    let replayer = Replayer::open(state).unwrap();
    assert_eq!((replayer.tail(), replayer.damage()), (Tail::Closed, &[][..]), "{told}");
    assert!(replayer.meta().host.privilege.has_cap_sys_ptrace, "{told}");
    assert_eq!(replayer.marks().iter().map(|mark| mark.text.as_str()).collect::<Vec<_>>(), ["deploy 42"]);
    replayer
}

#[test]
fn the_recorder_s_unit_has_sufficient_capabilities() {
    if can_change_user() {
        marked_recording(RECORDER);
    }
}

#[test]
fn the_armed_recorder_s_unit_has_sufficient_capabilities() {
    if can_change_user() {
        marked_recording(ARMED);
    }
}

/// The recorders run side by side, each as its own user, and are restricted equally.
#[test]
fn the_units_of_both_recorders_differ_in_command_and_directories_only() {
    let settings = |unit: &str| {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("assets/{unit}.service"))).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<String>>()
    };
    let (recorder, armed) = (settings(RECORDER), settings(ARMED));
    assert_eq!(recorder.len(), armed.len());
    let differ: Vec<&str> = recorder
        .iter()
        .zip(&armed)
        .filter(|(one, other)| one != other)
        .map(|(one, _)| one.split('=').next().unwrap())
        .collect();
    assert_eq!(differ, ["Description", "ExecStart", "StateDirectory", "Environment", "RuntimeDirectory"]);
}

#[test]
fn the_server_s_unit_has_sufficient_capabilities() {
    if !can_change_user() {
        return;
    }
    let place = Place::new();
    let kept = format!("/var/lib/{}", said(SERVER, "StateDirectory"));
    assert_ne!(said(SERVER, "StateDirectory"), said(RECORDER, "StateDirectory"));
    assert_eq!(said(SERVER, "Environment"), format!("XDG_STATE_HOME={kept}"));
    let start = said(SERVER, "ExecStart");
    let mut command = place.command(SERVER);
    command.args(start.split_whitespace().skip(1)).args(["--listen", "127.0.0.1:0", "-i", "200ms"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = |line: String| Some(line.split_once("http://")?.1.strip_suffix("/metrics")?.to_owned());
    let address = lines.find_map(address).expect("it says where it serves");
    let metrics = until_some("there are metrics", || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.0 200").then_some(answer)
    });
    assert!(metrics.contains("\nstalltop_idle_blocked_lower_bound 0.0\n"), "it does not see all threads: {metrics}");
    terminate(&child);
    assert!(child.wait().unwrap().success());
}
