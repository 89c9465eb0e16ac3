//! `stalltop nicstat` on an interface that is full: the same 12 seconds by sar, within 2 % of each other.

use std::process::{Child, Command, Stdio};

use crate::attempt::{compare_until_equal, wait_for_quiet};
use crate::harness::program;
use crate::network::start_flows;
use crate::scenario::Lab;

const SECONDS: &str = "12";

/// The share by which two tools may differ on the same load: their samples are some milliseconds apart.
const TOLERANCE: f64 = 0.02;

fn begin(name: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(name);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn answer(child: Child) -> String {
    String::from_utf8(child.wait_with_output().expect("its output").stdout).expect("text")
}

/// A column of sar's last block, of labA.
fn sar(text: &str, column: &str) -> f64 {
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|line| line.starts_with("Average:")).map(|line| line.split_whitespace().collect()).collect();
    let head = lines.iter().find(|words| words.get(1) == Some(&"IFACE")).expect("sar's heading");
    let at = head.iter().position(|name| *name == column).expect("sar's column");
    let row = lines.iter().find(|words| words.get(1) == Some(&"labA")).expect("labA in sar");
    row[at].parse().expect("a number")
}

/// Both directions are limited to 100 Mbit/s, which -S says: the interface itself claims 10000.
#[test]
fn a_full_interface_has_the_figures_of_sar() {
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc", "ss", "sar"]) else { return };
    wait_for_quiet();
    let _scenario = start_flows(&lab, &[("MODE", "full")], 1.25e7);
    compare_until_equal("nicstat", compare);
}

fn compare() -> Result<(), String> {
    let nicstat = |options: &[&str]| {
        let fixed = ["--no-config", "nicstat", "-i", "labA", "-S", "labA:100fd"];
        begin(program(), &[&fixed, options, &[SECONDS, "2"]].concat())
    };
    let (plain, apart, theirs) = (nicstat(&["-p"]), nicstat(&["-U"]), begin("sar", &["-n", "DEV", SECONDS, "1"]));
    let (plain, apart, theirs) = (answer(plain), answer(apart), answer(theirs));

    // epoch:if:rKB:wKB:rPk:wPk:%Util:Sat
    let parts: Vec<&str> = plain.lines().last().expect("a line").split(':').collect();
    let ours = |at: usize| parts[at].parse::<f64>().expect("a number");
    // Time Int rKB/s wKB/s rPk/s wPk/s rAvs wAvs %rUtil %wUtil
    let words: Vec<&str> = apart.lines().last().expect("a line").split_whitespace().collect();
    let ours_apart = |at: usize| words[at].parse::<f64>().expect("a number");
    let (received, sent) = (sar(&theirs, "rxkB/s"), sar(&theirs, "txkB/s"));
    let percent = |kilobytes: f64| (kilobytes * 1024.0 * 800.0 / 1e8).min(100.0);
    let rows = [
        ("rKB/s", ours(2), received),
        ("wKB/s", ours(3), sent),
        ("rPk/s", ours(4), sar(&theirs, "rxpck/s")),
        ("wPk/s", ours(5), sar(&theirs, "txpck/s")),
        ("%Util", ours(6), percent(received.max(sent))),
        ("-U rKB/s", ours_apart(2), received),
        ("-U wKB/s", ours_apart(3), sent),
        ("%rUtil", ours_apart(8), percent(received)),
        ("%wUtil", ours_apart(9), percent(sent)),
    ];
    let table: String = rows.iter().map(|(name, ours, theirs)| format!("{name:10} {ours:10.2} {theirs:10.2}\n")).collect();
    println!("{:10} {:>10} {:>10}\n{table}", "", "nicstat", "sar");
    if let Some((name, ..)) = rows.into_iter().find(|(_, ours, theirs)| (ours - theirs).abs() > TOLERANCE * theirs) {
        return Err(format!("{name} is more than 2 % apart:\n{table}"));
    }
    if percent(sent) <= 90.0 {
        return Err(format!("it was not full:\n{table}"));
    }
    Ok(())
}
