//! assets/stalltop-record.service: with the unit's user, capabilities and command the recorder sees all tasks and accepts marks
//! from root. Needs root and setpriv. Mounts and seccomp of systemd are described in docs/reliability.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stalltop::recording::{Replayer, Tail};

/// A user id as systemd assigns for DynamicUser=.
const SOMEBODY: u32 = 61_184;
const PATIENCE: Duration = Duration::from_secs(60);

/// The value of a setting of the unit.
fn said(name: &str) -> String {
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/stalltop-record.service")).unwrap();
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
    let begun = Instant::now();
    let doors = || fs::read_dir(runtime.join("stalltop")).ok()?.find_map(|entry| Some(entry.ok()?.path()));
    loop {
        assert!(begun.elapsed() < PATIENCE, "there is no mark socket");
        // The socket exists shortly before the recorder accepts.
        if let Some(mut stream) = doors().and_then(|door| UnixStream::connect(door).ok()) {
            stream.write_all(text.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            return answer;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_unit_has_sufficient_capabilities() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: changing the user needs root");
    }
    if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("skipped: no setpriv (util-linux)");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("stalltop");
    fs::copy(env!("CARGO_BIN_EXE_stalltop"), &program).unwrap();
    let (state, runtime) = (directory(folder.path().join("state")), directory(folder.path().join("runtime")));
    let capabilities = said("AmbientCapabilities");
    assert_eq!(capabilities, said("CapabilityBoundingSet"));
    let given: Vec<String> =
        capabilities.split_whitespace().map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase())).collect();
    let given = format!("-all,{}", given.join(","));
    let start = said("ExecStart");
    let mut words: Vec<&str> = start.split_whitespace().skip(1).collect();
    // A state directory of its own: its files will belong to the service's user.
    assert_ne!(said("StateDirectory"), "stalltop");
    let kept = format!("/var/lib/{}", said("StateDirectory"));
    assert_eq!(words.pop(), Some(kept.as_str()));
    assert_eq!(said("Environment"), format!("XDG_STATE_HOME={kept}"));
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={SOMEBODY}"), format!("--regid={SOMEBODY}"), "--clear-groups".into()]);
    command.args([format!("--inh-caps={given}"), format!("--ambient-caps={given}"), format!("--bounding-set={given}")]);
    command.arg("--no-new-privs").arg(&program).args(words).arg(&state).args(["-i", "200ms"]);
    command.env_clear().env("XDG_STATE_HOME", &state).env("RUNTIME_DIRECTORY", &runtime).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert_eq!(mark(&runtime, "deploy 42"), "marked");
    let begun = Instant::now();
    while Replayer::open(&state).map_or(0, |replayer| replayer.len()) < 2 {
        assert!(begun.elapsed() < PATIENCE, "it takes no samples");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{told}");
    let replayer = Replayer::open(&state).unwrap();
    assert_eq!((replayer.tail(), replayer.damage()), (Tail::Closed, &[][..]), "{told}");
    assert!(replayer.meta().host.privilege.has_cap_sys_ptrace, "{told}");
    assert_eq!(replayer.marks().iter().map(|mark| mark.text.as_str()).collect::<Vec<_>>(), ["deploy 42"]);
}
