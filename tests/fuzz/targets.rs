//! What is done with the bytes that a fuzzer makes: one function a target. It returns, or something is wrong.
//!
//! Also compiled into `cargo test --test fuzz`, which runs them on the corpus.

// Each target is a program of its own, and takes what it needs.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "recordings.rs"]
pub mod recordings;

use std::hint::black_box;
use std::sync::Arc;

use recordings::{indexed_with, mended, read_file, read_stream, sound_then};
use stalltop::ids::cpu_list::parse_cpu_list;
use stalltop::kernel::taskstats::{TaskStats, message};
use stalltop::kernel::{cgroup, cpu, disk, fields, host, memory, mounts, network, pressure, task, users};
use stalltop::recording::{HistoryRing, Redaction};
use stalltop::sample::Sample;

pub type Target = fn(&[u8]);

/// Each under the name of its program.
pub const TARGETS: [(&str, Target); 13] = [
    ("file", file),
    ("frames", frames),
    ("delta", delta),
    ("index", index),
    ("proc_cpu", proc_cpu),
    ("proc_memory", proc_memory),
    ("proc_disk", proc_disk),
    ("proc_network", proc_network),
    ("proc_cgroup", proc_cgroup),
    ("proc_host", proc_host),
    ("proc_task", proc_task),
    ("netlink", netlink),
    ("taskstats", taskstats),
];

/// A recording as it comes.
pub fn file(bytes: &[u8]) {
    read_file(bytes.to_vec());
    read_stream(bytes);
}

/// The frames of a recording, whose checksums are put right before they are read.
pub fn frames(bytes: &[u8]) {
    let recording = mended(bytes);
    let samples = read_file(recording.clone());
    read_stream(&recording);
    recorded_again(&samples);
}

/// Payloads of samples behind a sound key frame. File and pipe must give the same.
pub fn delta(bytes: &[u8]) {
    let recording = sound_then(bytes);
    let samples = read_file(recording.clone());
    assert!(samples == read_stream(&recording), "file and pipe differ");
    recorded_again(&samples);
}

/// The index of a sound recording: whatever it says, nothing is read that was not recorded, and all of that is found.
pub fn index(bytes: &[u8]) {
    let (recording, recorded) = indexed_with(bytes);
    let found = read_file(recording);
    assert!(found.iter().all(|sample| recorded.contains(sample)), "a sample that was never recorded");
    assert_eq!(found.len(), recorded.len());
}

/// A recording from outside can be copied and kept, too.
fn recorded_again(samples: &[Arc<Sample>]) {
    let mut ring = HistoryRing::new(samples.len(), 64 << 20, Redaction::Nothing);
    for sample in samples {
        ring.push(sample);
    }
    for place in 0..ring.len() {
        let _ = black_box(ring.sample(place));
    }
}

/// /proc/stat, loadavg, pressure
pub fn proc_cpu(bytes: &[u8]) {
    let _ = black_box((
        cpu::parse_stat(bytes),
        cpu::parse_boot_time(bytes),
        cpu::parse_loadavg(bytes),
        pressure::parse_pressure(bytes),
    ));
}

/// /proc/meminfo, vmstat
pub fn proc_memory(bytes: &[u8]) {
    let mut figures = stalltop::sample::memory::Memory::default();
    memory::parse_meminfo(bytes, &mut figures);
    memory::parse_vmstat(bytes, &mut figures);
    let _ = black_box(figures);
}

/// /proc/diskstats, mountinfo
pub fn proc_disk(bytes: &[u8]) {
    disk::parse_diskstats(bytes).for_each(|line| _ = black_box(line));
    for mount in mounts::parse_mountinfo(bytes) {
        black_box(mount.option(b"memory"));
    }
    if let Some((name, other)) = bytes.split_at_checked(bytes.len() / 2) {
        black_box(disk::is_partition_name(name, other));
    }
}

/// /proc/net/dev, snmp, netstat, softnet_stat
pub fn proc_network(bytes: &[u8]) {
    let _ = black_box(network::parse_dev(bytes).map(|lines| lines.len()));
    let _ = black_box((
        network::parse_tcp(bytes),
        network::parse_udp(bytes),
        network::parse_tcp_ext(bytes),
        network::parse_ip_octets(bytes),
    ));
    let _ = black_box(network::parse_softnet(bytes));
}

/// The files of control groups
pub fn proc_cgroup(bytes: &[u8]) {
    let id = stalltop::ids::CgroupId { version: stalltop::ids::CgroupVersion::V2, path: "/".into() };
    let mut group = stalltop::sample::cgroup::Cgroup::new(id);
    cgroup::parse_cpu_stat(bytes, &mut group);
    cgroup::parse_memory_stat(bytes, &mut group);
    let _ = black_box((group, cgroup::parse_cpu_max(bytes), cgroup::parse_limit(bytes)));
}

/// /proc/self/status, /etc/passwd, lists and numbers of /sys
pub fn proc_host(bytes: &[u8]) {
    let _ = black_box((host::parse_credentials(bytes), users::parse_passwd(bytes).count()));
    let _ = black_box((
        parse_cpu_list(bytes).count(),
        fields::parse_single_u64(bytes),
        fields::parse_single_line(bytes),
        fields::parse_non_negative_f64(bytes),
    ));
}

/// Files below /proc/PID
pub fn proc_task(bytes: &[u8]) {
    let _ = black_box((task::parse_stat(bytes), task::parse_schedstat(bytes), task::parse_syscall(bytes).ok()));
    let _ = black_box((task::parse_io(bytes), task::parse_cgroups(bytes), task::parse_cpus_allowed_list(bytes)));
}

/// Answers of rtnetlink and sock_diag: one receipt, what is in it, and the bytes as the inside of an answer
pub fn netlink(bytes: &[u8]) {
    let sequence = bytes.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let mut trees = network::QdiscTrees::default();
    let mut kinds = Vec::new();
    let mut each = |kind, payload: &[u8]| {
        let _ = black_box((network::parse_listener(kind, payload), network::parse_connection(kind, payload)));
        trees.add_message(kind, payload, &mut kinds);
    };
    let _ = network::parse_messages(bytes, sequence, &mut each);
    for kind in [20, 36] {
        each(kind, bytes);
    }
    let _ = black_box(network::parse_tcp_info(bytes));
}

/// Answers of generic netlink: one receipt, and what is in it
pub fn taskstats(bytes: &[u8]) {
    let family = bytes.first().map_or(0, |&first| u16::from(first));
    for answer in message::parse_answers(bytes, family, 0) {
        black_box(answer);
    }
    let _ = black_box(message::parse_notification(bytes, family));
    let _ = black_box((message::parse_family_id(bytes), message::parse_stats(bytes)));
    if let Some(account) = TaskStats::parse(bytes) {
        black_box(account.comm());
    }
}
