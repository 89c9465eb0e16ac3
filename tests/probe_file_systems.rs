//! `probe fs` against the counts of fio: sequential, random, asynchronous and mapped, each on a file system of its own, since fio reads
//! its libraries as a mapped file does. As root, with BTF, fio and loop devices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "support/program.rs"]
mod program;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;

use jiff::Timestamp;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use program::program;
use serde_json::Value;

/// No other process of this machine has this uid.
const USER: u32 = 54_321;
const FILE_BYTES: usize = 64 << 20;

/// A new file system in a file, mounted for this thread and its children alone. Unmounted when it is dropped.
struct FileSystem {
    directory: PathBuf,
}

impl FileSystem {
    /// Fails where there are no loop devices, and in a container.
    fn mount(folder: &Path) -> Result<FileSystem, String> {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|why| format!("unshare: {why}"))?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .map_err(|why| format!("mount: {why}"))?;
        let (image, directory) = (folder.join("image"), folder.join("mounted"));
        fs::File::create(&image).unwrap().set_len(2 * FILE_BYTES as u64).unwrap();
        fs::create_dir(&directory).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&directory))?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        Ok(FileSystem { directory })
    }

    /// What its device has read, in bytes.
    fn device_bytes(&self) -> f64 {
        let device = self.directory.metadata().unwrap().dev();
        let path = format!("/sys/dev/block/{}:{}/stat", nix::sys::stat::major(device), nix::sys::stat::minor(device));
        let sectors: f64 = fs::read_to_string(path).unwrap().split_whitespace().nth(2).unwrap().parse().unwrap();
        sectors * 512.0
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        umount2(&self.directory, MntFlags::MNT_DETACH).unwrap();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|why| format!("{}: {why}", command.get_program().to_string_lossy()))?;
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// The probe, which counts operations of `USER` below a directory.
struct Probe {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Probe {
    /// Waits until it counts.
    fn start(directory: &Path) -> Probe {
        let mut command = Command::new(program());
        command.args(["probe", "fs", "--json", "--user", &USER.to_string(), "--mount"]).arg(directory).arg("200ms");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().expect("the probe ended").unwrap();
        Probe { child, lines }
    }

    /// What it has counted until now. Ends it.
    fn total(mut self) -> Vec<Value> {
        let end = Timestamp::now();
        let mut all = Vec::new();
        // The time of a line is rounded.
        let mut later = 0;
        while later < 2 {
            let line: Value = serde_json::from_str(&self.lines.next().expect("the probe ended").unwrap()).unwrap();
            later += i32::from(line["at"].as_str().unwrap().parse::<Timestamp>().unwrap() >= end);
            all.push(line);
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        all
    }
}

fn sum(lines: &[Value], line: &str, key: &str) -> f64 {
    lines.iter().map(|object| object[line][key].as_f64().unwrap()).sum()
}

/// Why this machine cannot run the test.
fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    if Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Some("fio is not installed".to_owned());
    }
    (!Path::new("/sys/kernel/btf/vmlinux").exists()).then(|| "no /sys/kernel/btf/vmlinux".to_owned())
}

/// The probe runs, with all that this kernel has.
fn assert_it_is_attached() {
    static TRIED: Once = Once::new();
    TRIED.call_once(|| {
        let probe = Command::new(program()).args(["probe", "fs", "100ms", "1"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&probe.stderr);
        assert!(probe.status.success() && !stderr.contains("not counted: "), "{}: {stderr}", probe.status);
    });
}

fn fio(file: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("fio");
    command.arg(format!("--filename={}", file.display())).args(["--name=job", "--output-format=json", "--thread"]);
    command.args([&format!("--size={FILE_BYTES}"), "--end_fsync=1"]).args(options);
    command.uid(USER).gid(USER).current_dir(file.parent().unwrap()).stderr(Stdio::null()).output().unwrap()
}

/// Where a job is counted.
struct Job {
    name: &'static str,
    options: &'static [&'static str],
    line: &'static str,
    /// Pages of a sequential mapping are read ahead: fewer reads of the same bytes.
    compares_reads: bool,
}

const OF_SYSTEM_CALLS: &[Job] = &[
    Job { name: "read", options: &["--ioengine=psync", "--rw=read", "--bs=4k"], line: "sequential", compares_reads: true },
    Job { name: "write", options: &["--ioengine=sync", "--rw=write", "--bs=4k"], line: "sequential", compares_reads: true },
    Job { name: "readv", options: &["--ioengine=pvsync", "--rw=read", "--bs=4k"], line: "sequential", compares_reads: true },
    Job { name: "random", options: &["--ioengine=psync", "--rw=randrw", "--bs=4k"], line: "random", compares_reads: true },
];

const ASYNCHRONOUS: &[Job] = &[
    Job {
        name: "libaio",
        options: &["--ioengine=libaio", "--rw=randrw", "--bs=4k", "--iodepth=8", "--direct=1"],
        line: "random",
        compares_reads: true,
    },
    Job {
        name: "libaio sequential",
        options: &["--ioengine=libaio", "--rw=read", "--bs=4k", "--iodepth=8", "--direct=1"],
        line: "sequential",
        compares_reads: true,
    },
    Job {
        name: "io_uring",
        options: &["--ioengine=io_uring", "--rw=randrw", "--bs=4k", "--iodepth=8", "--direct=1"],
        line: "random",
        compares_reads: true,
    },
    Job {
        name: "io_uring sequential",
        options: &["--ioengine=io_uring", "--rw=write", "--bs=4k", "--iodepth=8"],
        line: "sequential",
        compares_reads: true,
    },
];

const MAPPED: &[Job] = &[
    Job { name: "mmap", options: &["--ioengine=mmap", "--rw=randread", "--bs=4k"], line: "page", compares_reads: true },
    Job { name: "mmap write", options: &["--ioengine=mmap", "--rw=randwrite", "--bs=4k"], line: "page", compares_reads: false },
    Job { name: "mmap sequential", options: &["--ioengine=mmap", "--rw=read", "--bs=4k"], line: "page", compares_reads: false },
];

// Three tests, which run at the same time: most of their time is that of one CPU.
#[test]
fn counts_of_system_calls_are_those_of_fio() {
    compare(OF_SYSTEM_CALLS);
}

#[test]
fn counts_of_asynchronous_operations_are_those_of_fio() {
    compare(ASYNCHRONOUS);
}

#[test]
fn counts_of_mapped_files_are_those_of_fio() {
    compare(MAPPED);
}

fn compare(jobs: &[Job]) {
    if let Some(why) = obstacle() {
        return println!("skipped: {why}");
    }
    assert_it_is_attached();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file_system = match FileSystem::mount(folder.path()) {
        Ok(file_system) => file_system,
        Err(why) => return println!("skipped: no file system can be mounted: {why}"),
    };
    let file = file_system.directory.join("data");
    fs::write(&file, vec![7_u8; FILE_BYTES]).unwrap();
    chown(&file, Some(USER), Some(USER)).unwrap();
    for job in jobs {
        // Clean pages are dropped when fio begins.
        fs::File::open(&file).unwrap().sync_all().unwrap();
        let probe = Probe::start(&file_system.directory);
        let device_bytes = file_system.device_bytes();
        let output = fio(&file, job.options);
        let device_bytes = file_system.device_bytes() - device_bytes;
        let counted = probe.total();
        if !output.status.success() {
            println!("skipped: {}: fio: {}", job.name, output.status);
            continue;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let report: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let of_fio = |direction: &str, key: &str| report["jobs"][0][direction][key].as_f64().unwrap();
        let one_percent = |what: &str| if what.ends_with("bytes") { FILE_BYTES } else { FILE_BYTES / 4096 } as f64 / 100.0;
        let expect = |what: &str, counted: f64, expected: f64| {
            println!("{} {what}: {counted}, fio: {expected}", job.name);
            let is_near = (counted - expected).abs() <= one_percent(what);
            assert!(is_near, "{} {what}: {counted}, fio says {expected}", job.name);
        };
        let is_mapped_write = job.name == "mmap write";
        if job.compares_reads {
            expect("reads", sum(&counted, job.line, "reads"), of_fio("read", "total_ios"));
        }
        let read_bytes = sum(&counted, job.line, "read_bytes");
        if job.line != "page" {
            expect("read bytes", read_bytes, of_fio("read", "io_bytes"));
        } else if !is_mapped_write {
            // Pages that are read ahead and dropped before they are used are read again: as many as the device has read.
            let (fio_bytes, allowed) = (of_fio("read", "io_bytes"), one_percent("bytes"));
            println!("{} read bytes: {read_bytes}, fio: {fio_bytes}, device: {device_bytes}", job.name);
            let is_near =
                read_bytes >= fio_bytes - allowed && (read_bytes - device_bytes).abs() <= allowed.max(device_bytes / 50.0);
            assert!(is_near, "{} read bytes: {read_bytes}, fio says {fio_bytes}, the device {device_bytes}", job.name);
        }
        expect("writes", sum(&counted, job.line, "writes"), of_fio("write", "total_ios"));
        expect("written bytes", sum(&counted, job.line, "write_bytes"), of_fio("write", "io_bytes"));
        // Pages that read(2) and write(2) bring into memory are not counted again.
        let others = if job.line == "page" { ["sequential", "random"] } else { ["page", "page"] };
        for other in others {
            let operations = sum(&counted, other, "reads") + sum(&counted, other, "writes");
            assert!(operations <= one_percent("operations"), "{}: {operations} of {other}", job.name);
        }
    }
}
