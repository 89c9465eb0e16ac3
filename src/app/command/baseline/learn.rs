//! `baseline learn`: measures what a device needs for one read at a time, when asked to. Single reads past the cache, few
//! and slowly, and none at all where the device has something to do or is in trouble.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{BaselineFile, block_device_id, device_path};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio;
use crate::baseline::{BaselineKey, DeviceIdentity, LatencyWindow, Observation, SizeClass};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::kernel::disk::{DiskReader, RandomReader, max_request_bytes};
use crate::kernel::{self, host};
use crate::sample::Sample;
use crate::sample::disk::Disk;
use crate::units::Millis;

/// How long the device is looked at before.
const IDLE_CHECK_DURATION: Duration = Duration::from_secs(1);

/// How long it is read from at most, and from the beginning of one read to the next at least.
const MAX_DURATION: Duration = Duration::from_secs(10);
const READ_PERIOD: Duration = Duration::from_millis(50);

/// Reads that make one lesson; lessons of each size class, one more than are needed.
const READS_PER_OBSERVATION: usize = 5;
const OBSERVATIONS_PER_SIZE: usize = 11;

/// No sound device needs so long for a read.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// A device that does more than this by itself is not alone.
const IDLE_REQUESTS_PER_SECOND: f64 = 10.0;

pub fn learn(shelf: &BaselineFile, named: &str) -> Result<Exit, Failure> {
    let path = device_path(named);
    let refused = |why: &dyn std::fmt::Display, remedy: &str| {
        Failure::new(Exit::Refused, format!("cannot learn {}", quoted(&path)), why, remedy)
    };
    let id = block_device_id(&path).map_err(|error| refused(&error, "name a whole disk, such as /dev/sda"))?;
    let disk = match shelf.find_disk(named) {
        Some(disk) if disk.id == id => disk,
        Some(disk) => {
            let whole = String::from_utf8_lossy(disk.name.as_bytes()).into_owned();
            return Err(refused(&format!("it is a partition of {whole}"), &format!("name its disk: {whole}")));
        }
        None => return Err(refused(&"it is not in /proc/diskstats", "name a whole disk, such as /dev/sda")),
    };
    let trial = RandomReader::open(&path).map_err(|error| {
        let (why, remedy) = explain_open_error(&error, nix::unistd::geteuid().is_root());
        refused(&why, remedy)
    })?;
    let mut watch = DiskMonitor::start(shelf);
    thread::sleep(IDLE_CHECK_DURATION);
    if let Some(trouble) = watch.next_interval().and_then(|interval| reason_not_to_measure(shelf, &interval, &disk)) {
        return Err(refused(&trouble, "learn it when it rests"));
    }
    let device = DeviceIdentity::from_disk(&disk);
    let name = String::from_utf8_lossy(disk.name.as_bytes()).into_owned();
    let sizes = read_sizes(max_request_bytes(&shelf.root, disk.name.as_bytes()), trial.size_bytes());
    if sizes.is_empty() {
        return Err(refused(&"there is nothing on it to read", "name a disk that holds something"));
    }
    let words: Vec<String> = sizes.iter().map(|(_, bytes)| format!("{} KiB", bytes >> 10)).collect();
    let most = sizes.len() * OBSERVATIONS_PER_SIZE * READS_PER_OBSERVATION;
    stdio::print_localized(&format!(
        "{name} ({}): at most {most} single reads at random places, {} a second, for {} s at most, of {}; nothing is written\n",
        device.0,
        1000 / READ_PERIOD.as_millis(),
        MAX_DURATION.as_secs(),
        words.join(", ")
    ))?;
    let lessons = measure(trial, &mut watch, id, &sizes).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("stopped learning {}", quoted(&path)),
            error,
            "look at what stalltop check says of it",
        )
    })?;
    let at_s = kernel::now().realtime_ns.div_euclid(1_000_000_000);
    let lesson = |(size, took): (SizeClass, Duration)| {
        let ms = took.as_secs_f64() * 1000.0;
        Observation {
            key: BaselineKey { device: device.clone(), operation: Operation::Read, size },
            name: name.clone(),
            r#await: Millis(ms / READS_PER_OBSERVATION as f64),
            time_ms: ms,
            uncontended: true,
            rate: 1.0 / READ_PERIOD.as_secs_f64(),
            outstanding: ms / 1000.0 / (READ_PERIOD.as_secs_f64() * READS_PER_OBSERVATION as f64),
            at_s,
        }
    };
    let lessons: Vec<Observation> = lessons.into_iter().map(lesson).collect();
    let known = shelf.update(|baselines| {
        baselines.learn(&lessons);
        baselines.clone()
    })?;
    let mut text = String::new();
    for (size, _) in sizes {
        let key = BaselineKey { device: device.clone(), operation: Operation::Read, size };
        let mut taken: Vec<f64> = lessons.iter().filter(|lesson| lesson.key == key).map(|lesson| lesson.r#await.0).collect();
        taken.sort_by(f64::total_cmp);
        text.push_str(&size_class_line(&name, size, &taken, known.get(&key).and_then(|learned| learned.latency())));
    }
    stdio::print_localized(&text).map(|_| Exit::Success)
}

/// Why a device cannot be opened, and what to do.
fn explain_open_error(error: &io::Error, root: bool) -> (String, &'static str) {
    const SET_IT_BY_HAND: &str = "run it on the host, or say what it answers in: stalltop baseline set --help";
    match error.raw_os_error() {
        // Its mode and owner are a matter of EACCES.
        Some(libc::EPERM) => {
            (format!("{error}: a container's list of devices or a security module bars it, from root too"), SET_IT_BY_HAND)
        }
        Some(libc::EACCES) if root => (format!("{error}: this root lacks CAP_DAC_OVERRIDE"), SET_IT_BY_HAND),
        Some(libc::EACCES) => (error.to_string(), "run as root, or as a member of the device's group"),
        _ => (error.to_string(), "a device that takes no O_DIRECT cannot be measured past the cache"),
    }
}

/// What came of one size class, in a line.
fn size_class_line(name: &str, size: SizeClass, taken: &[f64], baseline: Option<Millis>) -> String {
    let line = format!("{name} reads {:<6}", size.as_str());
    let (Some(lowest), Some(median), Some(highest)) = (taken.first(), taken.get(taken.len() / 2), taken.last()) else {
        return format!("{line} not learned: there was no undisturbed moment\n");
    };
    let line =
        format!("{line} {median:.3} ms ({lowest:.3} to {highest:.3}, {} times {READS_PER_OBSERVATION} reads)", taken.len());
    match baseline {
        None => format!("{line}: not enough yet, learn once more\n"),
        Some(baseline) if *median > 2.0 * baseline.0 => {
            let times = median / baseline.0;
            format!(
                "{line}: {times:.1} times its baseline of {:.3} ms, not learned: forget that first if it is wrong\n",
                baseline.0
            )
        }
        Some(baseline) => format!("{line}: its baseline is {:.3} ms\n", baseline.0),
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

/// Groups of reads, sizes in turn; those in which somebody else used the device are left out.
fn measure(
    trial: RandomReader,
    watch: &mut DiskMonitor,
    id: DiskId,
    sizes: &[(SizeClass, usize)],
) -> Result<Vec<(SizeClass, Duration)>, io::Error> {
    let end = Instant::now() + MAX_DURATION;
    let reader = ReadThread::start(trial)?;
    // The first read of each may find the device asleep, or a cold path: it tells how many sizes there is time for.
    let mut slowest = READ_PERIOD;
    for &(_, bytes) in sizes {
        slowest = slowest.max(reader.read(bytes)?);
    }
    let groups = MAX_DURATION.as_millis() / (slowest.as_millis().max(1) * READS_PER_OBSERVATION as u128);
    let fit = usize::try_from(groups).unwrap_or(usize::MAX) / OBSERVATIONS_PER_SIZE;
    let mut lessons = Vec::new();
    for _ in 0..OBSERVATIONS_PER_SIZE {
        for &(size, bytes) in sizes.iter().take(fit.max(1)) {
            watch.next_interval();
            let mut took = Duration::ZERO;
            for _ in 0..READS_PER_OBSERVATION {
                let begun = Instant::now();
                if begun + READ_PERIOD >= end {
                    return Ok(lessons);
                }
                took += reader.read(bytes)?;
                thread::sleep(READ_PERIOD.saturating_sub(begun.elapsed()));
            }
            let span = watch.next_interval().and_then(|interval| interval.disks.iter().find(|span| span.id == id).cloned());
            if span.is_some_and(|span| span.completed() <= READS_PER_OBSERVATION as u64) {
                lessons.push((size, took));
            }
        }
    }
    Ok(lessons)
}

/// Reads on a thread of its own: a read may never come back.
struct ReadThread {
    requests: Sender<usize>,
    results: Receiver<io::Result<Duration>>,
}

impl ReadThread {
    fn start(mut trial: RandomReader) -> io::Result<ReadThread> {
        let (orders, wanted) = channel();
        let (sender, done) = channel();
        let body = move || {
            for bytes in wanted {
                if sender.send(trial.timed_read(bytes)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("reader".to_owned()).spawn(body)?;
        Ok(ReadThread { requests: orders, results: done })
    }

    fn read(&self, bytes: usize) -> io::Result<Duration> {
        let gone = || io::Error::other("the reading thread has ended");
        self.requests.send(bytes).map_err(|_| gone())?;
        match self.results.recv_timeout(READ_TIMEOUT) {
            Ok(took) => took,
            Err(RecvTimeoutError::Timeout) => {
                Err(io::Error::other(format!("a read has not come back for {} s", READ_TIMEOUT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

/// Looks at all devices from time to time.
struct DiskMonitor<'a> {
    file: &'a BaselineFile,
    reader: DiskReader,
    host: Arc<crate::sample::Host>,
    last_sample: Arc<Sample>,
}

impl DiskMonitor<'_> {
    fn start(shelf: &BaselineFile) -> DiskMonitor<'_> {
        let mut watch = DiskMonitor {
            file: shelf,
            reader: DiskReader::default(),
            host: Arc::new(host::read(&shelf.root)),
            last_sample: Arc::new(Sample::empty(kernel::now())),
        };
        watch.last_sample = watch.sample();
        watch
    }

    /// Since the last look; `None` where no time has passed.
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

/// Why a device must be left alone now: itself, or one that it stands on.
fn reason_not_to_measure(shelf: &BaselineFile, interval: &Interval, disk: &Disk) -> Option<String> {
    let mut gathering = LatencyWindow::default();
    gathering.push(interval);
    let standings = shelf.load().ok()?.latency_statuses(interval, &gathering);
    let of_one = |span: &DiskSpan| {
        let name = interval.newer.disks.as_ref().ok()?.get(span.index)?;
        let name = String::from_utf8_lossy(name.name.as_bytes()).into_owned();
        if span.stalled {
            return Some(format!("{name} has {} requests in flight and completes none", span.in_flight));
        }
        let mut slow = standings.iter().filter(|standing| standing.disk == span.id && !standing.provisional);
        if let Some(standing) = slow.find(|standing| standing.window_multiple().is_some_and(|times| times >= 2.0)) {
            let (words, times) = (standing.operation.plural(), standing.window_multiple().unwrap_or_default());
            return Some(format!("{name} is in trouble: {words} take {times:.1} times their baseline"));
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
        let of = |largest: Option<u64>, bytes: u64| -> Vec<usize> {
            read_sizes(largest, bytes).into_iter().map(|(_, read)| read >> 10).collect()
        };
        assert_eq!(of(Some(1280 << 10), 1 << 40), [4, 64, 512]);
        assert_eq!(of(Some(256 << 10), 1 << 40), [4, 64, 256]);
        assert_eq!(of(Some(128 << 10), 1 << 40), [4, 64], "a large read would come as several");
        assert_eq!(of(None, 1 << 40), [4, 64]);
        assert_eq!(of(Some(512 << 10), 32 << 10), [4]);
        assert_eq!(of(Some(512 << 10), 0), [0_usize; 0]);
    }

    #[test]
    fn root_is_not_told_to_be_root() {
        let said = |errno, root| {
            let (why, remedy) = explain_open_error(&io::Error::from_raw_os_error(errno), root);
            format!("{why}: {remedy}")
        };
        for (errno, root) in [(libc::EPERM, true), (libc::EPERM, false), (libc::EACCES, true)] {
            assert!(!said(errno, root).contains("run as root"), "{}", said(errno, root));
            assert!(said(errno, root).contains("baseline set"), "{}", said(errno, root));
        }
        assert!(said(libc::EACCES, false).contains("run as root"));
        assert!(said(libc::EINVAL, true).contains("O_DIRECT"));
    }

    #[test]
    fn what_came_of_it_is_told() {
        let line = |taken: &[f64], baseline: Option<f64>| size_class_line("sda", SizeClass::Small, taken, baseline.map(Millis));
        assert!(line(&[], None).contains("no undisturbed moment"));
        assert!(line(&[5.0, 5.2, 5.3], None).contains("5.200 ms (5.000 to 5.300, 3 times 5 reads): not enough yet"));
        assert!(line(&[5.0, 5.2, 5.3], Some(5.2)).contains("its baseline is 5.200 ms"));
        assert!(line(&[12.0], Some(5.0)).contains("2.4 times its baseline of 5.000 ms, not learned"));
    }
}
