//! `stalltop nicstat`: every option on made-up counters, compared as text; and beside nicstat itself where it is installed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "nicstat/pairs.rs"]
mod pairs;
#[path = "support/proc_tree.rs"]
mod proc_tree;
#[path = "support/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proc_tree::ProcTree;
use program::program;

const HEAD: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
";

/// A gigabit card, a 100 GbE card, one with half duplex, a virtual one that does not know (−1), a bond of the first, a
/// VLAN of the second, a veth without a speed, one that never moved a packet, an alias, a long name.
const DEV: &str = "\
    lo: 1000000    1000    0    0    0     0          0         0  1000000    1000    0    0    0     0       0          0
  giga: 112500000000 987654321 11 22 33 44 0 55 9876543210 12345678 66 77 88 99 111 0
  huge: 9876543210000 9876543210 0 0 0 0 0 0 11234567890000 8876543210 0 0 0 0 0 0
  half: 5000000000 4000000 1000 2000 3000 0 0 0 6000000000 5000000 4000 5000 6000 7000 8000 0
 virtio: 4096000000 4000000 0 0 0 0 0 0 1024 1000000 0 0 0 0 0 0
 bond0: 112500000000 987654321 0 0 0 0 0 0 9876543210 12345678 0 0 0 0 0 0
huge.7: 1000000000000 1000000000 0 0 0 0 0 0 1000000000000 1000000000 0 0 0 0 0 0
  veth: 10240000 10000 0 0 0 0 0 0 20480000 20000 0 0 0 0 0 0
 silent: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
verylonginterfac: 1024000 1000 0 0 0 0 0 0 2048000 3000 0 0 0 0 0 0
";
const ALIAS: &str = "giga:1: 4200000 7000 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

const SNMP: &str = "\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs \
RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 1000000 2000000 3000 40000 5 16000000000 17000000 180000 9 1000 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 500000000 20 3000000 600000 100 2000 0 0 0
";
const NETSTAT: &str = "\
TcpExt: SyncookiesSent PAWSActive ListenOverflows ListenDrops TCPTimeouts
TcpExt: 0 0 3000000 5000000 7
IpExt: InNoRoutes InOctets OutOctets
IpExt: 0 10240000000 2048000000
";

/// What nicstat prints its lines for, in all its forms.
const FORMS: &[&str] = &[
    "",
    "-x",
    "-a",
    "-s",
    "-U",
    "-M",
    "-m",
    "-p",
    "-xp",
    "-tp",
    "-up",
    "-pa",
    "-xU",
    "-xUp",
    "-Up",
    "-sp",
    "-xM",
    "-n",
    "-z",
    "-zi giga,lo",
    "-ti giga",
    "-si giga",
    "-xs",
    "-sM",
    "-aM",
    "-sxU",
    "-tx",
    "-tui lo",
    "-sz",
    "-i lo,lo",
    "-Mp",
    "-t",
    "-u",
    "-tu",
    "-nx",
];

/// What /sys says of an interface: a card has speed and duplex; one may stand on another.
fn interface(tree: &ProcTree, name: &str, index: u32, link: Option<(&str, &str)>, below: Option<&str>) {
    let folder = format!("sys/class/net/{name}");
    tree.write(format!("{folder}/ifindex"), format!("{index}\n"));
    if let Some((speed, duplex)) = link {
        tree.write(format!("{folder}/speed"), format!("{speed}\n"));
        tree.write(format!("{folder}/duplex"), format!("{duplex}\n"));
        tree.write(format!("{folder}/operstate"), "up\n");
        fs::create_dir_all(tree.path(format!("{folder}/device"))).unwrap();
    }
    if let Some(below) = below {
        fs::create_dir_all(tree.path(format!("{folder}/lower_{below}"))).unwrap();
    }
}

fn machine(dev: &str) -> ProcTree {
    let tree = ProcTree::empty();
    tree.write("proc/net/dev", format!("{HEAD}{dev}"));
    tree.write("proc/net/snmp", SNMP);
    tree.write("proc/net/netstat", NETSTAT);
    // So long ago that the fraction of a second by which the old program is off makes no digit another one.
    tree.write("proc/uptime", "10000000.00 1.00\n");
    tree.write("proc/stat", "cpu  1 1 1 1\nbtime 1700000000\n");
    let cards = [("giga", "1000", "full"), ("huge", "100000", "full"), ("half", "100", "half"), ("virtio", "-1", "unknown")];
    for (index, (name, speed, duplex)) in (2..).zip(cards) {
        interface(&tree, name, index, Some((speed, duplex)), None);
    }
    for (index, (name, below)) in (10..).zip([("bond0", Some("giga")), ("huge.7", Some("huge")), ("veth", None)]) {
        interface(&tree, name, index, None, below);
    }
    tree
}

fn nicstat(root: &Path, options: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.arg("--root").arg(root).arg("nicstat").args(options.split_whitespace()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), timeless(&text(output.stdout)), text(output.stderr))
}

/// The time of day and the epoch are the only parts that are not the counters'.
fn timeless(text: &str) -> String {
    let clock = |word: &str| word.len() == 8 && word.split(':').all(|part| part.len() == 2 && part.parse::<u8>().is_ok());
    let line = |line: &str| match (line.get(..8), line.split_once(':')) {
        (Some(first), _) if clock(first) => format!("HH:MM:SS{}", &line[8..]),
        (_, Some((epoch, rest))) if epoch.len() == 10 && epoch.parse::<u64>().is_ok() => format!("EPOCH:{rest}"),
        _ => line.to_owned(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn every_form_prints_the_expected_text() {
    let root = machine(&format!("{DEV}{ALIAS}"));
    let mut all = String::new();
    let more = ["-l", "-S virtio:10000,giga:1:10", "-xS half:100fd,huge:25000", "-US veth:100h", "-lS veth:10h,half:100x"];
    for options in FORMS.iter().chain(&more) {
        let (code, text, said) = nicstat(root.directory(), options);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{options}");
        all += &format!("### nicstat {options}\n{text}");
    }
    insta::assert_snapshot!(all);
}

#[test]
fn wrong_arguments_give_one_line() {
    let root = machine(DEV);
    for (options, code) in [
        ("0", 1),
        ("x", 1),
        ("-1", 1),
        ("1 -1", 1),
        ("1 x", 1),
        ("-Q", 1),
        ("-i", 1),
        ("-S giga", 2),
        ("-S giga:0", 2),
        ("-i nope", 2),
        ("-ni lo", 2),
    ] {
        let (exit, text, said) = nicstat(root.directory(), options);
        assert_eq!((exit, text.as_str(), said.lines().count()), (Some(code), "", 1), "{options}: {said}");
    }
    assert!(nicstat(root.directory(), "-i nope").2.contains("no matching interface"));
}

/// `-p` as scripts take it apart: epoch:int:rKB:wKB:rPk:wPk:%Util:Sat.
#[test]
fn the_parsable_output_has_its_columns() {
    let root = machine(&format!("{DEV}{ALIAS}"));
    for (options, columns) in [("-p", 8), ("-px", 13), ("-pt", 12), ("-pu", 6)] {
        let (_, text, _) = nicstat(root.directory(), options);
        for line in text.lines() {
            let parts: Vec<&str> = line.split(':').collect();
            assert_eq!(parts.len(), columns, "{line}");
            let numbers = parts.iter().skip(2).filter(|part| **part != "-");
            assert!(numbers.clone().count() > 0 && numbers.into_iter().all(|part| part.parse::<f64>().is_ok()), "{line}");
        }
    }
}

#[test]
fn a_link_named_nicstat_runs_nicstat() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("nicstat");
    std::os::unix::fs::symlink(program(), &link).unwrap();
    let output = Command::new(link).args(["-l"]).output().unwrap();
    if output.stderr.ends_with(b"no matching interface\n") {
        return println!("skipped: no interface is up here");
    }
    assert!(output.stdout.starts_with(b"Int      Loopback"), "{output:?}");
}

/// The old program, on the same files: /proc is theirs in a mount namespace of its own.
#[test]
fn compat_is_what_nicstat_prints() {
    let old = |root: &Path, options: &str| {
        let script = "mount --bind \"$0/proc\" /proc && exec nicstat \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(root).args(options.split_whitespace());
        command.stdin(Stdio::null()).output()
    };
    let root = machine(DEV);
    match old(root.directory(), "-v") {
        Ok(output) if output.stdout.starts_with(b"nicstat version 1.95") => {}
        _ => return println!("skipped: needs root, unshare and nicstat 1.95"),
    }
    // The names here are no interfaces of this machine: no driver says what their speed is.
    fs::remove_dir_all(root.directory().join("sys")).unwrap();
    for options in FORMS.iter().chain(&["-l", "-i nope", "-S giga:100", "-n -i lo", "-S giga", "-S giga:x"]) {
        let theirs = old(root.directory(), options).unwrap();
        let (code, ours, _) = nicstat(root.directory(), &format!("--compat {options}"));
        let options = if options.is_empty() { "no options" } else { options };
        assert_eq!(ours, timeless(&String::from_utf8_lossy(&theirs.stdout)), "{options}");
        assert_eq!(code, theirs.status.code(), "{options}");
    }
}
