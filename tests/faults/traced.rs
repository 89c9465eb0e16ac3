//! The program's system calls, by strace: nothing is executed, no connection is made, and no file system is accessed but the
//! kernel's own; local ones are asked how full they are.

use std::fs;
use std::process::Command;

use crate::again::stalltop;
use crate::harness::{self, Session, program, state_directory};

/// One system call.
#[derive(Debug)]
pub struct Call {
    pub name: String,
    pub arguments: String,
    pub succeeded: bool,
}

pub struct Trace {
    pub calls: Vec<Call>,
}

/// Whether strace can trace here.
fn can() -> Result<(), String> {
    let output = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err("strace may not trace here".to_owned()),
        Err(_) => Err("there is no strace".to_owned()),
    }
}

impl Trace {
    /// Of the program with those arguments, ended by itself.
    pub fn run(calls: &str, arguments: &[&str]) -> Result<Trace, String> {
        can()?;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trace");
        let plain = stalltop(arguments);
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-qq", "-s", "4096", "-e", &format!("trace={calls}"), "-o"]).arg(&file);
        command.arg(plain.get_program()).args(plain.get_args());
        command.env("XDG_STATE_HOME", state_directory()).current_dir(directory.path());
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code <= 2), "{arguments:?}: {output:?}");
        Ok(Trace::parse(&fs::read_to_string(&file).unwrap()))
    }

    /// Of the screen: every screen, help, a recording begun and ended.
    fn run_screen(calls: &str) -> Result<Trace, String> {
        can()?;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trace");
        let mut command = portable_pty::CommandBuilder::new("strace");
        command.args(["-f", "-y", "-qq", "-s", "4096", "-e", &format!("trace={calls}"), "-o"]);
        command.arg(&file);
        command.arg(program());
        let mut command = harness::prepared(command);
        command.cwd(directory.path());
        let mut session = Session::start(command, 100, 30);
        session.until_text("busy");
        session.type_keys("R");
        session.until_text("rec");
        session.type_keys("2345\r6?");
        session.until_text("pause / resume");
        session.type_keys("?w");
        // The line that says so may give way to one about samples that strace made late.
        let recordings = || {
            let entries = fs::read_dir(directory.path()).unwrap().flatten();
            entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "stalltop")).count()
        };
        session.until("second recording", |_| recordings() >= 2);
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
        Ok(Trace::parse(&fs::read_to_string(&file).unwrap()))
    }

    /// Lines as `123 openat(AT_FDCWD</tmp>, "/proc/stat", O_RDONLY) = 3</proc/stat>`; a call that another thread interrupted
    /// is on two lines.
    fn parse(text: &str) -> Trace {
        let mut unfinished = std::collections::HashMap::new();
        let mut calls = Vec::new();
        for line in text.lines() {
            let Some((task, rest)) = line.trim_start().split_once(' ') else { continue };
            let rest = rest.trim_start();
            let whole = if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
                unfinished.insert(task.to_owned(), begun.to_owned());
                continue;
            } else if let Some((_, end)) = rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
                unfinished.remove(task).unwrap_or_default() + end
            } else {
                rest.to_owned()
            };
            let Some((name, rest)) = whole.split_once('(') else { continue };
            let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, "?"));
            calls.push(Call {
                name: name.to_owned(),
                arguments: arguments.trim_end().trim_end_matches(')').to_owned(),
                succeeded: !result.starts_with('-') && !result.starts_with('?'),
            });
        }
        Trace { calls }
    }

    fn named(&self, names: &[&str]) -> Vec<&Call> {
        self.calls.iter().filter(|call| names.contains(&call.name.as_str())).collect()
    }
}

/// The path that a call asks about, made whole with the directory it is relative to. What follows it is what a link says.
pub fn path(call: &Call) -> Option<String> {
    let (before, after) = call.arguments.split_once('"')?;
    let (path, _) = after.split_once('"')?;
    let directory = before.rsplit_once('<').and_then(|(_, rest)| Some(rest.split_once('>')?.0));
    Some(match directory {
        _ if path.starts_with('/') => path.to_owned(),
        // An empty path is the descriptor itself.
        Some(directory) if path.is_empty() => directory.to_owned(),
        Some(directory) => format!("{directory}/{path}"),
        None => path.to_owned(),
    })
}

const COMMANDS: [&[&str]; 5] = [
    &["check", "--for", "1s", "-i", "200ms"],
    &["check", "--for", "500ms", "--json"],
    &["record", "--for", "1s", "-i", "200ms"],
    &["doctor"],
    &["--help"],
];

#[test]
fn no_other_program_is_executed_and_no_connection_is_made() {
    const CALLS: &str = "execve,execveat,connect,bind,listen,accept,accept4";
    let screen = Trace::run_screen(CALLS).map(|trace| (&["the screen"][..], trace));
    let others = COMMANDS.iter().map(|&arguments| Trace::run(CALLS, arguments).map(|trace| (arguments, trace)));
    for traced in std::iter::once(screen).chain(others) {
        let (what, trace) = match traced {
            Ok(traced) => traced,
            Err(why) => return println!("skipped: {why}"),
        };
        // The first is strace's own, which starts us. eBPF programs are loaded by this program once more.
        let executed = trace.named(&["execve", "execveat"]);
        let loads = |call: &&Call| call.arguments.contains("\"/proc/self/exe\", [\"/proc/self/exe\", \"--load-the-");
        let others = executed.iter().skip(1).filter(|call| !loads(call));
        assert_eq!((executed.is_empty(), others.count()), (false, 0), "{what:?}: {:?}", trace.calls);
        for call in trace.named(&["bind", "listen", "accept", "accept4", "connect"]) {
            // The name service of the C library asks its own daemon for users that are not in /etc/passwd.
            let names = call.arguments.contains("/nscd/") || call.arguments.contains("/sss/");
            // Where other shells of this user put marks: the one socket that is bound, and so the one that is listened on.
            let marks = match call.name.as_str() {
                "bind" => call.arguments.contains("AF_UNIX") && call.arguments.contains("/stalltop"),
                "connect" => false,
                _ => !trace.named(&["bind"]).is_empty(),
            };
            assert!(call.arguments.contains("AF_NETLINK") || names || marks, "{what:?}: {call:?}");
        }
    }
}

/// Whether a file system that needs no server and no daemon is mounted there.
fn is_local_mount_point(path: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let of_path = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some(path));
    let kind = of_path.and_then(|line| line.split_once(" - ")?.1.split(' ').next());
    kind.is_some_and(|kind| !["nfs", "cifs", "smb", "fuse", "9p", "ceph", "autofs"].iter().any(|other| kind.starts_with(other)))
}

#[test]
fn no_file_system_is_accessed_but_those_of_the_kernel() {
    // Whatever takes a path or tells about a file system.
    const CALLS: &str = "%file,statfs,fstatfs,getdents64";
    let screen = Trace::run_screen(CALLS).map(|trace| (&["the screen"][..], trace));
    let others = COMMANDS.iter().map(|&arguments| Trace::run(CALLS, arguments).map(|trace| (arguments, trace)));
    for traced in std::iter::once(screen).chain(others) {
        let (what, trace) = match traced {
            Ok(traced) => traced,
            Err(why) => return println!("skipped: {why}"),
        };
        let own = std::path::Path::new(program()).parent().unwrap().to_str().unwrap();
        let temporary = std::env::temp_dir();
        let temporary = temporary.to_str().unwrap();
        let searched = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let mut asked = 0;
        for call in trace.calls.iter().filter(|call| !matches!(call.name.as_str(), "execve" | "getcwd")) {
            if let Some(path) = path(call) {
                asked += 1;
                let kernel =
                    ["/proc", "/sys", "/dev"].iter().any(|place| path == *place || path.starts_with(&format!("{place}/")));
                // Libraries, terminal and time zone descriptions, users.
                // Before a user lookup it checks whether it was moved to another root.
                let library = path == "/" || ["/lib", "/usr/", "/etc/"].iter().any(|place| path.starts_with(place));
                // Its own state, its own recording, the directory that it was started in, the user's configuration,
                // and the place where marks are taken.
                let ours = path.starts_with(own) || path.starts_with(temporary) || !path.starts_with('/');
                let ours = ours
                    || path.ends_with("/.config")
                    || path.contains("/.config/stalltop")
                    || path.starts_with("/run/user/")
                    || path.starts_with("/tmp/stalltop-");
                // cargo tells the loader other directories to search.
                let library = library || searched.split(':').any(|place| !place.is_empty() && path.starts_with(place));
                // How full the file systems of this host are.
                let asks_free_space = call.name == "statfs" && is_local_mount_point(&path);
                assert!(kernel || library || ours || asks_free_space, "{what:?}: {call:?}");
                assert!(!path.contains("/../") || library, "{what:?}: {call:?}");
            }
        }
        assert!(asked > 5, "{what:?}: nothing was traced");
    }
}
