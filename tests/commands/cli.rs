//! The program without a terminal: exit codes, one line on standard error, no file is overwritten.

#![allow(unsafe_code, reason = "system calls between fork and exec")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::busy::Busy;
use crate::harness::{program, state_directory};
use crate::output::{is_one_line, texts_of};
use crate::until::until;

fn stalltop(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).env("XDG_STATE_HOME", state_directory());
    command
}

/// Runs the program; returns exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    texts_of(&stalltop(arguments).output().unwrap())
}

/// Makes a recording of a few samples.
fn recording(directory: &Path) -> String {
    let file = directory.join("short.stalltop");
    let (code, _, stderr) = run(&["record", "--for", "1s", "-i", "200ms", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{stderr}");
    file.to_str().unwrap().to_owned()
}

#[test]
fn wrong_usage_exits_with_2() {
    let wrong: &[&[&str]] = &[
        &["--nonsense"],
        &["nonsense"],
        &["-i", "0"],
        &["-i", "-1s"],
        &["-i", "NaN"],
        &["-i", "1ns"],
        &["-i", "1000000000s"],
        &["record", "--for", "never"],
        &["record", "--max-size", "large"],
        &["replay"],
        &["check", "--for", "0"],
        &["check", "--for", "-1s"],
        &["check", "--for", "NaN"],
        &["check", "--for", "1e300"],
        &["check", "--for", "99999999999999999999999d"],
        &["-i", "1e9s"],
        &["-i", "inf"],
        &["-i", ""],
        &["--interval=-1"],
        &["record", "--max-size", "0"],
        &["record", "--max-size", "-1"],
        &["record", "--max-size", "99999999999999999999T"],
        &["replay", "x", "--speed", "0"],
        &["replay", "x", "--speed", "-1"],
        &["replay", "x", "--speed", "NaN"],
        &["replay", "x", "--speed", "1e9"],
        &["replay", "x", "--at", "25:61"],
        &["replay", "x", "--at", "-99999999999999999999s"],
        &["completions", "none"],
        &["check", "x", "y"],
    ];
    for arguments in wrong {
        let (code, stdout, stderr) = run(arguments);
        // A monitoring system takes 2 for a critical finding.
        let expected = if arguments[0] == "check" { 3 } else { 2 };
        assert_eq!((code, stdout.as_str()), (expected, ""), "{arguments:?}");
        assert!(is_one_line(&stderr), "{arguments:?}: {stderr}");
    }
    for arguments in [
        &["fleet", "--once", "--xyz"][..],
        &["fleet", "--json"],
        &["fleet", "--once", "--hosts", "/nonexistent"],
        &["-i", "5s", "check"],
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (3, ""), "{arguments:?}: {stderr}");
    }
    assert_eq!(run(&["fleet", "--xyz"]).0, 2);
    assert!(run(&["-i", "1ms"]).2.contains("100ms to 1h"));
}

/// The right word is named: an option of this command before those of others, and what to type instead of another tool.
#[test]
fn a_misspelt_word_is_answered_with_the_right_one() {
    for (arguments, expected) in [
        (&["check", "--fro", "x"][..], "unexpected argument '--fro' found: did you mean '--for'?: try 'stalltop check --help'"),
        (&["table", "disk", "--fro", "x"], "did you mean '--from'?: try"),
        (&["check", "--from", "x"], "it is an option of 'stalltop replay'"),
        (&["iosta"], "'iosta' is not a command: did you mean 'iostat'? Instead of 'iostat -x 1' try 'stalltop table disk 1': "),
        (&["iosta", "-x", "1"], "did you mean 'iostat'?"),
        (&["vmsta"], "Instead of 'vmstat 1' try 'stalltop table load 1 --columns vmstat'"),
        (&["mpsat"], "did you mean 'mpstat'?"),
        (&["htopp"], "did you mean 'htop'?"),
        (&["nicsta"], "did you mean 'nicstat'?"),
        (&["chekc"], "did you mean 'check'?"),
        (&["recor"], "'record'?: try 'stalltop --help'"),
        (&["start"], "'start' is not a command: try 'stalltop'"),
        (&["table", "net"], "did you mean 'nic'?: try"),
        (&["table"], "There are cpu, core, disk, nic, tcp, udp, task, thread, load, pressure, memory, cgroup: for example 'st"),
    ] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (if arguments[0] == "check" { 3 } else { 2 }, ""), "{arguments:?}");
        assert!(is_one_line(&stderr) && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

/// What was meant where that can be known, and what to give where it cannot.
#[test]
fn a_wrong_value_is_answered_with_what_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let file = recording(directory.path());
    let (file, folder) = (file.as_str(), directory.path().join("folder"));
    fs::create_dir_all(folder.join("of-no-host")).unwrap();
    let folder = folder.to_str().unwrap();
    let below = format!("{file}/x");
    for (arguments, code, expected) in [
        (&["table", "cpu", "--at", "noon"][..], 2, "not provided: --from <FILE>: try 'stalltop table --help'"),
        (&["trace", "zzz"], 2, "a pid is a whole number of 1 or more: try"),
        (&["serve", "--listen", "localhost:9"], 2, "such as 127.0.0.1:9709 or [::1]:9709: did you mean '127.0.0.1:9'?: try"),
        (&["serve", "--listen", "here"], 2, "it is an IP address and a port, such as 127.0.0.1:9709 or [::1]:9709: try"),
        (
            &["compare", file, file, "--disk", "no-disk"],
            2,
            "cannot count the requests of 'no-disk': no recording has such a disk: there are ",
        ),
        (&["report", file, "-o", "-", "--from", "noon"], 2, "has no mark 'noon': it has no marks: a time is 12:03, "),
        (&["fleet", "--hosts", file, "--once"], 3, "it is no text: give a file with one host a line"),
        (&["fleet", "--replay", folder], 4, "the directory has no recordings: give a directory that fleet --record"),
        (&["info", &below], 1, "Not a directory: give the name of a recording"),
        (&["export", file, "-o", &format!("{below}.csv")], 5, "Not a directory: give an existing directory"),
        (&["cat", file, file, "-o", ""], 2, "it is the name of a new file"),
        (&["--theme", "drak"], 2, "unknown theme 'drak': did you mean 'dark'?: the themes are terminal, mono, dark, light"),
        (&["demo", "1", "--theme", "drak"], 2, "unknown theme 'drak': did you mean 'dark'?"),
        (&["demo", "--list", "--theme", "zzz"], 2, "unknown theme 'zzz': the themes are "),
        (&["fleet", "--once", "--theme", "drak", "a"], 3, "unknown theme 'drak'"),
        (&["table", "cpu", "--name", "x"], 2, "the rows of 'cpu' have no names: those of "),
    ] {
        let (actual, stdout, stderr) = run(arguments);
        assert_eq!((actual, stdout.as_str()), (code, ""), "{arguments:?}: {stderr}");
        assert!(is_one_line(&stderr) && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_command_that_reads_files_only_says_so_of_a_stream() {
    for arguments in [&["info", "-"][..], &["export", "-", "-o", "-", "--format", "csv"], &["table", "cpu", "--from", "-"]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(stderr.contains("this command reads files only: save the stream first"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_command_that_needs_another_word_prints_its_help_to_standard_error() {
    for command in ["probe", "baseline"] {
        let (code, stdout, stderr) = run(&[command]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{command}");
        assert!(stderr.contains("Usage: stalltop ") && stderr.contains("Example: "), "{stderr}");
    }
}

#[test]
fn help_and_version_exit_with_0() {
    for arguments in [&["--help"][..], &["--version"], &["record", "--help"], &["man"], &["completions", "bash"]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_file_that_is_no_recording_exits_with_4() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = fs::read(recording(directory.path())).unwrap();
    let cases = [
        file("empty", b""),
        file("text", b"hello\n"),
        file("zeros", &[0; 4096]),
        file("elf", &fs::read("/proc/self/exe").unwrap()[..4096]),
        file("header", &good[..20]),
    ];
    for case in &cases {
        let (code, _, stderr) = run(&["info", case]);
        assert_eq!(code, 4, "{case}: {stderr}");
        assert!(is_one_line(&stderr), "{case}: {stderr}");
        let (code, _, stderr) = run(&["check", case]);
        assert_eq!(code, 3, "check cannot tell: {case}: {stderr}");
    }
}

#[test]
fn a_recording_without_a_complete_sample_exits_with_4_in_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let whole = fs::read(recording(directory.path())).unwrap();
    // Inside the first frame of a sample, which is a key frame.
    let first = whole.windows(5).position(|window| window == b"\xf5\x9dFr\x03").unwrap();
    let file = directory.path().join("trunc.stalltop");
    fs::write(&file, &whole[..first + 40]).unwrap();
    let file = file.to_str().unwrap();
    let out = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (cut, joined, csv, page) = (out("cut.stalltop"), out("joined.stalltop"), out("x.csv"), out("x.html"));
    for words in [
        &["info", file][..],
        &["info", "--verify", file],
        &["check", file],
        &["check", "--at", "+1s", file],
        &["table", "cpu", "--from", file],
        &["export", file, "-o", &csv],
        &["report", file, "-o", &page],
        &["compare", file, file],
        &["cut", file, "--from", "+1s", "-o", &cut],
        &["cat", file, file, "-o", &joined],
    ] {
        let (code, _, stderr) = run(words);
        let message = format!("stalltop: '{file}' has no complete sample: its last frame is incomplete");
        // `check` has the codes of a monitoring plugin: 3 is unknown.
        let expected = if words[0] == "check" { 3 } else { 4 };
        assert!(code == expected && is_one_line(&stderr) && stderr.starts_with(&message), "{words:?}: {code}: {stderr}");
        let remedy = if words[0] == "info" { "\n" } else { ": 'stalltop info --verify' shows what is in it\n" };
        assert_eq!(stderr.strip_prefix(&message), Some(remedy), "{words:?}: {stderr}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing was written");
}

#[test]
fn a_damaged_recording_exits_with_3_and_is_read_as_far_as_possible() {
    let directory = tempfile::tempdir().unwrap();
    let file = recording(directory.path());
    assert_eq!(run(&["info", "--verify", &file]).0, 0);
    let good = fs::read(&file).unwrap();
    let damaged = directory.path().join("damaged.stalltop");
    let mut bytes = good.clone();
    let last_delta = bytes.windows(5).rposition(|window| window == b"\xf5\x9dFr\x04").unwrap();
    bytes[last_delta + 60] ^= 0x10;
    fs::write(&damaged, &bytes).unwrap();
    let (code, stdout, stderr) = run(&["info", "--verify", damaged.to_str().unwrap()]);
    assert_eq!(code, 3, "{stdout}{stderr}");
    assert!(stdout.contains("damage") && stdout.contains("intact") && is_one_line(&stderr), "{stdout}{stderr}");
    // --repair copies the intact samples to a new file.
    let out = directory.path().join("repaired.stalltop");
    let repair = ["info", damaged.to_str().unwrap(), "--repair", out.to_str().unwrap()];
    let (code, stdout, stderr) = run(&repair);
    assert_eq!(code, 3, "{stdout}{stderr}");
    assert!(stdout.contains("\nrepaired  ") && stdout.contains(" lost: ") && stderr.contains("repaired.stalltop"), "{stdout}");
    assert_eq!(run(&["info", "--verify", out.to_str().unwrap()]).0, 0);
    let copy = fs::read(&out).unwrap();
    let (code, _, stderr) = run(&repair);
    assert_eq!(code, 6, "{stderr}");
    assert!(is_one_line(&stderr) && fs::read(&out).unwrap() == copy, "{stderr}");
    let (code, _, _) = run(&["info", damaged.to_str().unwrap(), "--repair", damaged.to_str().unwrap()]);
    assert_eq!(code, 6, "not over the input");
    // Truncated in its last frame.
    let cut = directory.path().join("cut.stalltop");
    fs::write(&cut, &good[..last_delta + 60]).unwrap();
    let (code, stdout, _) = run(&["info", "--verify", cut.to_str().unwrap()]);
    assert!(code == 3 && stdout.contains("incomplete"), "{code} {stdout}");
    assert_eq!(fs::read(&damaged).unwrap(), bytes, "the input is unchanged");
}

#[test]
fn existing_files_and_links_are_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("there"), b"precious").unwrap();
    symlink(path("there"), path("link")).unwrap();
    symlink(path("nowhere"), path("dangling")).unwrap();
    nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(path("folder")).unwrap();
    for name in ["there", "link", "dangling", "pipe", "folder"] {
        let (code, _, stderr) = run(&["record", "--for", "300ms", path(name).to_str().unwrap()]);
        assert_eq!(code, 6, "{name}: {stderr}");
        assert!(is_one_line(&stderr), "{name}: {stderr}");
    }
    let (code, _, stderr) = run(&["record", "--for", "300ms", "/dev/full"]);
    assert_eq!(code, 6, "{stderr}");
    let (code, _, stderr) = run(&["record", "--for", "300ms", path("no/such/folder").to_str().unwrap()]);
    assert_eq!(code, 5, "{stderr}");
    for name in ["..", "new/"] {
        let (code, _, stderr) = run(&["record", "--for", "300ms", name]);
        assert_eq!((code, stderr.contains("is a directory")), (6, true), "{stderr}");
    }
    // The error names the missing directory, not the temporary file.
    let file = recording(directory.path());
    let (code, _, stderr) = run(&["report", &file, "-o", path("no/such/page.html").to_str().unwrap()]);
    assert_eq!((code, stderr.contains("/.stalltop-"), stderr.contains("an existing directory")), (5, false, true), "{stderr}");
    assert_eq!(fs::read(path("there")).unwrap(), b"precious");
    assert!(!path("nowhere").exists());
}

#[test]
fn a_recording_has_mode_0600() {
    let directory = tempfile::tempdir().unwrap();
    let file = recording(directory.path());
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn signals_close_a_recording() {
    use nix::sys::signal::{SigHandler, Signal, kill};
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.stalltop");
        let mut command = stalltop(&["record", "-i", "100ms", file.to_str().unwrap()]);
        // Under nohup, or in the background of a script, signals are ignored and children inherit that.
        // SAFETY: sigaction is async-signal-safe.
        unsafe { command.pre_exec(move || Ok(nix::sys::signal::signal(signal, SigHandler::SigDfl).map(drop)?)) };
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        // Wait for a sample in the file.
        until("a sample is recorded", || fs::metadata(&file).is_ok_and(|metadata| metadata.len() >= 3000));
        // Twice, as timeout(1) does: a second one that comes much later ends the program.
        let first = std::time::Instant::now();
        for _ in 0..2 {
            if first.elapsed() < std::time::Duration::from_millis(400) {
                kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
            }
        }
        let (code, _, stderr) = texts_of(&child.wait_with_output().unwrap());
        assert_eq!(code, 0, "{signal}: {stderr}");
        assert!(is_one_line(&stderr) && stderr.contains("recorded"), "{stderr}");
        let (code, stdout, _) = run(&["info", "--verify", file.to_str().unwrap()]);
        assert!(code == 0 && stdout.contains("end       closed\n"), "{stdout}");
    }
}

#[test]
fn a_second_signal_ends_a_recording_that_cannot_be_closed() {
    use nix::sys::signal::{SigHandler, Signal, kill};
    use std::os::unix::process::ExitStatusExt;
    let (reader, writer) = nix::unistd::pipe().unwrap();
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let mut command = stalltop(&["record", "-", "-i", "100ms"]);
    // SAFETY: sigaction is async-signal-safe.
    unsafe { command.pre_exec(|| Ok(nix::sys::signal::signal(Signal::SIGTERM, SigHandler::SigDfl).map(drop)?)) };
    let mut child = command.stdout(writer.try_clone().unwrap()).stderr(Stdio::null()).spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let is_full = || {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let mut pipe = [PollFd::new(writer.as_fd(), PollFlags::POLLOUT)];
        poll(&mut pipe, PollTimeout::ZERO).unwrap() == 0
    };
    until("the pipe is full", is_full);
    until("a second signal has an effect", || {
        kill(pid, Signal::SIGTERM).unwrap();
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    drop(reader);
}

#[test]
fn max_size_limits_a_recording() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.stalltop");
    // Enough for a few samples of any host.
    let record =
        |most: u64| run(&["record", "-i", "100ms", "--for", "60s", "--max-size", &most.to_string(), file.to_str().unwrap()]);
    let (code, _, stderr) = run(&["record", "-i", "100ms", "--for", "300ms", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{stderr}");
    let most = fs::metadata(&file).unwrap().len() + (20 << 10);
    fs::remove_file(&file).unwrap();
    let (code, _, stderr) = record(most);
    assert_eq!(code, 0, "{stderr}");
    let size = fs::metadata(&file).unwrap().len();
    assert!(size <= most && size > most / 4, "{size} of {most}");
    fs::remove_file(&file).unwrap();
    // Less than one sample: no file remains.
    let (code, _, stderr) = record(1100);
    assert_eq!((code, stderr.lines().count()), (5, 1), "{stderr}");
    assert!(stderr.contains("--max-size") && !file.exists(), "{stderr}");
}

/// The values that differ, a line each.
fn differences(path: &str, left: &serde_json::Value, right: &serde_json::Value) -> Vec<String> {
    use serde_json::Value::{Array, Object};
    match (left, right) {
        (Object(left), Object(right)) if left.keys().eq(right.keys()) => {
            left.iter().flat_map(|(key, value)| differences(&format!("{path}/{key}"), value, &right[key])).collect()
        }
        (Array(left), Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs.flat_map(|(index, (left, right))| differences(&format!("{path}/{index}"), left, right)).collect()
        }
        _ if left == right => Vec::new(),
        _ => vec![format!("{path}: {left} and {right}")],
    }
}

#[test]
fn live_and_replay_have_the_same_fields() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("same.stalltop");
    let file = file.to_str().unwrap();
    // A state directory of its own: a live check takes over what other programs learn meanwhile.
    let run = |arguments: &[&str]| texts_of(&stalltop(arguments).env("XDG_STATE_HOME", directory.path()).output().unwrap());
    // One busy thread.
    let busy = Busy::start();
    let (code, live, stderr) = run(&["check", "--json", "--for", "4s", "-i", "500ms", "--save", file]);
    drop(busy);
    let (again, replayed, _) = run(&["check", "--json", file]);
    let parsed: serde_json::Value = serde_json::from_str(&live).unwrap();
    let differences = differences("", &parsed, &serde_json::from_str(&replayed).unwrap());
    assert!(differences.is_empty(), "{stderr}{}", differences.join("\n"));
    assert_eq!(code, again, "{stderr}");
    assert_eq!(parsed["schema"], "stalltop/1");
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    assert!(parsed["figures"]["busy_ratio"].as_f64().unwrap() * cpus as f64 > 0.2, "{live}");
}

/// The file may be at most 0.5 KiB, which the header does not fit into, or 8 KiB, which the first sample does not fit into.
#[test]
fn a_recording_that_cannot_be_written_does_not_cost_the_verdict() {
    for blocks in ["1", "16"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("full.stalltop");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" check --for 1s --save \"$1\"")]);
        command.args([program(), file.to_str().unwrap()]).env("XDG_STATE_HOME", state_directory());
        let (code, verdict, stderr) = texts_of(&command.output().unwrap());
        assert!((0..=2).contains(&code) && verdict.contains("CPUs busy"), "{blocks}: {code} {verdict} {stderr}");
        assert!(stderr.contains("full.stalltop"), "{blocks}: {stderr}");
    }
}

#[test]
fn without_a_terminal_lines_are_printed_until_the_pipe_closes() {
    let mut child = stalltop(&["-i", "100ms"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut start = [0; 200];
    output.read_exact(&mut start).unwrap();
    assert!(String::from_utf8_lossy(&start).contains("CPUs busy"));
    drop(output);
    let (code, _, stderr) = texts_of(&child.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn a_full_disk_on_standard_output_is_reported() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (code, _, stderr) = texts_of(&stalltop(&["-i", "100ms"]).stdout(full).output().unwrap());
    assert_eq!(code, 1);
    assert!(is_one_line(&stderr) && stderr.contains("No space left"), "{stderr}");
}

#[test]
fn a_recording_can_be_piped() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("piped.stalltop");
    let sink = fs::File::create(&file).unwrap();
    let output = stalltop(&["record", "-", "--for", "1s", "-i", "200ms"]).stdout(sink).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (code, stdout, stderr) = run(&["info", "--verify", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn without_proc_there_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(&["--root", directory.path().to_str().unwrap()]);
    assert_eq!(code, 7, "{stderr}");
    assert!(is_one_line(&stderr), "{stderr}");
}

#[test]
fn a_file_that_cannot_be_opened_has_its_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let loops = directory.path().join("loop");
    symlink(&loops, &loops).unwrap();
    let long = directory.path().join("x".repeat(300));
    let places = [(missing.as_path(), 1), (&loops, 1), (&long, 1), (directory.path(), 4), (Path::new("/dev/null"), 4)];
    for (path, code) in places {
        let path = path.to_str().unwrap();
        for (arguments, expected) in [(["info", path], code), (["check", path], 3)] {
            let (code, stdout, stderr) = run(&arguments);
            assert!(code == expected && stdout.is_empty(), "{arguments:?}: {code} {stdout}{stderr}");
            assert!(is_one_line(&stderr), "{arguments:?}: {stderr}");
        }
    }
}

#[test]
fn escape_sequences_in_paths_are_not_printed() {
    let (_, _, stderr) = run(&["info", "/tmp/\u{1b}[31m\u{202e}x\n"]);
    assert!(is_one_line(&stderr) && !stderr.contains('\u{1b}') && !stderr.contains('\u{202e}'), "{stderr:?}");
}

#[test]
fn record_says_why_it_receives_no_marks() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("stalltop"), "not a directory").unwrap();
    let file = directory.path().join("kept.stalltop");
    let mut record = stalltop(&["record", "--for", "500ms", "-i", "200ms", file.to_str().unwrap()]);
    let (code, _, stderr) = texts_of(&record.env("XDG_RUNTIME_DIR", directory.path()).output().unwrap());
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("'stalltop mark' does not reach this program: cannot create its socket: "), "{stderr}");
}
