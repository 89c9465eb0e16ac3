//! The `baseline` command: stored values, output, errors.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::documented_keys::assert_documented;
use crate::harness::program;
use crate::output::is_one_line;

/// A temporary state directory, and a synthetic machine with one disk without baselines.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("root/proc");
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("stat"), "cpu  1 0 1 9 0 0 0 0 0 0\ncpu0 1 0 1 9 0 0 0 0 0 0\n").unwrap();
        fs::write(proc.join("diskstats"), "   8       0 sda 10 0 80 50 0 0 0 0 0 50 50 0 0 0 0 0 0\n").unwrap();
        let device = folder.path().join("root/sys/class/block/sda/device");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("model"), "ST4000NM\n").unwrap();
        fs::write(device.join("wwid"), "naa.5000c500a1b2c3d4\n").unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        fs::set_permissions(folder.path().join("state"), fs::Permissions::from_mode(0o700)).unwrap();
        Place { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("--root").arg(self.folder.path().join("root")).arg("baseline").args(arguments);
        command.stdin(Stdio::null()).env("XDG_STATE_HOME", self.folder.path().join("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("state/stalltop/baselines.toml")
    }
}

#[test]
fn set_show_and_forget() {
    let place = Place::new();
    let (code, stdout, stderr) = place.run(&["show"]);
    assert!(code == 0 && stdout.contains("no baselines yet") && stderr.is_empty(), "{stdout}{stderr}");
    assert!(!place.file().exists(), "show creates no file");
    assert_eq!(place.run(&["set", "sda", "read", "0.5ms", "--size", "16K"]).0, 0);
    assert_eq!(place.run(&["set", "/dev/sda", "flush", "12ms"]).0, 0);
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o7777, 0o600);
    let (_, table, _) = place.run(&["show", "sda"]);
    for words in ["500 µs", "12.0 ms", "by hand", "ST4000NM naa.5000c500a1b2c3d4", "<=16K"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert_eq!(table.lines().count(), 3, "{table}");
    let (_, lines, _) = place.run(&["show", "--json"]);
    let rows: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["schema"], "stalltop/1");
    assert_eq!((&rows[0]["device"], &rows[0]["baseline_seconds"]), (&"sda".into(), &0.0005.into()));
    assert_eq!((&rows[0]["confidence"], &rows[0]["since"]), (&"by hand".into(), &serde_json::Value::Null));
    // By identity too: the device may be absent.
    let (code, stdout, _) = place.run(&["forget", "ST4000NM naa.5000c500a1b2c3d4"]);
    assert!(code == 0 && stdout.starts_with("2 baselines"), "{stdout}");
    assert!(place.run(&["show"]).1.contains("no baselines yet"));
    // Without a size: all sizes.
    assert_eq!(place.run(&["set", "sda", "write", "200us"]).0, 0);
    assert_eq!(place.run(&["show"]).1.matches("200 µs").count(), 3);
    let (_, lines, _) = place.run(&["show", "--json"]);
    lines.lines().for_each(|line| assert_documented("baseline show --json", &serde_json::from_str(line).unwrap()));
    assert!(place.run(&["forget", "--all"]).1.starts_with("3 baselines"));
}

#[test]
fn wrong_usage_exits_with_2_and_an_unknown_device_with_1() {
    let place = Place::new();
    let wrong: &[&[&str]] = &[
        &[],
        &["set", "sda", "read"],
        &["set", "sda", "read", "5"],
        &["set", "sda", "read", "-1ms"],
        &["set", "sda", "read", "0ms"],
        &["set", "sda", "read", "5min"],
        &["set", "sda", "seek", "5ms"],
        &["set", "sda", "read", "5ms", "--size", "1M"],
        &["forget"],
        &["forget", "sda", "--all"],
        &["learn"],
    ];
    for arguments in wrong.iter().filter(|arguments| !arguments.is_empty()) {
        let (code, stdout, stderr) = place.run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
        assert!(is_one_line(&stderr), "{arguments:?}: {stderr}");
    }
    assert!(place.run(&["set", "sda", "read", "5"]).2.contains("0.5ms"), "the error explains the format");
    for arguments in [&["set", "sdz", "read", "5ms"][..], &["forget", "sdz"], &["show", "sdz"]] {
        let (code, stdout, stderr) = place.run(arguments);
        assert_eq!((code, stdout.as_str()), (1, ""), "{arguments:?}: {stderr}");
        assert!(is_one_line(&stderr), "{arguments:?}: {stderr}");
    }
    assert!(!place.file().exists());
}

/// The last name of an absent device stands for it, unless two had it.
#[test]
fn an_absent_device_has_its_last_name_or_its_identity() {
    let place = Place::new();
    let root = place.folder.path().join("root");
    assert_eq!(place.run(&["set", "sda", "read", "5ms"]).0, 0);
    fs::write(root.join("sys/class/block/sda/device/wwid"), "naa.other\n").unwrap();
    assert_eq!(place.run(&["set", "sda", "write", "7ms"]).0, 0);
    fs::write(root.join("proc/diskstats"), "").unwrap();
    // As a running stalltop has learned it.
    let text = fs::read_to_string(place.file()).unwrap();
    fs::write(place.file(), text.replace("operation = ", "name = \"sda\"\noperation = ")).unwrap();
    let ambiguous =
        "stalltop: 'sda' is ambiguous: 2 devices had this name: give the identity that stalltop baseline show prints\n";
    assert_eq!(place.run(&["forget", "sda"]), (1, String::new(), ambiguous.to_owned()));
    let (code, stdout, stderr) = place.run(&["forget", "ST4000NM naa.other"]);
    assert!(code == 0 && stdout.starts_with("3 baselines of ST4000NM naa.other "), "{stdout}{stderr}");
    let (code, stdout, stderr) = place.run(&["forget", "sda"]);
    assert!(code == 0 && stdout.starts_with("3 baselines of ST4000NM naa.5000c500a1b2c3d4 "), "{stdout}{stderr}");
    let (code, stdout, stderr) = place.run(&["forget", "sda"]);
    assert!(code == 1 && stdout.is_empty() && stderr.contains("cannot find 'sda': it is not a block device"), "{stderr}");
}

#[test]
fn learn_needs_a_device() {
    let place = Place::new();
    let file = place.folder.path().join("a file");
    fs::write(&file, [7; 8192]).unwrap();
    for target in [file.to_str().unwrap(), "/dev/null", "/nowhere", "no such disk"] {
        let (code, stdout, stderr) = place.run(&["learn", target]);
        assert_eq!((code, stdout.as_str()), (6, ""), "{target}: {stderr}");
        assert!(is_one_line(&stderr), "{target}: {stderr}");
    }
    assert_eq!(fs::read(&file).unwrap(), [7; 8192]);
}

#[test]
fn an_invalid_file_is_reported_and_renamed_on_write() {
    let place = Place::new();
    assert_eq!(place.run(&["set", "sda", "read", "5ms"]).0, 0);
    fs::write(place.file(), "rubbish").unwrap();
    let (code, _, stderr) = place.run(&["show"]);
    assert!(code == 1 && is_one_line(&stderr) && stderr.contains(".bad"), "{stderr}");
    assert_eq!(fs::read_to_string(place.file()).unwrap(), "rubbish", "show does not change the file");
    assert_eq!(check(place.folder.path()), ["kept as"], "one notice");
    assert_eq!(check(place.folder.path()), [""; 0], "reported once");
    assert_eq!(fs::read_to_string(place.file().with_extension("toml.bad")).unwrap(), "rubbish");
}

#[test]
fn an_unusable_state_directory_is_a_warning() {
    let place = Place::new();
    let directory = place.folder.path().join("state/stalltop");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(check(place.folder.path()), ["may be written by others"]);
    let (code, _, stderr) = place.run(&["set", "sda", "read", "5ms"]);
    assert!(code == 6 && is_one_line(&stderr), "{stderr}");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    // A symbolic link is not followed, for reading or writing.
    let victim = place.folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, place.file()).unwrap();
    assert_eq!(check(place.folder.path()), ["is a link"]);
    assert_ne!(place.run(&["set", "sda", "read", "5ms"]).0, 0);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

/// The warnings of `check` about the state directory.
fn check(folder: &Path) -> Vec<&'static str> {
    let mut command = Command::new(program());
    command.args(["check", "--for", "200ms", "--json"]).stdin(Stdio::null()).env("XDG_STATE_HOME", folder.join("state"));
    let output = command.output().unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(), "check prints its result");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let first = stderr.lines().next().unwrap_or_default().to_owned();
    ["kept as", "may be written by others", "is a link"].into_iter().filter(|words| first.contains(words)).collect()
}
