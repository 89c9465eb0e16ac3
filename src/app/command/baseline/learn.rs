//! `baseline learn`: measures the latency of single reads of a device, past the page cache, a few of them at a low rate. Refuses
//! a device that is in use, stalled or slow.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use super::{BaselineFile, block_device_id, device_path};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio;
use crate::app::program::threads::Worker;
use crate::baseline::{BaselineKey, DeviceIdentity, LatencyWindow, Observation, Quantiles, SizeClass};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::kernel::disk::{DiskReader, RandomReader, max_request_bytes};
use crate::kernel::{self, host};
use crate::report::formatting::printable;
use crate::sample::Sample;
use crate::sample::disk::Disk;
use crate::units::format::{latency, three_digits};
use crate::units::{Millis, SmallSort};

/// How long the device is observed before the first read.
const IDLE_CHECK_DURATION: Duration = Duration::from_secs(1);

/// The most time that the reads take, and the least time from the start of one read to the next.
const MAX_DURATION: Duration = Duration::from_secs(10);
const READ_PERIOD: Duration = Duration::from_millis(50);

/// Reads per observation; observations of each size class, one more than a baseline needs.
const READS_PER_OBSERVATION: usize = 5;
const OBSERVATIONS_PER_SIZE: usize = 11;

/// A read that takes longer is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// A device with a higher rate of requests is in use.
const IDLE_REQUESTS_PER_SECOND: f64 = 10.0;

pub fn learn(file: &BaselineFile, named: &str) -> Result<Exit, Failure> {
    let path = device_path(named);
    let refused = |why: &dyn std::fmt::Display, remedy: &str| {
        Failure::new(Exit::Refused, format!("cannot learn {}", quoted(&path)), why, remedy)
    };
    let id = block_device_id(&path).map_err(|error| refused(&error, "name a whole disk, such as /dev/sda"))?;
    let disk = match file.find_disk(named) {
        Some(disk) if disk.id == id => disk,
        Some(disk) => {
            let whole = String::from_utf8_lossy(disk.name.as_bytes()).into_owned();
            return Err(refused(&format!("it is a partition of {whole}"), &format!("name its disk: {whole}")));
        }
        None => return Err(refused(&"it is not in /proc/diskstats", "name a whole disk, such as /dev/sda")),
    };
    let reader = RandomReader::open(&path).map_err(|error| {
        let (why, remedy) = explain_open_error(&error, nix::unistd::geteuid().is_root());
        refused(&why, remedy)
    })?;
    let mut monitor = DiskMonitor::start(file);
    thread::sleep(IDLE_CHECK_DURATION);
    if let Some(why) = monitor.next_interval().and_then(|interval| reason_not_to_measure(file, &interval, &disk)) {
        return Err(refused(&why, "learn it when it is idle"));
    }
    let sizes = read_sizes(max_request_bytes(&file.root, disk.name.as_bytes()), reader.size_bytes());
    if sizes.is_empty() {
        return Err(refused(&"it has no data to read", "name a disk that has a size"));
    }
    let device = DeviceIdentity::from_disk(&disk);
    let name = String::from_utf8_lossy(disk.name.as_bytes()).into_owned();
    stdio::print_localized(&announcement(&name, &device, &sizes))?;
    let measured = measure(reader, &mut monitor, id, &sizes).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("stopped learning {}", quoted(&path)),
            error,
            "see what stalltop check reports for it",
        )
    })?;
    let observations: Vec<Observation> = measured.into_iter().map(|reads| observation(&name, &device, reads)).collect();
    let baselines = file.update(|baselines| {
        baselines.learn(&observations);
        baselines.clone()
    })?;
    let mut text = String::new();
    for (size, _) in sizes {
        let key = BaselineKey { device: device.clone(), operation: Operation::Read, size };
        let of_size = observations.iter().filter(|observation| observation.key == key);
        let mut latencies: Vec<f64> = of_size.map(|observation| observation.r#await.0).collect();
        latencies.small_sort_by(f64::total_cmp);
        let learned = baselines.get(&key);
        let baseline = learned.and_then(|learned| Some((learned.latency()?, learned.quantiles())));
        text.push_str(&size_class_line(&name, size, &latencies, baseline));
    }
    stdio::print_localized(&text).map(|_| Exit::Success)
}

/// Says what will be read, before the first read.
fn announcement(name: &str, device: &DeviceIdentity, sizes: &[(SizeClass, usize)]) -> String {
    let kib: Vec<String> = sizes.iter().map(|(_, bytes)| format!("{} KiB", bytes >> 10)).collect();
    format!(
        "{} ({}): at most {} single reads at random offsets, {} per second, for {} s at most, of {}; nothing is written\n",
        printable(name),
        printable(&device.0),
        sizes.len() * OBSERVATIONS_PER_SIZE * READS_PER_OBSERVATION,
        1000 / READ_PERIOD.as_millis(),
        MAX_DURATION.as_secs(),
        kib.join(", ")
    )
}

/// The observation of one group of reads, which took that long together.
fn observation(name: &str, device: &DeviceIdentity, (size, elapsed): (SizeClass, Duration)) -> Observation {
    let ms = elapsed.as_secs_f64() * 1000.0;
    Observation {
        key: BaselineKey { device: device.clone(), operation: Operation::Read, size },
        name: name.to_owned(),
        r#await: Millis(ms / READS_PER_OBSERVATION as f64),
        time_ms: ms,
        uncontended: true,
        light_load: true,
        rate: 1.0 / READ_PERIOD.as_secs_f64(),
        // Single blocks: no load to compare with.
        kib_per_second: 0.0,
        outstanding: ms / 1000.0 / (READ_PERIOD.as_secs_f64() * READS_PER_OBSERVATION as f64),
        // At most 55 reads of a size: too few for a p99.
        quantiles: None,
        at_s: kernel::now().realtime_ns.div_euclid(1_000_000_000),
    }
}

/// Why a device cannot be opened, and what to do.
fn explain_open_error(error: &io::Error, root: bool) -> (String, &'static str) {
    const SET_IT_BY_HAND: &str = "run it on the host, or set the latency by hand: stalltop baseline set --help";
    match error.raw_os_error() {
        // Not the mode or owner of the device node: those fail with EACCES.
        Some(libc::EPERM) => {
            (format!("{error}: the device cgroup of a container or a security module forbids it, to root too"), SET_IT_BY_HAND)
        }
        Some(libc::EACCES) if root => (format!("{error}: this root lacks CAP_DAC_OVERRIDE"), SET_IT_BY_HAND),
        Some(libc::EACCES) => (error.to_string(), "run as root, or as a member of the device's group"),
        _ => (error.to_string(), "a device without O_DIRECT cannot be measured"),
    }
}

/// The result of one size class, in a line.
fn size_class_line(name: &str, size: SizeClass, latencies: &[f64], baseline: Option<(Millis, Option<Quantiles>)>) -> String {
    let line = format!("{name} reads {:<6}", size.as_str());
    let (Some(lowest), Some(median), Some(highest)) = (latencies.first(), latencies.get(latencies.len() / 2), latencies.last())
    else {
        return format!("{line} not learned: other programs used the device all the time\n");
    };
    let line = format!(
        "{line} {} ({} to {}, {} times {READS_PER_OBSERVATION} reads)",
        latency(Millis(*median)),
        latency(Millis(*lowest)),
        latency(Millis(*highest)),
        latencies.len()
    );
    match baseline {
        None => format!("{line}: not enough yet: learn again\n"),
        Some((baseline, _)) if *median > 2.0 * baseline.0 => {
            let times = three_digits(median / baseline.0);
            format!(
                "{line}: {times} times its baseline of {}, not learned: if the baseline is wrong, forget it first\n",
                latency(baseline)
            )
        }
        Some((baseline, quantiles)) => {
            let of_requests = quantiles.map_or_else(String::new, |known| {
                format!(", of single requests p50 {}, p99 {}", latency(known.p50), latency(known.p99))
            });
            format!("{line}: its baseline is {}{of_requests}\n", latency(baseline))
        }
    }
}

/// A read of each size class that the device takes in one piece.
fn read_sizes(largest: Option<u64>, bytes: u64) -> Vec<(SizeClass, usize)> {
    let largest = largest.unwrap_or(128 << 10);
    let wanted = [(SizeClass::Small, 4 << 10), (SizeClass::Medium, 64 << 10), (SizeClass::Large, 512 << 10)];
    let fits = |(size, wanted): (SizeClass, u64)| {
        let read = wanted.min(largest) & !4095;
        let is_of_class = SizeClass::from_mean_kib(Some(read as f64 / 1024.0)) == size;
        (read > 0 && is_of_class && read <= bytes).then_some((size, usize::try_from(read).ok()?))
    };
    wanted.into_iter().filter_map(fits).collect()
}

/// Groups of reads, the sizes in turn, each with the time that its reads took. Groups with other requests to the device are
/// left out.
fn measure(
    mut reader: RandomReader,
    monitor: &mut DiskMonitor,
    id: DiskId,
    sizes: &[(SizeClass, usize)],
) -> Result<Vec<(SizeClass, Duration)>, io::Error> {
    let end = Instant::now() + MAX_DURATION;
    // On a thread of its own: a read may never return.
    let reader = Worker::start("reader", move |bytes| reader.timed_read(bytes)).map_err(io::Error::other)?;
    let read = |bytes: usize| {
        reader.send(bytes);
        reader.receive(READ_TIMEOUT).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => {
                Err(io::Error::other(format!("a read has not returned for {} s", READ_TIMEOUT.as_secs())))
            }
            RecvTimeoutError::Disconnected => Err(io::Error::other("the reading thread has panicked")),
        })
    };
    // The first reads may find the disk spun down, or a cold path. The slowest says how many sizes there is time for.
    let mut slowest = READ_PERIOD;
    for &(_, bytes) in sizes {
        slowest = slowest.max(read(bytes)?);
    }
    let groups = MAX_DURATION.as_millis() / (slowest.as_millis().max(1) * READS_PER_OBSERVATION as u128);
    let size_count = usize::try_from(groups).unwrap_or(usize::MAX) / OBSERVATIONS_PER_SIZE;
    let mut measured = Vec::new();
    for _ in 0..OBSERVATIONS_PER_SIZE {
        for &(size, bytes) in sizes.iter().take(size_count.max(1)) {
            monitor.next_interval();
            let mut elapsed = Duration::ZERO;
            for _ in 0..READS_PER_OBSERVATION {
                let started = Instant::now();
                if started + READ_PERIOD >= end {
                    return Ok(measured);
                }
                elapsed += read(bytes)?;
                thread::sleep(READ_PERIOD.saturating_sub(started.elapsed()));
            }
            let span = monitor.next_interval().and_then(|interval| interval.disks.iter().find(|span| span.id == id).cloned());
            if span.is_some_and(|span| span.completed() <= READS_PER_OBSERVATION as u64) {
                measured.push((size, elapsed));
            }
        }
    }
    Ok(measured)
}

/// Samples all devices on request.
struct DiskMonitor<'a> {
    file: &'a BaselineFile,
    reader: DiskReader,
    host: Arc<crate::sample::Host>,
    last_sample: Arc<Sample>,
}

impl DiskMonitor<'_> {
    fn start(file: &BaselineFile) -> DiskMonitor<'_> {
        let mut monitor = DiskMonitor {
            file,
            reader: DiskReader::default(),
            host: Arc::new(host::read(&file.root)),
            last_sample: Arc::new(Sample::empty(kernel::now())),
        };
        monitor.last_sample = monitor.sample();
        monitor
    }

    /// The interval since the last call; `None` where no time has passed.
    fn next_interval(&mut self) -> Option<Interval> {
        let now = self.sample();
        let interval = Interval::between(&self.host, &self.last_sample, &now);
        self.last_sample = now;
        interval
    }

    fn sample(&mut self) -> Arc<Sample> {
        let disks = self.reader.sample(&self.file.root);
        Arc::new(Sample { disks, ..Sample::empty(kernel::now()) })
    }
}

/// Why a device must not be measured now: it, or a device below it, is stalled, slow or in use.
fn reason_not_to_measure(file: &BaselineFile, interval: &Interval, disk: &Disk) -> Option<String> {
    let mut window = LatencyWindow::default();
    window.push(interval);
    let statuses = file.load().ok()?.latency_statuses(interval, &window);
    let of_one = |span: &DiskSpan| {
        let name = interval.newer.disks.as_ref().ok()?.get(span.index)?;
        let name = String::from_utf8_lossy(name.name.as_bytes()).into_owned();
        if span.stalled {
            return Some(format!("{name} has {} requests in flight and completes none", span.in_flight));
        }
        let mut learned = statuses.iter().filter(|status| status.disk == span.id && !status.provisional);
        if let Some(status) = learned.find(|status| status.window_multiple().is_some_and(|times| times >= 2.0)) {
            let (operations, times) = (status.operation.plural(), status.window_multiple().unwrap_or_default());
            return Some(format!("{name} is slow: {operations} take {times:.1} times their baseline"));
        }
        let rate = span.completed() as f64 / interval.seconds;
        let busy = span.busy.map_or(0.0, |busy| busy.0 * 100.0);
        let in_use = rate > IDLE_REQUESTS_PER_SECOND || span.in_flight > 0;
        in_use.then(|| format!("{name} is in use: {rate:.0} requests/s, busy {busy:.0} %, {} in flight", span.in_flight))
    };
    let mut below = vec![disk.id];
    let mut at = 0;
    while let Some(&id) = below.get(at) {
        at += 1;
        let lower = interval.newer.disks.iter().flatten().find(|disk| disk.id == id).map(|disk| disk.facts.slaves.clone());
        below.extend(lower.unwrap_or_default().into_iter().filter(|id| !below.contains(id)).collect::<Vec<_>>());
    }
    interval.disks.iter().filter(|span| below.contains(&span.id)).find_map(of_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_read_in_one_piece() {
        let kib = |largest: Option<u64>, bytes: u64| -> Vec<usize> {
            read_sizes(largest, bytes).into_iter().map(|(_, read)| read >> 10).collect()
        };
        assert_eq!(kib(Some(1280 << 10), 1 << 40), [4, 64, 512]);
        assert_eq!(kib(Some(256 << 10), 1 << 40), [4, 64, 256]);
        assert_eq!(kib(Some(128 << 10), 1 << 40), [4, 64], "a large read would be split");
        assert_eq!(kib(None, 1 << 40), [4, 64]);
        assert_eq!(kib(Some(512 << 10), 32 << 10), [4]);
        assert_eq!(kib(Some(512 << 10), 0), [0_usize; 0]);
    }

    #[test]
    fn root_is_not_advised_to_be_root() {
        let explained = |errno, root| {
            let (why, remedy) = explain_open_error(&io::Error::from_raw_os_error(errno), root);
            format!("{why}: {remedy}")
        };
        for (errno, root) in [(libc::EPERM, true), (libc::EPERM, false), (libc::EACCES, true)] {
            assert!(!explained(errno, root).contains("run as root"), "{}", explained(errno, root));
            assert!(explained(errno, root).contains("baseline set"), "{}", explained(errno, root));
        }
        assert!(explained(libc::EACCES, false).contains("run as root"));
        assert!(explained(libc::EINVAL, true).contains("O_DIRECT"));
    }

    #[test]
    fn the_result_of_each_size_class_is_a_line() {
        let line = |latencies: &[f64], baseline: Option<f64>| {
            size_class_line("sda", SizeClass::Small, latencies, baseline.map(|baseline| (Millis(baseline), None)))
        };
        let quantiles = Quantiles { p50: Millis(5.1), p99: Millis(9.0) };
        let with_quantiles = size_class_line("sda", SizeClass::Small, &[5.0], Some((Millis(5.2), Some(quantiles))));
        assert!(with_quantiles.ends_with("its baseline is 5.20 ms, of single requests p50 5.10 ms, p99 9.00 ms\n"));
        assert!(line(&[], None).contains("other programs used the device"));
        assert!(line(&[5.0, 5.2, 5.3], None).contains("5.20 ms (5.00 ms to 5.30 ms, 3 times 5 reads): not enough yet"));
        assert!(line(&[5.0, 5.2, 5.3], Some(5.2)).contains("its baseline is 5.20 ms"));
        assert!(line(&[12.0], Some(5.0)).contains("2.40 times its baseline of 5.00 ms, not learned"));
    }
}
