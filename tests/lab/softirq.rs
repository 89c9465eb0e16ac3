//! A CPU that softirqs fill: no thread causes it, and the scheduler cannot move them.

use std::path::Path;

use crate::attempt::Attempt;
use crate::proc::{Ticks, read};
use crate::scenario::Lab;

/// 117,000 packets per second through 1,500 filters. mpstat -P ALL: CPU 1 99 to 100 % soft, CPU 0 40 to 60 % busy with the
/// sender, which mostly sleeps when the clock ticks.
#[test]
fn a_core_saturated_by_softirqs() {
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc", "taskset"]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/softirq.sh");
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start_script(&script, 120, &[]);
    let second = || Ticks::parse(&read("/proc/stat"), "cpu1");
    let mut before = second();
    scenario.until("fills CPU 1, or cannot", |scenario| {
        let ticks = second().since(before);
        if ticks.all() >= 50 {
            before = second();
        }
        ticks.all() >= 50 && ticks.share(ticks.interrupts) > 0.9 || scenario.said().contains("skipped: ")
    });
    if let Some(why) = scenario.said().lines().find(|line| line.contains("skipped: ")) {
        println!("{why}");
        return;
    }
    Attempt::new("softirq", state.path()).check(|window, said| {
        let core = window.ticks("cpu1");
        window.known("softirqs of CPU 1", core.share(core.interrupts), 0.93, 1.0);
        window.known("busy", window.ticks("cpu").busy(), 0.5, 0.87);
        let full = said.must("saturated-core", "cpu1", "warning");
        said.value(&full, 0.93, 1.0);
        said.evidence(&full, "softirq_ratio", core.share(core.interrupts) - 0.05, 1.0);
        said.says(&full, &["CPU 1", "softirq", "packets from labA, not a thread"]);
        for kind in ["saturated-thread", "idle-but-blocked", "load-not-cpu"] {
            said.must_not(kind);
        }
        // The reader has the CPU time that softirqs and the sender leave: what it does not read in time is dropped.
        if window.udp("RcvbufErrors") > 5000.0 {
            said.must("udp-overflow", "host", "warning");
        }
        // The sender runs between two ticks; the reader may wait for the softirqs.
        said.nothing_wrong_but(&["saturated-core", "hidden-cpu", "cpu-saturated", "udp-overflow"]);
    });
}
