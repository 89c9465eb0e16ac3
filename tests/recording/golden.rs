//! Golden recordings replay as when they were made. Each is in tests/recordings/ with a text
//! of its contents; neither is changed once a version is released.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stalltop::interval::wait_counts::WaitCounts;
use stalltop::kernel::{Root, Sampler};
use stalltop::recording::{FrameSummary, HistoryRing, Meta, Redaction, Replayer, SummarySeverity, Tail};
use stalltop::report::missing::missing_readings;
use stalltop::sample::Sample;
use stalltop::sample::operations::Operations;
use stalltop::units::Counter;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// Sums over all tables, in a text that does not change when a later version has more fields.
fn summary(replayer: &mut Replayer) -> String {
    let mut text = String::new();
    let meta = replayer.meta();
    let kernel = String::from_utf8_lossy(meta.host.kernel.as_bytes()).into_owned();
    writeln!(text, "kernel {kernel}, {} CPUs, every {:?}", meta.host.topology.len(), meta.interval).unwrap();
    let host = meta.host.clone();
    for index in 0..replayer.len() {
        let sample = replayer.sample(index).unwrap();
        write!(text, "{index}: at {}/{}/{}", sample.at.boottime_ns, sample.at.monotonic_ns, sample.at.realtime_ns).unwrap();
        let cpu = sample.cpu.as_ref().unwrap();
        let (total, load) = (cpu.total, sample.load.unwrap());
        write!(text, "; cpu {} {} {} {}", total.user_ticks.0, total.system_ticks.0, total.idle_ticks.0, total.iowait_ticks.0)
            .unwrap();
        write!(text, "; switches {:?}; load {} {}/{}", cpu.context_switches, load.one, load.runnable, load.entities).unwrap();
        let memory = sample.memory.unwrap();
        write!(text, "; memory {:?} {:?} {:?}", memory.total_kb, memory.free_kb, memory.major_faults).unwrap();
        let pressure = sample.pressure.io.map(|stall| stall.some.map(|line| (line.avg10, line.total_us.0)));
        write!(text, "; io pressure {pressure:?}").unwrap();
        for disk in sample.disks.as_ref().unwrap() {
            let name = disk.name.as_bytes().escape_ascii();
            write!(text, "; disk {name} {} {} {}", disk.reads.completed.0, disk.writes.sectors.0, disk.io_ticks_ms.0).unwrap();
        }
        for nic in sample.nics.as_ref().unwrap() {
            let name = nic.id.name.as_bytes().escape_ascii();
            write!(text, "; nic {name} {} {} {:?}", nic.rx.bytes.0, nic.tx.packets.0, nic.facts.speed_mbps).unwrap();
        }
        let tasks = sample.tasks.as_ref().unwrap();
        let sum = |part: fn(&stalltop::sample::task::Process) -> u64| {
            tasks.processes.iter().map(|process| part(process)).fold(0u64, u64::wrapping_add)
        };
        let threads = sum(|process| process.threads.len() as u64);
        let run_ns =
            sum(|process| process.threads.iter().filter_map(|thread| thread.schedstat).map(|sched| sched.run_ns.0).sum());
        let names = sum(|process| u64::from(crc32c::crc32c(process.comm.as_bytes())));
        let channels = sum(|process| {
            let channels = process.threads.iter().filter_map(|thread| thread.wait.wchan.as_ref().ok());
            channels.map(|channel| u64::from(crc32c::crc32c(channel.as_bytes()))).sum()
        });
        write!(text, "; {} processes, {threads} threads, ticks {}", tasks.processes.len(), sum(|p| p.user_ticks.0)).unwrap();
        write!(text, ", run {run_ns}, clock {}", sum(|p| p.cpu_ns.map_or(0, |clock| clock.0))).unwrap();
        write!(text, ", resident {}, names {names:x}, channels {channels:x}", sum(|p| p.resident_pages)).unwrap();
        let counts = WaitCounts::new(&host, &sample.waits);
        let sightings: u32 = counts.threads.iter().map(|thread| thread.sub_sample_count()).sum();
        let inside: usize = counts.sub_samples.iter().map(Vec::len).sum();
        writeln!(text, "; {} sub-samples, {inside} groups in them, {sightings} sightings", sample.waits.sub_samples.len())
            .unwrap();
    }
    text
}

#[test]
fn golden_recordings_replay() {
    let mut recordings = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "stalltop") {
            let mut replayer = Replayer::open(&path).unwrap();
            assert_eq!(replayer.tail(), Tail::Closed, "{}", path.display());
            assert!(replayer.is_indexed());
            let expected = std::fs::read_to_string(path.with_extension("txt")).unwrap();
            assert_eq!(summary(&mut replayer), expected, "{}", path.display());
            assert_eq!(replayer.verify().unwrap(), replayer.len());
            assert_eq!(replayer.damage(), &[]);
            recordings += 1;
        }
    }
    assert!(recordings > 0);
}

/// `STALLTOP_GOLDEN=v1.0-linux-6.18 cargo test --test recording a_golden_recording_is_made` records this machine.
#[test]
fn a_golden_recording_is_made() {
    let Some(name) = std::env::var_os("STALLTOP_GOLDEN") else {
        println!("skipped: STALLTOP_GOLDEN names no file");
        return;
    };
    let path = directory().join(format!("{}.stalltop", name.display()));
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let meta = Meta {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: sampler.host().clone(),
        interval: Duration::from_millis(500),
        redaction: Redaction::Arguments,
        absent: missing_readings(&sampler.sample()).into_iter().map(|(what, why)| (what.to_owned(), why)).collect(),
    };
    let mut ring = HistoryRing::new(100, 16 << 20, meta.redaction);
    let mut samples: Vec<Arc<Sample>> = Vec::new();
    for _ in 0..8 {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(100));
            sampler.sub_sample();
        }
        std::thread::sleep(Duration::from_millis(100));
        let mut sample = sampler.sample();
        sample.operations =
            Ok(Operations { total: Counter(100 * samples.len() as u64), printed_boottime_ns: sample.at.boottime_ns });
        samples.push(Arc::new(sample));
    }
    let frame_summary = FrameSummary { busy: 9, blocked: 3, worst_severity: SummarySeverity::NoFinding };
    samples.iter().for_each(|sample| assert!(ring.push_with_summary(sample, frame_summary)));
    let mut bytes = Vec::new();
    ring.write_to(&mut bytes, &meta, &Default::default()).unwrap();
    stalltop::recording::save_recording(&path, &bytes).unwrap();
    let mut replayer = Replayer::open(&path).unwrap();
    for (index, original) in samples.iter().enumerate() {
        let replayed = replayer.sample(index).unwrap();
        assert_eq!((&replayed.cpu, &replayed.waits, &replayed.disks), (&original.cpu, &original.waits, &original.disks));
    }
    std::fs::write(path.with_extension("txt"), summary(&mut replayer)).unwrap();
}
