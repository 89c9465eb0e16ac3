//! `stalltop fleet` on many hosts while the load of 15 runs: how soon the finding is on the screen, and what it costs. The hosts
//! are a hundred sessions of a real sshd if a release build is tested, else fewer local processes.
//!
//! One sampler records, and each host is a copy of its stream: a hundred samplers would be the load of this machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::blocked::start_convoy;
use crate::child_guard::ChildGuard;
use crate::executable::copy_executable;
use crate::harness::{Session, prepared, program};
use crate::proc::ticks_per_second;
use crate::scenario::{DISK_TOOLS, Lab};
use crate::until::until;

/// A debug build on two slow CPUs keeps up with fewer.
fn hosts() -> usize {
    if std::env::var_os("STALLTOP_BIN").is_some() { 100 } else { 40 }
}

/// The processes of a plain host. CPU time and memory grow with them.
const PROCESSES: usize = 185;

/// The promises of docs/fleet.md. CPU time and memory are those of a release build.
const MAX_DELAY_SECONDS: f64 = 2.0;
const MAX_CPU_MS_PER_SECOND: f64 = 60.0;
const MAX_RESIDENT_MIB: f64 = 150.0;

/// How long its CPU time is measured.
const MEASURED: Duration = Duration::from_secs(20);

/// When `check --watch` says of the same samples that the host is idle but blocked, as more than a note.
fn watch(recording: &Path) -> ([ChildGuard; 2], Receiver<Instant>) {
    let mut tail = Command::new("tail");
    tail.args(["-c", "+1", "-f"]).arg(recording).stdout(Stdio::piped());
    let mut tail = tail.spawn().expect("tail");
    let mut command = Command::new(program());
    command.args(["check", "-", "--watch", "--no-config", "--only", "idle-but-blocked"]);
    command.stdin(tail.stdout.take().expect("its output")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut check = command.spawn().expect("check --watch");
    let lines = BufReader::new(check.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let (sender, said) = channel();
    let is_found = |line: &String| line.contains("critical") || line.contains("warning");
    std::thread::spawn(move || lines.filter(is_found).for_each(|_| sender.send(Instant::now()).unwrap_or_default()));
    ([ChildGuard(tail), ChildGuard(check)], said)
}

fn resident_mib(pid: i32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}

const SSHD: &str = "/usr/sbin/sshd";

/// An sshd of its own on a port of 127.0.0.1, with its own keys. It ends with the test.
struct Ssh {
    _sshd: ChildGuard,
    /// Runs a command on the host `$1`
    command: String,
}

impl Ssh {
    fn start(folder: &Path) -> Ssh {
        let file = |name: &str| folder.join(name).display().to_string();
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]).status().expect("ssh-keygen");
            assert!(made.success());
        }
        // Where sshd locks up its unprivileged part.
        fs::create_dir_all("/run/sshd").expect("/run/sshd");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups {}\n",
            file("host_key"),
            file("user_key.pub"),
            hosts()
        );
        fs::write(folder.join("sshd_config"), config).expect("its configuration");
        let client = format!(
            "Host *\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n IdentitiesOnly yes\n BatchMode yes\n\
             UserKnownHostsFile /dev/null\n StrictHostKeyChecking no\n LogLevel ERROR\n",
            file("user_key")
        );
        fs::write(folder.join("ssh_config"), client).expect("the client's configuration");
        let log = fs::File::create(folder.join("sshd.log")).expect("its log");
        let mut sshd = Command::new(SSHD);
        sshd.args(["-D", "-e", "-f", &file("sshd_config")]).stdin(Stdio::null()).stderr(log);
        let sshd = ChildGuard(sshd.spawn().expect("sshd"));
        Ssh { _sshd: sshd, command: format!("ssh -T -F {} \"$1\" --", file("ssh_config")) }
    }
}

#[test]
fn a_finding_on_many_hosts_is_shown_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    // openssh-server is not among the packages of the lab: Debian's would start on port 22. A debug build cannot keep up beside them.
    if Path::new(SSHD).exists() && std::env::var_os("STALLTOP_BIN").is_some() {
        let Some(lab) = Lab::open(&[DISK_TOOLS, &["ssh", "ssh-keygen"]].concat()) else { return };
        let ssh = Ssh::start(folder.path());
        measure(&lab, folder.path(), "sessions of ssh", &ssh.command);
    } else {
        println!("skipped: sessions of ssh: {SSHD} (openssh-server) or a release build as STALLTOP_BIN is missing");
        let Some(lab) = Lab::open(DISK_TOOLS) else { return };
        measure(&lab, folder.path(), "local processes", "");
    }
}

/// `prefix`: what runs a command on the host whose name is `$1`; nothing: it runs here.
fn measure(lab: &Lab, folder: &Path, hosts: &str, prefix: &str) {
    // The cost of a debug build says nothing.
    if std::env::var_os("STALLTOP_BIN").is_some() {
        let (cpu, resident) = cost(folder, prefix);
        println!("{} {hosts}, {PROCESSES} processes each: {cpu:.1} ms CPU a second, {resident:.0} MiB at most", self::hosts());
        assert!(cpu <= MAX_CPU_MS_PER_SECOND, "{cpu} ms a second");
        assert!(resident <= MAX_RESIDENT_MIB, "{resident} MiB");
    }
    let (delay, after) = delay(lab, folder, prefix);
    println!("on the screen {delay:.2} s after check said it, {after:.1} s after the load was started");
    assert!(delay <= MAX_DELAY_SECONDS, "{delay} s");
}

/// Milliseconds of CPU time a second, and the largest memory in MiB, of a fleet of plain hosts: what the test itself runs is not among
/// their processes.
fn cost(folder: &Path, prefix: &str) -> (f64, f64) {
    let recording = folder.join("plain.stalltop");
    let mut recorder = Command::new("unshare");
    recorder.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]);
    // Each active one is a shell and its sleep.
    let script = format!(
        "for i in $(seq {}); do sleep 3600 & done; for i in $(seq 10); do (while sleep 0.2; do :; done) & done; exec {} record {}",
        PROCESSES - 21,
        program(),
        recording.display()
    );
    let _recorder = ChildGuard(recorder.arg(script).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("unshare"));
    let session = start_fleet(folder, &recording, prefix);
    let ticks = |session: &Session| session.ticks().expect("its CPU time") as f64;
    let (begin, used) = (Instant::now(), ticks(&session));
    std::thread::sleep(MEASURED);
    let cpu = (ticks(&session) - used) / ticks_per_second() * 1e3 / begin.elapsed().as_secs_f64();
    let resident = resident_mib(session.pid().as_raw());
    quit(session);
    (cpu, resident)
}

/// Seconds until a finding of this machine is on the screen: after `check --watch` has said it, and after its load was started.
fn delay(lab: &Lab, folder: &Path, prefix: &str) -> (f64, f64) {
    let recording = folder.join("live.stalltop");
    let mut recorder = Command::new(program());
    recorder.arg("record").arg(&recording).stderr(Stdio::null());
    let _recorder = ChildGuard(recorder.spawn().expect("a recorder"));
    let mut session = start_fleet(folder, &recording, prefix);
    let (_watch, said) = watch(&recording);
    let begin = Instant::now();
    let (_scenario, device) = start_convoy(lab, 10_000);
    let count = hosts();
    let cause = format!("on {device}: {count} of {count} hosts");
    session.until("the cause", |screen| {
        screen.contents().lines().any(|line| line.contains("idle but blocked behind ") && line.contains(&cause))
    });
    let shown = Instant::now();
    let found = said.recv_timeout(Duration::from_secs(30)).expect("check has found it");
    quit(session);
    (shown.saturating_duration_since(found).as_secs_f64(), shown.duration_since(begin).as_secs_f64())
}

/// A fleet whose hosts all send this recording as it grows, once all have sent samples.
fn start_fleet(folder: &Path, recording: &Path, prefix: &str) -> Session {
    until("there is a recording", || recording.exists());
    let script = folder.join("host");
    let text = folder.join("host.text");
    fs::write(&text, format!("#!/bin/sh\nexec {prefix} tail -c +1 -f {}\n", recording.display())).expect("a script");
    copy_executable(&text, &script);
    let mut command = CommandBuilder::new(program());
    command.args(["fleet", "--no-config", "--ssh"]);
    command.arg(&script);
    command.args((1..=hosts()).map(|number| format!("web{number}")));
    let mut session = Session::start(prepared(command), 200, 50);
    session.until("all hosts", |screen| {
        let text = screen.contents();
        text.contains(&format!("{} hosts", hosts())) && !["connecting", "unknown"].iter().any(|word| text.contains(word))
    });
    session
}

fn quit(mut session: Session) {
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}
