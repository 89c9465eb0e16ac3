//! Where the commands of the pages run: in a directory of this machine, or in a system that has stalltop installed and nothing of
//! this source tree. `STALLTOP_ENTER` names a program that runs its arguments there, as a user (tests/packages/pages.sh).

use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, ExitStatus, Stdio};
use std::{env, fs};

use portable_pty::CommandBuilder;

use crate::harness::{Session, prepared, program};

/// A command that takes longer has failed.
pub const MAX_SECONDS: &str = "180";

const BASH: &[&str] = &["bash", "-o", "pipefail", "-c"];
/// Debian's sh, dash, does not know pipefail; that of busybox does.
const DASH: &[&str] = &["sh", "-c"];
const BUSYBOX_SH: &[&str] = &["sh", "-o", "pipefail", "-c"];

/// Tools of procps, sysstat and iproute2: busybox has some of these names, with other options.
const NOT_OF_BUSYBOX: [&str; 9] = ["iostat", "mpstat", "nstat", "pidstat", "ps", "ss", "tc", "top", "vmstat"];

/// A directory, with the program in the path.
pub struct Place {
    /// Runs its last arguments in the directory.
    prefix: Vec<String>,
    /// Runs a line.
    shell: &'static [&'static str],
    /// On this machine
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub fn new() -> Place {
        match env::var("STALLTOP_ENTER") {
            Ok(enter) => Place::in_other_system(&enter),
            Err(_) => Place::on_this_machine(),
        }
    }

    fn on_this_machine() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir(at("bin")).unwrap();
        symlink(fs::canonicalize(program()).unwrap(), at("bin/stalltop")).unwrap();
        let environment = [
            ("PATH", format!("{}:{}:/usr/sbin:/sbin", at("bin"), env::var("PATH").unwrap())),
            ("HOME", at("home")),
            ("XDG_STATE_HOME", at("state")),
            ("XDG_CONFIG_HOME", at("config")),
            ("XDG_RUNTIME_DIR", at("run")),
        ];
        let mut prefix = vec!["env".to_owned(), "-C".to_owned(), folder.path().display().to_string()];
        prefix.extend(environment.map(|(name, value)| format!("{name}={value}")));
        Place { prefix, shell: BASH, _folder: Some(folder) }
    }

    /// The directory is the user's home, so that pages do not see each other's files.
    fn in_other_system(enter: &str) -> Place {
        let bare = Place { prefix: vec![enter.to_owned()], shell: DASH, _folder: None };
        let (status, folder) = bare.output("mktemp -d", MAX_SECONDS);
        assert!(status.success(), "{folder}");
        let script = "cd \"$0\" && export HOME=\"$PWD\" && exec \"$@\"";
        let prefix = [enter, "sh", "-c", script, folder.trim()].map(str::to_owned).to_vec();
        let shell = if bare.output("command -v bash", MAX_SECONDS).0.success() { BASH } else { BUSYBOX_SH };
        Place { prefix, shell, _folder: None }
    }

    pub fn is_root(&self) -> bool {
        self.output("id -u", MAX_SECONDS).1.trim() == "0"
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let mut command = Command::new(&self.prefix[0]);
        command.args(&self.prefix[1..]).args(["sh", "-c", "cat > \"$0\"", name]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Why a line cannot be run here: the first of its programs that is not installed.
    pub fn lacks(&self, line: &str) -> Option<String> {
        // Every second part is between quotes.
        let unquoted: String = line.split(['\'', '"']).step_by(2).collect::<Vec<_>>().join("x");
        let command = unquoted.split(" #").next().unwrap();
        let mut words: Vec<&str> = command.split(['|', ';']).filter_map(|part| part.split_whitespace().next()).collect();
        if command.contains(" --zstd ") {
            words.push("zstd");
        }
        words.into_iter().find_map(|word| {
            // The shell of busybox names its own programs without a path.
            let (status, path) =
                self.output(&format!("readlink -f \"$(command -v {word})\" || command -v {word}"), MAX_SECONDS);
            let is_of_busybox = path.trim() == word || path.trim().ends_with("/busybox");
            match status.success() {
                false => Some(format!("{word} is not installed")),
                true if is_of_busybox && NOT_OF_BUSYBOX.contains(&word) => Some(format!("{word} is that of busybox")),
                true => None,
            }
        })
    }

    /// Runs a line, and interrupts it after a time.
    pub fn output(&self, line: &str, seconds: &str) -> (ExitStatus, String) {
        let mut command = Command::new("timeout");
        // From outside: its signals reach all processes of the line, and busybox has another one.
        command.args(["--preserve-status", "--signal=INT", "--kill-after=10", seconds]).args(&self.prefix);
        command.args(self.shell).arg(line).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status, text)
    }

    /// Starts a line on a terminal.
    pub fn terminal(&self, line: &str) -> Session {
        let mut command = prepared(CommandBuilder::new(&self.prefix[0]));
        command.args(&self.prefix[1..]);
        command.args(self.shell);
        command.arg(line);
        Session::start(command, 80, 24)
    }
}
