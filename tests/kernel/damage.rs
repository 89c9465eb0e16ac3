//! Every file of every tree missing, empty, truncated anywhere, or with impossible numbers: no panic, no figure that the intact
//! file does not have, and no change elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stalltop::kernel::cgroup::{parse_cpu_max, parse_cpu_stat, parse_limit, parse_memory_stat};
use stalltop::kernel::{cpu, disk, host, memory, mounts, network, pressure, users};
use stalltop::sample::cgroup::Cgroup;
use stalltop::sample::memory::Memory;

use crate::copied::{copy, subjects_of};
use crate::tree::{Everything, TREES, path};

/// The numbers in a text, without the errno of an error.
fn numbers(text: &str) -> BTreeSet<String> {
    let text = text.replace("Err(Os(", "Err(Os").replace("Os21)", "").replace("Os22)", "");
    text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

#[test]
fn a_damaged_file_affects_only_its_own_subject() {
    // One thread for each tree: this test alone takes longer than all others here.
    std::thread::scope(|scope| {
        for tree in TREES {
            scope.spawn(move || damage_each_file(tree));
        }
    });
}

fn damage_each_file(tree: &str) {
    let copied = tempfile::tempdir().unwrap();
    copy(&path(tree), copied.path());
    let whole = Everything::read_directory(copied.path().to_owned()).subjects();
    let mut all = Vec::new();
    files(copied.path(), &mut all);
    for file in all {
        let name = file.strip_prefix(copied.path()).unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&file).unwrap();
        let check = |how: &str| {
            for ((subject, before), (_, now)) in
                whole.iter().zip(Everything::read_directory(copied.path().to_owned()).subjects())
            {
                if !subjects_of(&name).unwrap_or(&["host"]).contains(subject) {
                    assert_eq!(*before, now, "{tree}: {name} {how} changed {subject}");
                }
            }
        };
        fs::remove_file(&file).unwrap();
        check("missing");
        for length in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            fs::write(&file, &bytes[..length.min(bytes.len())]).unwrap();
            check("cut");
        }
        fs::write(&file, b"\xff\x00:::\n\n-1 99999999999999999999999 \xf0\n").unwrap();
        check("nonsense");
        fs::write(&file, &bytes).unwrap();
    }
}

#[test]
fn a_truncated_file_gives_no_figure_that_the_whole_file_does_not_give() {
    every_proc_file(|name, bytes, parse| {
        let whole = numbers(&parse(bytes));
        for length in 0..bytes.len() {
            let cut = parse(&bytes[..length]);
            let made_up: Vec<_> = numbers(&cut).difference(&whole).cloned().collect();
            assert!(made_up.is_empty(), "{name} cut at {length} gave {made_up:?}:\n{cut}");
        }
    });
}

#[test]
fn impossible_numbers_give_no_figures() {
    every_proc_file(|name, bytes, parse| {
        let whole = numbers(&parse(bytes));
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        for start in (0..text.len()).filter(|start| begins_a_figure(text.as_bytes(), *start)) {
            let length = text[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - start);
            for impossible in ["-1", "18446744073709551616", "99999999999999999999999999", "x"] {
                let parsed = parse(format!("{}{impossible}{}", &text[..start], &text[start + length..]).as_bytes());
                let made_up: Vec<_> = numbers(&parsed).difference(&whole).cloned().collect();
                assert!(made_up.is_empty(), "{name}: {impossible} at {start} gave {made_up:?}:\n{parsed}");
            }
        }
    });
}

/// Numbers that are a word of their own, or a value behind `=`; those inside names are none.
fn begins_a_figure(text: &[u8], start: usize) -> bool {
    let before = start.checked_sub(1).map_or(b'\n', |before| text[before]);
    text[start].is_ascii_digit() && matches!(before, b' ' | b'\t' | b'\n' | b'=')
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    use proptest::prelude::*;
    let piece = prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..12),
        2 => any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        3 => proptest::sample::select(vec![
            " ", "\n", "\t", ":", "|", "/", "-", ",", "=", "\\", "\\040", "cpu", "cpu0", "intr", "some", "full", "avg10=", "total=",
            "Tcp:", "Udp:", "TcpExt:", "IpExt:", "MemTotal:", "kB", "allocstall", "max", " - ", "Uid:", "CapEff:", "0", "-1",
            "18446744073709551616", "face |bytes packets errs drop fifo multicast|bytes packets errs drop fifo colls carrier\n",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let bytes = proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
    runner
        .run(&bytes, |bytes| {
            for (_, parse) in PARSERS {
                parse(&bytes);
            }
            Ok(())
        })
        .unwrap();
}

type Parser = fn(&[u8]) -> String;

const PARSERS: [(&str, Parser); 11] = [
    ("proc/stat", |bytes| format!("{:?} {:?}", cpu::parse_stat(bytes), cpu::parse_boot_time(bytes))),
    ("proc/loadavg", |bytes| format!("{:?}", cpu::parse_loadavg(bytes))),
    ("proc/meminfo", |bytes| filled(|memory| memory::parse_meminfo(bytes, memory))),
    ("proc/vmstat", |bytes| filled(|memory| memory::parse_vmstat(bytes, memory))),
    ("proc/pressure/io", |bytes| format!("{:?}", pressure::parse_pressure(bytes))),
    ("proc/diskstats", |bytes| {
        format!("{:?}", disk::parse_diskstats(bytes).map(|line| disk::DiskstatsLine { name: b"", ..line }).collect::<Vec<_>>())
    }),
    ("proc/net/dev", |bytes| {
        // Names apart: as bytes they are numbers, too.
        let figures = |line: network::DevLine<'_>| format!("{:?} {:?} {:?}", line.rx, line.tx, line.multicast);
        network::parse_dev(bytes).into_iter().flatten().map(figures).collect()
    }),
    ("proc/net/snmp", |bytes| format!("{:?} {:?}", network::parse_tcp(bytes), network::parse_udp(bytes))),
    ("proc/net/netstat", |bytes| format!("{:?} {:?}", network::parse_tcp_ext(bytes), network::parse_ip_octets(bytes))),
    ("proc/self/status", |bytes| format!("{:?}", host::parse_credentials(bytes))),
    ("", |bytes| {
        let mut group = group();
        parse_cpu_stat(bytes, &mut group);
        parse_memory_stat(bytes, &mut group);
        let passwd: Vec<_> = users::parse_passwd(bytes).collect();
        format!("{group:?} {:?} {:?} {:?} {passwd:?}", parse_cpu_max(bytes), parse_limit(bytes), mounts::parse_mountinfo(bytes))
    }),
];

fn every_proc_file(check: impl Fn(&str, &[u8], Parser)) {
    let mut checked = 0;
    for tree in TREES {
        for (file, parse) in PARSERS {
            let Ok(bytes) = fs::read(path(tree).join(file)) else { continue };
            check(&format!("{tree}/{file}"), &bytes, parse);
            checked += 1;
        }
    }
    assert!(checked > 40, "the trees are not where they should be");
}

fn filled(fill: impl FnOnce(&mut Memory)) -> String {
    let mut memory = Memory::default();
    fill(&mut memory);
    format!("{memory:?}")
}

fn group() -> Cgroup {
    Cgroup::new(stalltop::ids::CgroupId { version: stalltop::ids::CgroupVersion::V2, path: "/".into() })
}
