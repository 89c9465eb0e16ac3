//! Latencies of single requests (the eBPF program of assets/probe/block.bpf.c), against the disk that makes them and against fio.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stalltop::kernel::Root;
use stalltop::kernel::probe::block_latencies;

use crate::attempt::compare_until_equal;
use crate::harness::program;
use crate::proc::{READS_COMPLETED, diskstat};
use crate::scenario::{DISK_TOOLS, Lab};

const COLUMNS: &str = "name,r/s,r_await,r_p50,r_p99,r_seq";

/// Of a load that runs for 14 seconds, six: reads take 1 ms, each twentieth 40 ms. The time that FUSE and the loop device add is in
/// what fio measures, too.
#[test]
fn quantiles_of_a_disk_with_two_latencies() {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let program = Path::new(program());
    if let Err(why) = block_latencies::try_to_attach(&Root::host(), program) {
        return println!("skipped: {why}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let result = folder.path().join("fio.json");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/bimodal-disk.sh");
    compare_until_equal("two latencies", || {
        let mut scenario = lab.start_script(&script, 14, &[("KEEP", result.to_str().expect("a plain path"))]);
        scenario.until_ready();
        let device = scenario.device();
        scenario.until("reads", |_| diskstat(&device, READS_COMPLETED) > 1000);
        let table = Command::new(program)
            .args(["table", "disk", "6", "1", "--probes", "on", "--format", "json", "--columns", COLUMNS])
            .output()
            .expect("stalltop");
        let lines = String::from_utf8(table.stdout).expect("text");
        let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let row = rows.iter().find(|row| row["name"] == device.as_str()).expect("the device");
        scenario.until("has ended", |_| result.exists());
        drop(scenario);
        let fio: Value = serde_json::from_str(&fs::read_to_string(&result).expect("fio's figures")).expect("JSON");
        fs::remove_file(&result).expect("our own file");
        let truth = |share: &str| fio["jobs"][0]["read"]["clat_ns"]["percentile"][share].as_f64().expect("fio's figure") / 1e9;
        let ours = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let (p50, p99) = (ours("read_p50_seconds"), ours("read_p99_seconds"));
        println!("p50 {p50:.6} s, fio {:.6} s; p99 {p99:.6} s, fio {:.6} s", truth("50.000000"), truth("99.000000"));
        let is_near = |ours: f64, truth: f64| (ours / truth - 1.0).abs() < 0.1;
        let right = is_near(p50, truth("50.000000")) && is_near(p99, truth("99.000000")) && is_near(p99, 0.040);
        let is_random = ours("read_sequential_ratio") < 0.05;
        if right && (0.001..0.0015).contains(&p50) && is_random { Ok(()) } else { Err(format!("{row}")) }
    });
}
