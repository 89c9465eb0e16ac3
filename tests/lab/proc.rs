//! Independent readers of /proc, simple and unoptimised, against which stalltop is compared.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use nix::unistd::{SysconfVar, sysconf};

/// Online CPUs: a whole CPU is so much of the host.
pub fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

/// Clock ticks in a second, as /proc counts them.
pub fn ticks_per_second() -> f64 {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64
}

/// A line of /proc/stat: the host, or one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticks {
    /// user, nice, system
    pub used: u64,
    /// irq, softirq
    pub interrupts: u64,
    /// idle, iowait
    pub available: u64,
    pub iowait: u64,
    pub steal: u64,
}

impl Ticks {
    pub fn parse(stat: &str, name: &str) -> Ticks {
        let line = stat.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default();
        let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or(0);
        Ticks {
            used: field(0) + field(1) + field(2),
            interrupts: field(5) + field(6),
            available: field(3) + field(4),
            iowait: field(4),
            steal: field(7),
        }
    }

    pub fn now() -> Ticks {
        Ticks::parse(&read("/proc/stat"), "cpu")
    }

    /// The difference to an earlier reading; idle may step back by a tick or two.
    pub fn since(self, before: Ticks) -> Ticks {
        Ticks {
            used: self.used.saturating_sub(before.used),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            available: self.available.saturating_sub(before.available),
            iowait: self.iowait.saturating_sub(before.iowait),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    pub fn all(self) -> u64 {
        self.used + self.interrupts + self.available + self.steal
    }

    /// A part of all that was accounted for, 0 to 1.
    pub fn share(self, part: u64) -> f64 {
        if self.all() == 0 { 0.0 } else { part as f64 / self.all() as f64 }
    }

    pub fn busy(self) -> f64 {
        self.share(self.used + self.interrupts)
    }
}

/// The files that most truths are computed from, at one instant.
pub struct Snapshot {
    pub at: Instant,
    texts: HashMap<String, String>,
}

const FILES: [&str; 6] =
    ["/proc/stat", "/proc/diskstats", "/proc/net/dev", "/proc/net/snmp", "/proc/net/netstat", "/proc/loadavg"];

impl Snapshot {
    /// With further files of the scenario's own, and what commands (`$ tc -s qdisc`) say.
    pub fn read(more: &[String]) -> Snapshot {
        let names = FILES.iter().map(|&name| name.to_owned()).chain(more.iter().cloned());
        let text = |name: &str| name.strip_prefix("$ ").map_or_else(|| read(name), answer);
        let texts = names.map(|name| (name.clone(), text(&name))).collect();
        Snapshot { at: Instant::now(), texts }
    }

    pub fn text(&self, file: &str) -> &str {
        self.texts.get(file).map_or("", String::as_str)
    }

    /// The number after this word in a file of `word number` pairs.
    pub fn pair(&self, file: &str, word: &str) -> f64 {
        let mut words = self.text(file).split_whitespace().skip_while(|found| *found != word);
        words.nth(1).and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
    }

    /// A counter of /proc/net/snmp or /proc/net/netstat, where a line of names precedes one of numbers.
    pub fn protocol(&self, file: &str, family: &str, name: &str) -> f64 {
        let mut lines = self.text(file).lines().filter(|line| line.split(':').next() == Some(family));
        let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return f64::NAN };
        let at = names.split_whitespace().position(|word| word == name);
        at.and_then(|at| numbers.split_whitespace().nth(at)?.parse().ok()).unwrap_or(f64::NAN)
    }
}

/// A column of a device's line in /proc/diskstats, counted from 1 as the kernel's documentation does after the name.
pub fn diskstat(device: &str, column: usize) -> u64 {
    parse_diskstat(&read("/proc/diskstats"), device, column)
}

pub fn parse_diskstat(text: &str, device: &str, column: usize) -> u64 {
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(device));
    line.and_then(|line| line.split_whitespace().nth(column + 2)?.parse().ok()).unwrap_or(0)
}

/// The whole disks and partitions of /proc/diskstats.
pub fn disk_names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect()
}

/// Columns of /proc/diskstats (Documentation/admin-guide/iostats.rst).
pub const READS_COMPLETED: usize = 1;
pub const READ_MS: usize = 4;
pub const WRITES_COMPLETED: usize = 5;
pub const IN_FLIGHT: usize = 9;
pub const BUSY_MS: usize = 10;
pub const WEIGHTED_MS: usize = 11;
pub const FLUSHES_COMPLETED: usize = 16;
pub const FLUSH_MS: usize = 17;

/// A byte counter of an interface: `rx_bytes`, `tx_bytes`.
pub fn nic_bytes(text: &str, name: &str, column: usize) -> f64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().nth(column)?.parse().ok()).unwrap_or(f64::NAN)
}

pub const TX_BYTES: usize = 8;
pub const RX_BYTES: usize = 0;

/// The processes of this name, by `/proc/PID/comm`.
pub fn processes(name: &str) -> Vec<u32> {
    let all = pids().into_iter();
    all.filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)).collect()
}

pub fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The threads of a process.
pub fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The fields of /proc/PID/stat, or of that of a thread.
pub struct Stat {
    pub comm: String,
    pub state: char,
    pub parent: u32,
    pub ticks: u64,
    pub start: u64,
}

impl Stat {
    pub fn read(path: &Path) -> Option<Stat> {
        let text = fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&text);
        let (head, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat {
            comm: head.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(1)?).ok()?,
            ticks: number(11)? + number(12)?,
            start: number(19)?,
        })
    }

    pub fn read_process(pid: u32) -> Option<Stat> {
        Stat::read(Path::new(&format!("/proc/{pid}/stat")))
    }
}

/// Clock ticks that a process has used.
pub fn ticks(pid: u32) -> u64 {
    Stat::read_process(pid).map_or(0, |stat| stat.ticks)
}

/// The output of a command; empty if it cannot be run.
fn answer(command: &str) -> String {
    let mut words = command.split_whitespace();
    let out = Command::new(words.next().expect("a command")).args(words).output();
    out.map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).into_owned())
}

pub fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
