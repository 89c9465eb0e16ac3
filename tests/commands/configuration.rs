//! The configuration: precedence of its sources, errors, and files that are no configuration.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::program;
use crate::output::texts_of;

/// A home directory with a configuration file.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(home.config().parent().unwrap()).unwrap();
        home
    }

    fn with(text: impl AsRef<[u8]>) -> Home {
        let home = Home::new();
        home.write(&home.config(), text);
        home
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("stalltop/config.toml")
    }

    /// Writes a file with mode 0644, independent of the umask.
    fn write(&self, path: &Path, text: impl AsRef<[u8]>) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).stdin(Stdio::null());
        for name in ["STALLTOP_THRESHOLD", "STALLTOP_SPEED", "STALLTOP_CONFIG", "SUDO_USER"] {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", self.folder.path()).env("XDG_STATE_HOME", self.folder.path().join("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        run(self.command(arguments))
    }
}

fn run(mut command: Command) -> (i32, String, String) {
    texts_of(&command.output().unwrap())
}

fn recording(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{name}.stalltop"));
    path.to_str().unwrap().to_owned()
}

/// The threshold of the finding idle-but-blocked.
fn threshold_used(command: Command) -> f64 {
    let (_, text, said) = run(command);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{said}"));
    let found = json["findings"].as_array().unwrap().iter().find(|found| found["kind"] == "idle-but-blocked");
    found.unwrap()["threshold"].as_f64().unwrap()
}

#[test]
fn the_command_line_overrides_the_environment_and_that_the_file() {
    let home = Home::with("[thresholds]\nblocked-ratio = 0.3\n");
    let file = recording("01-commit-serialised-db");
    let check = |more: &[&str]| home.command(&[&["check", "--json", &file], more].concat());
    assert_eq!(threshold_used(check(&[])), 0.3);
    assert_eq!(threshold_used(check(&["--no-config"])), 0.25);
    let mut by_environment = check(&[]);
    by_environment.env("STALLTOP_THRESHOLD", "idle-but-blocked=40%");
    assert_eq!(threshold_used(by_environment), 0.4);
    let mut by_both = check(&["--threshold", "blocked-ratio=0.5"]);
    by_both.env("STALLTOP_THRESHOLD", "idle-but-blocked=40%");
    assert_eq!(threshold_used(by_both), 0.5);
    let other = home.folder.path().join("other.toml");
    home.write(&other, "[thresholds]\nblocked-ratio = \"35%\"\n");
    assert_eq!(threshold_used(check(&["--config", other.to_str().unwrap()])), 0.35);
    let mut named = check(&[]);
    named.env("STALLTOP_CONFIG", &other);
    assert_eq!(threshold_used(named), 0.35);
}

#[test]
fn errors_have_a_line_number_and_a_suggestion() {
    let cases = [
        (
            "[thresholds]\nblocked-ratio = 0.3\nlatency-multpile = 4\n",
            "line 3: unknown key 'latency-multpile': did you mean 'latency-multiple'?",
        ),
        ("\n[treshold]\n", "line 2: unknown key 'treshold': did you mean 'thresholds'?"),
        (
            "[thresholds]\ndisk-latency = 4\n",
            "line 2: 'disk-latency' is a kind of finding, not a threshold: its thresholds are latency-multiple",
        ),
        ("[thresholds]\nblocked-ratio = 30\n", "line 2: blocked-ratio is a share: 0 to 1, or 0% to 100%"),
        ("[thresholds]\nblocked-ratio = \"much\"\n", "line 2: 'much' is not a value of this threshold"),
        ("[thresholds]\nblocked-ratio = true\n", "line 2: this is not a number"),
        ("[thresholds]\nblocked-ratio = nan\n", "line 2: blocked-ratio is a share"),
        (
            "[thresholds]\nbox-idle-below-ratio = 0.5\nhost-busy-below-ratio = 0.6\n",
            "line 3: this threshold is set twice: write only 'host-busy-below-ratio', its present name",
        ),
        (
            "[thresholds]\nhost-busy-below-ratio = 0.6\nbox-idle-below-ratio = 0.5\n",
            "line 3: this threshold is set twice: write only 'host-busy-below-ratio', its present name",
        ),
        ("thresholds = 3\n", "line 1: 'thresholds' is a section"),
        ("[speeds]\neth0 = \"fast\"\n", "line 2: this is not a speed"),
        ("[speeds]\neth0 = \"1000xy\"\n", "line 2: this is not a speed"),
        ("[baselines]\nsda = { reed = \"1ms\" }\n", "line 2: unknown key 'reed': did you mean 'read'?"),
        ("[baselines]\nsda = { read = 5 }\n", "line 2: a latency is text with a unit"),
        ("[baselines]\nsda = { read = { 64K = \"1ms\" } }\n", "line 2: unknown key '64K'"),
        ("[ignore]\ndisks = \"loop*\"\n", "line 2: this is not a list"),
        ("[ignore]\ndisks = [\"*loop\"]\n", "line 2: this is not a name"),
        ("[ignore]\ndisk = []\n", "line 2: unknown key 'disk': did you mean 'disks'?"),
        ("[thresholds\n", "line 1: "),
        ("a = 1\na = 2\n", "line 2: duplicate key"),
        ("[thresholds]\nz = 1\na = 1\n", "line 2: unknown key 'z'"),
    ];
    for (text, words) in cases {
        let home = Home::with(text);
        let (code, stdout, said) = home.run(&["nicstat", "-l"]);
        assert_eq!((code, stdout.as_str(), said.lines().count()), (2, "", 1), "{text}: {said}");
        assert!(said.starts_with("stalltop: invalid configuration ") && said.contains(words), "{text}: {said}");
    }
    let (text, words) = cases[0];
    let home = Home::with(text);
    let (code, stdout, _) = home.run(&["check", &recording("16-idle-pool")]);
    assert_eq!((code, stdout.as_str()), (3, ""), "check cannot tell");
    let (code, stdout, said) = home.run(&["doctor"]);
    assert_eq!((code, said.as_str()), (0, ""), "doctor reports it and continues");
    assert!(stdout.contains(words), "{stdout}");
    let mut command = Home::new().command(&["nicstat", "-l"]);
    command.env("STALLTOP_THRESHOLD", "disk-latancy=3");
    let (code, _, said) = run(command);
    assert!(code == 2 && said.contains("STALLTOP_THRESHOLD") && said.contains("did you mean 'disk-latency'?"), "{said}");
    let mut command = Home::new().command(&["nicstat", "-l"]);
    command.env("STALLTOP_SPEED", "eth0");
    let (code, _, said) = run(command);
    assert!(code == 2 && said.contains("STALLTOP_SPEED"), "{said}");
}

/// A path that is not a regular file gives an error of one line and does not block.
#[test]
fn a_path_that_is_no_configuration_is_an_error() {
    let wrong = |home: &Home, words: &str| {
        let (code, stdout, said) = home.run(&["nicstat", "-l"]);
        assert_eq!((code, stdout.as_str(), said.lines().count()), (2, "", 1), "{words}: {said}");
        assert!(said.contains(words), "{said}");
    };
    let home = Home::new();
    fs::create_dir(home.config()).unwrap();
    wrong(&home, "not a regular file");
    let home = Home::new();
    nix::unistd::mkfifo(&home.config(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    wrong(&home, "not a regular file");
    let home = Home::with("");
    fs::OpenOptions::new().write(true).open(home.config()).unwrap().set_len(1 << 30).unwrap();
    wrong(&home, "larger than 1 MiB");
    wrong(&Home::with(b"[ignore]\ndisks = [\"\xff\"]\n"), "line 2: this is not UTF-8");
    wrong(&Home::with([0_u8; 4096]), "line 1");
    let home = Home::new();
    symlink("/dev/zero", home.config()).unwrap();
    wrong(&home, "not a regular file");
}

/// An unreadable default file is only a warning.
#[test]
fn an_unreadable_file_is_a_warning() {
    let goes_on = |home: &Home, words: &str| {
        let (code, stdout, said) = home.run(&["nicstat", "-l"]);
        if said.ends_with("no matching interface\n") {
            return println!("skipped: no interface is up here");
        }
        assert_eq!((code, said.lines().count()), (0, 1), "{words}: {said}");
        assert!(stdout.starts_with("Int ") && said.contains(words) && said.contains("the file is not used"), "{said}");
    };
    let home = Home::new();
    symlink("/nowhere/at/all", home.config()).unwrap();
    goes_on(&home, "No such file");
    let home = Home::new();
    symlink(home.config(), home.config()).unwrap();
    goes_on(&home, "symbolic links");
    let home = Home::with("[thresholds]\n");
    fs::set_permissions(home.config(), fs::Permissions::from_mode(0o000)).unwrap();
    match nix::unistd::geteuid().is_root() {
        true => println!("skipped: root reads every file"),
        false => goes_on(&home, "Permission denied"),
    }
    // A file named by --config has to exist.
    let (code, _, said) = Home::new().run(&["--config", "/nowhere", "nicstat", "-l"]);
    assert!(code == 1 && said.lines().count() == 1 && said.contains("/nowhere"), "{said}");
}

/// `--config /etc/shadow` under sudo: the message must not contain text of the file.
#[test]
fn the_content_of_other_files_is_not_printed() {
    let home = Home::new();
    let file = home.folder.path().join("shadow");
    for text in [
        "root:$6$salt$topsecret:19000:0:99999:7:::\n",
        "token = \"topsecret\"\n",
        "[credentials\n",
        "interval = \"topsecret\"\n",
        "key = 'topsecret\n",
    ] {
        home.write(&file, text);
        let (code, stdout, stderr) = home.run(&["check", "--for", "1s", "--config", file.to_str().unwrap()]);
        assert_eq!(code, 3, "{text}: {stderr}");
        assert!(stderr.contains("shadow' line 1") && !(stdout + &stderr).contains("topsecret"), "{text}: {stderr}");
    }
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    for mode in [0o666, 0o664, 0o622, 0o646] {
        let home = Home::with("[thresholds]\nblocked-ratio = 0.3\n");
        fs::set_permissions(home.config(), fs::Permissions::from_mode(mode)).unwrap();
        let (code, stdout, said) = home.run(&["nicstat", "-l"]);
        assert_eq!((code, stdout.as_str(), said.lines().count()), (6, "", 1), "{mode:o}: {said}");
        assert!(said.contains("others may write to it") && said.contains("chmod go-w"), "{said}");
    }
    // A symbolic link may have any owner, its target may not.
    let home = Home::new();
    let elsewhere = home.folder.path().join("dotfiles.toml");
    home.write(&elsewhere, "[thresholds]\nblocked-ratio = 0.3\n");
    symlink(&elsewhere, home.config()).unwrap();
    let file = recording("01-commit-serialised-db");
    assert_eq!(threshold_used(home.command(&["check", "--json", &file])), 0.3, "a link to a sound file is followed");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(home.run(&["nicstat", "-l"]).0, 6);
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: only root can change the owner of a file");
    }
    let home = Home::with("[thresholds]\n");
    chown(home.config(), Some(65534), None).unwrap();
    let (code, _, said) = home.run(&["nicstat", "-l"]);
    assert!(code == 6 && said.contains("another user"), "{said}");
}

#[test]
fn doctor_reports_invalid_options() {
    let (code, said, _) = Home::new().run(&["doctor", "--nic-speed", "eth0=fast"]);
    assert!(code == 0 && said.contains("not read  invalid value 'eth0=fast' in --nic-speed: "), "{said}");
}

#[test]
fn under_sudo_doctor_names_the_user() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: only root is behind sudo");
    }
    let home = Home::with("[thresholds]\n");
    let path = home.config().display().to_string();
    let mut command = home.command(&["doctor"]);
    command.env("SUDO_USER", "alice");
    let (_, text, _) = run(command);
    assert!(text.contains(&format!("read      configuration {path}")) && text.contains("not alice's"), "{text}");
    // The home of the user, not of root.
    for folder in [home.config().parent().unwrap(), home.folder.path()] {
        chown(folder, Some(65534), None).unwrap();
    }
    let (_, text, _) = home.run(&["doctor"]);
    assert!(!text.contains(&path), "{text}");
}

/// nicstat uses the configured speeds; -S overrides them.
#[test]
fn nicstat_uses_the_configured_speeds() {
    let home = Home::with("[speeds]\nlo = \"100hd\"\n");
    let listed = |options: &[&str]| home.run(&[&["nicstat", "-l", "-i", "lo"], options].concat()).1;
    if !listed(&["--no-config"]).contains("lo") {
        return println!("skipped: lo has no packets");
    }
    // nicstat prints the duplex of a loopback interface, but no speed.
    assert!(listed(&[]).contains("half") && !listed(&["--no-config"]).contains("half"), "{}", listed(&[]));
    assert!(!listed(&["--compat"]).contains("half"), "{}", listed(&["--compat"]));
    assert!(listed(&["-S", "lo:25fd"]).contains("full"));
}

/// --nic-speed also applies to recordings of other hosts.
#[test]
fn the_option_sets_a_speed_for_one_run() {
    let file = recording("10-full");
    let home = Home::with("[speeds]\nlo = \"100hd\"\n");
    let most = |arguments: &[&str]| {
        let table = ["table", "nic", "--from", &file, "--format", "json", "--columns", "all"];
        let (code, text, said) = home.run(&[&table, arguments].concat());
        assert_eq!((code, said.as_str()), (0, ""), "{arguments:?}");
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let row = rows.filter(|row| row["name"] == "labA").max_by(|a, b| {
            let bytes = |row: &serde_json::Value| row["sent_bytes_per_second"].as_f64().unwrap_or_default();
            bytes(a).total_cmp(&bytes(b))
        });
        let row = row.unwrap();
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
        (number("sent_bytes_per_second") * 8.0 / 1e6, number("tx_utilization_ratio"))
    };
    let (mbps, claimed) = most(&[]);
    let (_, said) = most(&["--nic-speed", "labA=400fd,eth7=10hd"]);
    assert!((said - mbps / 400.0).abs() < 1e-6 && said > claimed, "{said} of {mbps} Mbit/s, {claimed} as the driver has it");
    let listed = |arguments: &[&str]| home.run(&[&["nicstat", "-l"], arguments].concat()).1;
    if listed(&[]).is_empty() {
        return println!("skipped: no interface is up here");
    }
    assert!(listed(&[]).contains("half") && listed(&["--nic-speed", "lo:1000fd"]).contains("full"));
    for wrong in ["labA", "labA=", "=10fd", "labA=fast", "labA=10xy", "labA=0fd"] {
        let (code, text, said) = home.run(&["table", "nic", "--nic-speed", wrong]);
        assert_eq!((code, text.as_str(), said.lines().count()), (2, "", 1), "{wrong}: {said}");
        assert!(said.contains("--nic-speed") && said.contains("eth0=1000fd"), "{said}");
    }
}

/// Ignored devices have no findings. The default file does not apply to recordings of other hosts.
#[test]
fn ignored_devices_have_no_findings() {
    let file = recording("10-full");
    let home = Home::with("[ignore]\nnics = [\"lab*\"]\n");
    let code = |arguments: &[&str]| home.run(&[&["check", &file, "--only", "nic-saturated"], arguments].concat()).0;
    assert_eq!(code(&["--no-config"]), 1);
    assert_eq!(code(&["--config", home.config().to_str().unwrap()]), 0);
}

#[test]
fn configured_baselines_are_used_and_recorded() {
    let home = Home::with("[baselines]\nloop1 = { flush = \"100ms\", read = { 16K = \"80ms\" } }\n");
    let config = home.config().display().to_string();
    let slow = |recording_: &str, more: &[&str]| {
        let (_, text, _) = home.run(&[&["check", "--json", &recording(recording_), "--only", "disk-latency"], more].concat());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["findings"].as_array().unwrap().len()
    };
    assert!(slow("03-fio-sync32", &["--no-config"]) > 0);
    assert_eq!(slow("03-fio-sync32", &["--config", &config]), 0, "80 ms is within the configured baseline");
}
