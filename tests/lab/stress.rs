//! The monitor on an overloaded machine: 16 CPU hogs, 2,000 forks per second, neighbours that thrash below a memory limit, and a
//! stalled disk. Its samples are on schedule, or say how late they are.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use stalltop::recording::Replayer;
use stalltop::sample::Sample;
use stalltop::units::Counter;

use crate::disk_load::{Cgroup, DiskLoad, Load};
use crate::harness::program;
use crate::proc::{IN_FLIGHT, WRITES_COMPLETED, diskstat};

/// The duration; the disk is stalled from a third to two thirds of it.
const SECONDS: u64 = 18;

/// The delay from which a sample must report that it is late.
const MOST_MS: f64 = 100.0;

const HOGS: u32 = 16;
const FORKS: u32 = 2_000;

#[test]
fn samples_are_on_time_or_have_their_delay() {
    let Some(mut ground) = DiskLoad::open() else { return };
    let state = tempfile::tempdir().expect("a folder");
    let Some(group) = Cgroup::make("memory", "stalltop-stress") else { return };
    group.write("memory.limit_in_bytes", &(32 << 20).to_string());
    let writers = ground.start("direct", 8);
    ground.until(WRITES_COMPLETED, 50);
    // They map more than their limit of a file on a disk of this machine.
    let thrashing = Load::start(ground.load("faults", state.path(), 4));
    group.add_process(thrashing.pid());
    let hogs = ground.start("hogs", HOGS);
    let storm = ground.start("storm", FORKS);

    let file = state.path().join("stress.rec");
    let mut command = Command::new(program());
    command.args(["record", "--for", &format!("{SECONDS}s")]).arg(&file).env("XDG_STATE_HOME", state.path());
    let recording = Load::start_silent(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let third = Duration::from_secs(SECONDS / 3);
    let hardware = ground.hardware();
    std::thread::sleep(third);
    kill(hardware, Signal::SIGSTOP).expect("our own disk");
    std::thread::sleep(third);
    let unanswered = diskstat(&ground.device, IN_FLIGHT);
    kill(hardware, Signal::SIGCONT).expect("our own disk");
    let ended = recording.ended();
    assert!(ended.success(), "{ended}");
    drop((storm, hogs, thrashing, writers));

    let mut replayer = Replayer::open(&file).expect("its recording");
    let samples: Vec<Arc<Sample>> = (0..replayer.len()).map(|at| replayer.sample(at).expect("a sample")).collect();
    let lost: u64 = replayer.gaps().iter().map(|gap| gap.lost_samples).sum();
    was_in_trouble(&samples, unanswered);
    on_their_seconds(&samples, lost);
}

/// The load, by the recording itself.
fn was_in_trouble(samples: &[Arc<Sample>], unanswered: u64) {
    let (first, last) = (samples.first().expect("a sample"), samples.last().expect("a sample"));
    let seconds = last.at.seconds_since(first.at);
    let forks = |sample: &Sample| sample.cpu.as_ref().ok().and_then(|cpu| cpu.forks).expect("/proc/stat");
    let forks = forks(last).since(forks(first)).expect("forks") as f64 / seconds;
    let mean =
        |of: &dyn Fn(&Sample) -> u32| samples.iter().map(|sample| f64::from(of(sample))).sum::<f64>() / samples.len() as f64;
    let running = mean(&|sample| sample.cpu.as_ref().ok().and_then(|cpu| cpu.running).unwrap_or_default());
    let reclaimed = |sample: &Sample| sample.memory.as_ref().ok().and_then(|memory| memory.major_faults).unwrap_or(Counter(0));
    let faults = reclaimed(last).since(reclaimed(first)).unwrap_or_default() as f64 / seconds;
    println!("{seconds:.0} s: {forks:.0} forks/s, {running:.1} runnable, {faults:.0} major faults/s, {unanswered} unanswered");
    assert!(forks > f64::from(FORKS) * 0.8, "{forks:.0} forks per second");
    assert!(running > f64::from(HOGS), "{running:.1} runnable threads");
    assert!(faults > 10.0, "{faults:.0} major faults per second");
    assert!(unanswered >= 4, "{unanswered} requests in flight");
}

/// The due time of each sample, and its time.
fn on_their_seconds(samples: &[Arc<Sample>], lost: u64) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let first = samples.first().expect("a sample");
    let origin = first.at.boottime_ns - first.cost.start_delay_ns;
    // The second comes after a quarter of one, and the last when the time is over: they stand on no whole second.
    let regular = samples.get(2..samples.len() - 1).expect("samples");
    let (mut latest, mut left_out) = (0.0_f64, 0);
    for sample in regular {
        let due = sample.at.boottime_ns - sample.cost.start_delay_ns;
        let second = (due - origin + 500_000_000) / 1_000_000_000;
        let beside = ms(due.abs_diff(origin + second * 1_000_000_000));
        latest = latest.max(ms(sample.cost.start_delay_ns));
        left_out += u64::from(sample.cost.skipped_samples);
        assert!(beside <= MOST_MS, "stands {beside:.0} ms beside its second, and says {:.0}", ms(sample.cost.start_delay_ns));
    }
    let late = regular.iter().filter(|sample| ms(sample.cost.start_delay_ns) > MOST_MS).count();
    println!("{} samples, {late} late, the latest {latest:.0} ms; {lost} missed, {left_out} left out", regular.len());
    // One per second, and each missing one is recorded.
    let told = regular.len() as u64 + lost + left_out;
    assert!(told + 2 >= SECONDS - 1, "{told} samples of {SECONDS} s, with those that are said to be missing");
}
