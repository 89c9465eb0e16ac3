//! `table WHAT -- COMMAND`.

use crate::made::{run, stalltop};
use crate::output::texts_of;

#[test]
fn the_exit_code_of_the_command_is_returned() {
    let code = |command: &[&str]| run(&[&["table", "cpu", "--"], command].concat()).0;
    assert_eq!(code(&["true"]), 0);
    assert_eq!(code(&["sh", "-c", "exit 42"]), 42);
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]), 143);
    assert_eq!(code(&["/nonexistent/program"]), 127);
    assert_eq!(code(&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]), 126);
}

#[test]
fn the_command_inherits_standard_output_and_signals() {
    let (code, stdout, stderr) = run(&["table", "cpu", "--", "cat", "/proc/self/status"]);
    assert_eq!(code, 0);
    assert!(stdout.starts_with("Name:\tcat\n"), "{stdout}");
    let mask = |name: &str| {
        let line = stdout.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    // SIGHUP to SIGTERM, SIGPIPE, SIGXFSZ, unless the test itself inherited them as ignored.
    assert_eq!(mask("SigBlk"), 0);
    assert_eq!(mask("SigIgn") & (1 << 24), 0, "SIGXFSZ");
    assert!(stderr.contains("Total of ") && stderr.contains("s user"), "{stderr}");
}

#[test]
fn the_cost_includes_child_processes() {
    // A child of the shell copies zeros in small blocks: its CPU time has to be included.
    let script = "(dd if=/dev/zero of=/dev/null bs=512 count=400000 2>/dev/null); exit 3";
    let output = stalltop(&["table", "cpu", "--format", "json", "--", "sh", "-c", script]).output().unwrap();
    let (code, stdout, stderr) = texts_of(&output);
    assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
    let lines: Vec<serde_json::Value> = stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [total, cost] = lines.as_slice() else { panic!("{stderr}") };
    assert_eq!((&total["total"], &total["table"]), (&true.into(), &"cpu".into()));
    assert_eq!((&cost["table"], &cost["exit_code"]), (&"command".into(), &3.into()));
    let figure = |name: &str| cost[name].as_f64().unwrap();
    let used = figure("user_seconds") + figure("system_seconds");
    assert!(used > 0.01 && used <= figure("elapsed_seconds") * 1.5, "{stderr}");
    assert!((figure("cpu_ratio") - used / figure("elapsed_seconds")).abs() < 1e-6, "{stderr}");
    assert!(figure("minor_faults") > 10.0, "{stderr}");
    // The shell and dd are smaller than stalltop, from which the command was forked.
    assert_eq!(cost["max_resident_bytes"], serde_json::Value::Null, "{stderr}");
}

#[test]
fn max_resident_is_that_of_the_largest_process() {
    let script = "dd if=/dev/zero of=/dev/null bs=128M count=1 2>/dev/null; true";
    let output = stalltop(&["table", "cpu", "--format", "json", "--", "sh", "-c", script]).output().unwrap();
    let (code, _, stderr) = texts_of(&output);
    assert_eq!(code, 0, "{stderr}");
    let cost: serde_json::Value = serde_json::from_str(stderr.lines().last().unwrap()).expect(&stderr);
    let most = cost["max_resident_bytes"].as_f64().unwrap();
    assert!((134e6..200e6).contains(&most), "{stderr}");
}
