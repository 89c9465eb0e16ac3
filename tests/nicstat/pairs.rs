//! nicstat on two samples: its lines when an interface is full, appears, vanishes, is reset or wraps; and `-p` as scripts parse it.

use std::io::Write;
use std::process::{Command, Stdio};

use super::proc_tree::ProcTree;
use super::{HEAD, interface};
use stalltop::interval::network::Link;
use stalltop::kernel::network::NetworkReader;
use stalltop::report::nicstat::arithmetic::{Arithmetic, Elapsed, interface_lines, tcp_line, udp_line};
use stalltop::report::nicstat::{Options, Printer, SampleFigures, SampleTime};

/// Interfaces: index, speed, duplex, what it stands on.
const FACTS: &[(&str, u32, &str, &str, Option<&str>)] = &[
    ("huge0", 2, "100000", "full", None),
    ("half0", 3, "100", "half", None),
    ("virtio0", 4, "-1", "unknown", None),
    ("what0", 5, "", "", None),
    ("bond0", 6, "", "", Some("huge0")),
    ("huge0.7", 7, "", "", Some("huge0")),
    ("veth0", 8, "", "", None),
    ("gone0", 9, "1000", "full", None),
    ("new0", 10, "1000", "full", None),
    ("again0", 11, "1000", "full", None),
    ("wrap0", 12, "1000", "full", None),
];

/// One second apart. 100 GbE sends 40 and receives 10 of its 100 Gbit/s; the half duplex card is full when both directions are
/// added; virtio and an unknown one move 1 MiB; again0's driver was loaded anew; wrap0 counts in 32 bits and wrapped.
const BEFORE: &str = "\
huge0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
half0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 5 0 0
virtio0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
what0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
bond0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
huge0.7: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
veth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
gone0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
again0: 900000 9000 9 9 9 0 0 0 900000 9000 9 9 9 9 9 0
wrap0: 4294966272 4294967290 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
huge0:1: 1000 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0
";
const AFTER: &str = "\
huge0: 1250001000 1000010 0 0 0 0 0 0 5000002000 4000020 0 0 0 0 0 0
half0: 6001000 4010 10 20 30 0 0 0 7002000 5020 40 50 60 75 80 0
virtio0: 1049576 1034 0 0 0 0 0 0 1050576 1044 0 0 0 0 0 0
what0: 1049576 1034 0 0 0 0 0 0 1050576 1044 0 0 0 0 0 0
bond0: 1250001000 1000010 0 0 0 0 0 0 5000002000 4000020 0 0 0 0 0 0
huge0.7: 625001000 500010 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
veth0: 1049576 1034 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
new0: 5000000 5000 0 0 0 0 0 0 5000000 5000 0 0 0 0 0 0
again0: 2000 20 0 0 0 0 0 0 3000 30 0 0 0 0 0 0
wrap0: 1024 10 0 0 0 0 0 0 3024 21 0 0 0 0 0 0
huge0:1: 103400 110 0 0 0 0 0 0 0 0 0 0 0 0 0 0
";

fn lay_out(tree: &ProcTree, dev: &str, segments: u64) {
    tree.write("proc/net/dev", format!("{HEAD}{dev}"));
    let (sent, again) = (segments * 20, segments);
    tree.write(
        "proc/net/snmp",
        format!(
            "Tcp: ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts\n\
             Tcp: {segments} {segments} 1 2 3 {sent} {sent} {again} 0 2\n\
             Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
             Udp: {sent} 0 {segments} {sent} 0 0\n"
        ),
    );
    tree.write("proc/net/netstat", "TcpExt: ListenOverflows ListenDrops\nTcpExt: 3 5\nIpExt: InOctets OutOctets\nIpExt: 0 0\n");
    for (name, index, speed, duplex, below) in FACTS {
        let link = (!speed.is_empty()).then_some((*speed, *duplex));
        interface(tree, name, *index, link, *below);
    }
}

/// The lines of the second sample with these options.
fn second(options: Options) -> String {
    let snapshot = |dev: &str, segments: u64| {
        let tree = ProcTree::empty();
        lay_out(&tree, dev, segments);
        let (mut reader, root) = (NetworkReader::default(), tree.root());
        (reader.sample(&root).unwrap(), reader.protocols(&root))
    };
    let ((older, protocols_before), (newer, protocols)) = (snapshot(BEFORE, 100), snapshot(AFTER, 200));
    let since = Elapsed { since_older: 1.0, since_boot: 1e6 };
    let link =
        |nic: &stalltop::sample::network::Nic| Link { speed_mbps: nic.facts.speed_mbps.ok(), duplex: nic.facts.duplex.ok() };
    let figures = SampleFigures {
        tcp: tcp_line(Some(&protocols_before), &protocols, since, Arithmetic::Fixed),
        udp: udp_line(Some(&protocols_before), &protocols, since, Arithmetic::Fixed),
        interfaces: interface_lines(Some(&older), &newer, since, Arithmetic::Fixed, link),
    };
    Printer::new(options).sample(&SampleTime { clock: "HH:MM:SS".to_owned(), epoch: 1_800_000_000 }, &figures)
}

#[test]
fn two_samples_give_the_expected_lines() {
    let plain = Options::default();
    let option_sets = [
        ("", plain),
        ("-x", Options { extended: true, ..plain }),
        ("-U", Options { both_utilizations: true, ..plain }),
        ("-M", Options { megabits: true, ..plain }),
        ("-s", Options { summary: true, ..plain }),
        ("-z", Options { skip_zero: true, ..plain }),
        ("-tu", Options { tcp: true, udp: true, ..plain }),
        ("-p", Options { parseable: true, ..plain }),
        ("-a -p", Options { parseable: true, extended: true, tcp: true, udp: true, ..plain }),
    ];
    let text: String =
        option_sets.iter().map(|(words, options)| format!("### nicstat {words}\n{}", second(*options))).collect();
    insta::assert_snapshot!(text);
}

/// What a pipe of shell tools makes of lines; `None` where there is no such shell.
fn piped(script: &str, lines: &str) -> Option<String> {
    let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(lines.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// As they stand in wikis and cron jobs: awk with -F:, cut, and a shell's read.
#[test]
fn scripts_can_parse_the_parsable_output() {
    let lines = second(Options { parseable: true, ..Options::default() });
    let scripts = [
        // Interfaces with more than 30 % utilization.
        ("awk -F: '$7 > 30 { printf \"%s=%s \", $2, $7 }'", "huge0=40.0 half0=100 bond0=40.0"),
        // The sum of what was received and sent by cards, in MB.
        ("awk -F: '$2 ~ /^(huge0|half0)$/ { r += $3; w += $4 } END { printf \"%.0f %.0f\", r / 1024, w / 1024 }'", "1198 4775"),
        // One column of one interface: 20 + 30 + 50 + 60 lost, 70 collisions, 80 times no carrier.
        ("grep ':half0:' | cut -d: -f8", "310.0"),
        // All of one line by name.
        (
            "while IFS=: read -r epoch int rkb wkb rpk wpk util sat; do [ $int = virtio0 ] && echo $epoch $rkb $wpk $util $sat; done; true",
            "1800000000 1024.0 1024.0 - 0.00",
        ),
        // As many columns in each line, whatever an alias is called.
        ("awk -F: '{ print NF }' | sort -u", "8"),
    ];
    for (script, expected) in scripts {
        match piped(script, &lines) {
            Some(answer) => assert_eq!(answer, expected, "{script}\n{lines}"),
            None => println!("skipped: {script}"),
        }
    }
}
