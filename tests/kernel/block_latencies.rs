//! The program of disk latencies where it may take little of a CPU: it counts for a part of the time, and keeps what it has counted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stalltop::kernel::Root;
use stalltop::kernel::disk::DiskReader;
use stalltop::kernel::probe::block_latencies::{BlockLatencyReader, try_to_attach};

use crate::child_guard::ChildGuard;
use crate::loop_device::LoopDevice;
use crate::program::program;

const DEADLINE: Duration = Duration::from_secs(120);
/// Of one CPU: 800 requests a second.
const SHARE: f64 = 0.0001;

/// Reads that begin one after the other, until it is dropped.
fn start_reads(device: &str) -> ChildGuard {
    let script = format!("while dd if={device} of=/dev/null bs=4k iflag=direct; do :; done");
    ChildGuard(Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_limited_program_counts_for_a_part_of_the_time() {
    let program = Path::new(program());
    if let Err(why) = try_to_attach(&Root::host(), program) {
        return println!("skipped: {why}");
    }
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    std::fs::write(&image, vec![7; 1 << 24]).unwrap();
    let Some(device) = LoopDevice::attach(&image, None) else {
        return println!("skipped: needs losetup");
    };
    let mut disks = DiskReader::default();
    let mut latencies = BlockLatencyReader::start(&Root::host(), program.to_owned(), Some(SHARE));
    latencies.wait_until_attached(&Root::host()).unwrap();
    // Requests that were counted, and completed
    let mut read = || {
        let disks = disks.sample(&Root::host()).unwrap();
        let disk = disks.iter().find(|disk| disk.name.as_bytes() == device.name().as_bytes()).unwrap();
        let block_latencies = latencies.read(&disks).unwrap();
        let counted: u64 = block_latencies.of_disk(disk.id).iter().map(|bucket| bucket.completed.0).sum();
        (counted, disk.reads.completed.0)
    };
    let reads_before = read().1;
    let _reads = start_reads(&device.path);
    let begin = Instant::now();
    let mut was = read();
    let (mut left_out, mut counted_after) = (0, 0);
    while counted_after == 0 {
        assert!(begin.elapsed() < DEADLINE, "{was:?}, of which {left_out} were left out");
        thread::sleep(Duration::from_millis(50));
        let now = read();
        assert!(now.0 >= was.0, "what was counted is kept");
        match now.0 - was.0 {
            0 => left_out += now.1 - was.1,
            counted if left_out > 0 => counted_after = counted,
            _ => {}
        }
        was = now;
    }
    let completed = was.1 - reads_before;
    println!("{} of {completed} requests were counted", was.0);
    assert!(was.0 > counted_after && was.0 < completed, "{was:?} of {completed}");
}
