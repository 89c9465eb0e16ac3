//! install.sh, from a directory with made-up files of a release: what it installs, for which processors, and what it refuses.
//! tests/packages/install.sh tries it with a real release, from a server, and with busybox alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::executable::copy_executable;
use crate::output::texts_of;

const VERSION: &str = "9.8.7";

/// A directory with the files of a release, a home, and programs that stand for others.
struct Release {
    place: tempfile::TempDir,
}

impl Release {
    /// Of both processors. The binary is a shell script that says its version and target.
    fn new() -> Release {
        let release = Release { place: tempfile::tempdir().unwrap() };
        for folder in ["files", "home", "fake", "elsewhere"] {
            fs::create_dir(release.at(folder)).unwrap();
        }
        for processor in ["x86_64", "aarch64"] {
            release.pack(processor, "echo stalltop");
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/package/install.sh");
        fs::copy(script, release.at("files/install.sh")).unwrap();
        release.sum();
        release
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn pack(&self, processor: &str, binary: &str) {
        let name = format!("stalltop-{VERSION}-{processor}-unknown-linux-musl");
        fs::create_dir_all(self.at(&name)).unwrap();
        write_program(&self.at(&name).join("stalltop"), &format!("{binary} {VERSION} for {processor}"));
        self.shell(&format!("tar -czf files/{name}.tgz {name}"));
    }

    fn sum(&self) {
        self.shell("cd files && sha256sum * >../sums && mv ../sums SHA256SUMS");
    }

    fn shell(&self, line: &str) {
        let status = Command::new("sh").args(["-ec", line]).current_dir(self.place.path()).status().unwrap();
        assert!(status.success(), "{line}");
    }

    /// What the script says on a processor, with its exit code.
    fn install(&self, processor: &str, line: &str) -> (i32, String) {
        write_program(&self.at("fake/uname"), &format!("[ \"$1\" = -m ] && echo {processor} || echo Linux"));
        // As root it would install into /usr/local/bin.
        write_program(&self.at("fake/id"), "echo 1000");
        let path = format!("{}:{}", self.at("fake").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.place.path()).env("PATH", path).env("HOME", self.at("home"));
        command.env_remove("STALLTOP_BIN").env_remove("STALLTOP_URL");
        let (code, stdout, stderr) = texts_of(&command.output().unwrap());
        (code, stdout + &stderr)
    }

    /// What the installed program says.
    fn installed(&self) -> Option<String> {
        let output = Command::new(self.at("home/.local/bin/stalltop")).arg("--version").output().ok()?;
        Some(texts_of(&output).1.trim().to_owned())
    }
}

fn write_program(path: &Path, body: &str) {
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{body}\n")).unwrap();
    copy_executable(&text, path);
    fs::remove_file(text).unwrap();
}

#[test]
fn it_installs_from_its_directory_and_from_another_one() {
    let release = Release::new();
    fs::copy(release.at("files/install.sh"), release.at("elsewhere/install.sh")).unwrap();
    for (processor, line, target) in [
        ("x86_64", "sh files/install.sh", "x86_64"),
        ("aarch64", "cd files && sh install.sh", "aarch64"),
        ("amd64", "sh elsewhere/install.sh --from files", "x86_64"),
        ("arm64", "STALLTOP_URL=file://wrong sh elsewhere/install.sh --from=files/", "aarch64"),
        ("x86_64", "sh -s -- --from files <files/install.sh", "x86_64"),
    ] {
        let (code, text) = release.install(processor, line);
        assert_eq!(code, 0, "{line}: {text}");
        assert_eq!(release.installed(), Some(format!("stalltop {VERSION} for {target}")), "{line}: {text}");
        assert!(text.contains("home/.local/bin is not in PATH"), "{line}: {text}");
        fs::remove_file(release.at("home/.local/bin/stalltop")).unwrap();
    }
    let left = fs::read_dir(release.at("home/.local/bin")).unwrap().count();
    assert_eq!(left, 0, "nothing but the program is left");
}

#[test]
fn other_processors_and_systems_are_refused_with_those_that_have_a_binary() {
    let release = Release::new();
    for processor in ["riscv64", "i686", "armv7l", "ppc64le", "s390x", "loongarch64"] {
        let (code, text) = release.install(processor, "sh files/install.sh");
        let expected = format!("install.sh: there is no binary for {processor}, only for x86_64 and aarch64");
        assert!(code == 1 && text.starts_with(&expected), "{code}: {text}");
        assert_eq!(release.installed(), None);
    }
    write_program(&release.at("elsewhere/uname"), "echo FreeBSD");
    let (code, text) = release.install("x86_64", "PATH=$PWD/elsewhere:$PATH sh files/install.sh");
    assert!(code == 1 && text.contains("stalltop is for Linux, and this is FreeBSD"), "{code}: {text}");
}

#[test]
fn wrong_files_are_refused_and_nothing_is_installed() {
    let refused = |damage: &str, line: &str, code: i32, what: &str| {
        let release = Release::new();
        release.shell(damage);
        let (is, text) = release.install("x86_64", line);
        assert!(is == code && text.contains(what), "{damage}: exit code {is}: {text}");
        assert_eq!(release.installed(), None, "{damage}");
    };
    let archive = format!("files/stalltop-{VERSION}-x86_64-unknown-linux-musl.tgz");
    let here = "sh files/install.sh";
    refused(&format!("printf x >>{archive}"), here, 1, "the checksum of");
    refused(&format!("rm {archive}"), here, 1, "cannot read");
    refused("sed -i /x86_64/d files/SHA256SUMS", here, 1, "names no archive for x86_64");
    refused("sed 's/-9.8.7-/-9.8.8-/' files/SHA256SUMS >>files/SHA256SUMS", here, 1, "more than one archive for x86_64");
    refused("rm files/SHA256SUMS", here, 1, "sh install.sh --from DIR-or-URL");
    refused(":", "sh files/install.sh --from nowhere", 1, "cannot read nowhere/SHA256SUMS");
    refused(":", "sh files/install.sh files", 2, "Usage: sh install.sh [--from DIR-or-URL]");
    refused(":", "sh files/install.sh --from", 2, "Usage:");
    refused(":", "sh files/install.sh --help", 0, "Usage:");
    refused(":", "HOME= sh files/install.sh", 1, "HOME is not set");
}

#[test]
fn a_binary_that_does_not_run_here_does_not_replace_one_that_does() {
    let release = Release::new();
    assert_eq!(release.install("x86_64", "sh files/install.sh").0, 0);
    release.pack("x86_64", "exit 1; echo");
    release.sum();
    let (code, text) = release.install("x86_64", "sh files/install.sh");
    assert!(code == 1 && text.contains("does not run in"), "{code}: {text}");
    assert_eq!(release.installed(), Some(format!("stalltop {VERSION} for x86_64")));
    assert_eq!(fs::read_dir(release.at("home/.local/bin")).unwrap().count(), 1, "no temporary file is left");
}
