//! The script that stands in place of ssh: `SCRIPT HOST COMMAND`. The name of the host says what happens.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::executable::copy_executable;
use crate::harness::program;

const SCRIPT: &str = r#"#!/bin/sh
host=$1
case $host in
    banner*) printf 'Welcome to %s\n\033[31mlast login: never\033[0m\n' "$host";;
    garbage*) exec head -c 300000 /dev/urandom;;
    text*) echo 'you may not enter'; exit 1;;
    refused*) echo 'ssh: connect to host: Connection refused' >&2; exit 255;;
    missing*) exec sh -c "no-such-$(basename "$2")";;
    corrupt*) case $2 in *mktemp*) tr '\000' '\001' | sh -c "$2"; exit;; esac;;
    # The connection stalls while the program is copied.
    stalled*) case $2 in *mktemp*) { head -c 1000; touch "$(dirname "$0")/copying"; sleep 600; } | setsid sh -c "$2"; exit;; esac;;
    # Of a recording, as of a host whose connection has died.
    dying*) sh -c "$2 --for 300ms" 2>/dev/null; echo 'Connection reset by peer' >&2; exit 255;;
    # Once it has sent something, and more three times: samples.
    hanging*) pipe=$(dirname "$0")/pipe.$$; mkfifo "$pipe"; sh -c "exec $2" >"$pipe" & program=$!
        tee "$pipe.sent" <"$pipe" & until [ -s "$pipe.sent" ]; do sleep 0.1; done
        size=0; grown=0; polls=0
        while [ $grown -lt 4 ] && [ $polls -lt 100 ]; do
            now=$(wc -c <"$pipe.sent"); polls=$((polls + 1))
            [ "$now" -gt $size ] && { size=$now; grown=$((grown + 1)); }; sleep 0.1
        done
        kill -STOP $program; wait;;
esac
# As by sshd: what runs does not end with the connection.
case $2 in *mktemp*) exec setsid -w sh -c "$2";; esac
exec sh -c "$2"
"#;

/// A directory with the script.
pub struct Hosts {
    pub directory: tempfile::TempDir,
}

impl Hosts {
    pub fn new() -> Hosts {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("ssh");
        let text = directory.path().join("ssh.text");
        std::fs::write(&text, SCRIPT).unwrap();
        copy_executable(text, script);
        Hosts { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The arguments of `stalltop` for these hosts.
    pub fn arguments(&self, words: &str) -> Vec<String> {
        self.arguments_with_remote(words, program())
    }

    pub fn arguments_with_remote(&self, words: &str, remote: &str) -> Vec<String> {
        let mut arguments: Vec<String> = format!("fleet {words} -i 100ms").split_whitespace().map(str::to_owned).collect();
        let script = self.path("ssh").to_str().unwrap().to_owned();
        arguments.extend(["--remote", remote, "--ssh", &script].map(str::to_owned));
        arguments
    }

    /// With this stalltop on the hosts.
    pub fn command(&self, words: &str, remote: &str) -> Command {
        command(&self.arguments_with_remote(words, remote), self.directory.path())
    }

    pub fn run(&self, words: &str) -> Output {
        run(&self.arguments(words), self.directory.path())
    }

    /// The object that `--json` prints, and the exit code.
    pub fn json(&self, words: &str) -> (Value, i32) {
        let output = self.run(&format!("{words} --json"));
        let parsed = serde_json::from_slice(&output.stdout);
        let parsed = parsed.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (parsed, output.status.code().unwrap())
    }
}

pub fn run(arguments: &[impl AsRef<OsStr>], directory: &Path) -> Output {
    command(arguments, directory).output().unwrap()
}

/// Without the configuration and the baselines of the user who tests.
fn command(arguments: &[impl AsRef<OsStr>], directory: &Path) -> Command {
    let mut command = Command::new(program());
    for home in ["XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
        command.env(home, directory);
    }
    command.args(arguments).env("LC_ALL", "C.UTF-8").current_dir(directory).stdin(Stdio::null());
    command
}
