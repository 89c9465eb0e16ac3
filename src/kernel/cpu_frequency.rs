//! Reads the frequency of the CPUs, of some CPUs in each sample, since each has a file of its own. Where there is no cpufreq, as
//! in most virtual machines, /proc/cpuinfo has the frequency that the hypervisor reports.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::cost_pacer::CostPacer;
use super::fields::{lines, parse_non_negative_f64, parse_u32, words};
use super::root::Root;
use crate::ids::CpuId;
use crate::sample::cpu::{CpuFrequency, CpuTimes};
use crate::sample::{Absent, Reading};

/// CPUs that are read in a sample: each costs some microseconds.
const CPUS_A_SAMPLE: usize = 8;
/// The next reading comes after this many times the time that the last one took. From Linux 4.13 to 5.17 a reading on x86 sleeps for 10 to
/// 20 ms, and interrupts an idle CPU: then the rest waits, too.
const INTERVAL_PER_TIME: u32 = 1000;
const MAX_TIME: Duration = Duration::from_millis(1);
/// Time between two readings of /proc/cpuinfo, and the most CPUs with which it is read: it has a kilobyte for each.
const CPUINFO_PERIOD: Duration = Duration::from_secs(60);
const MAX_CPUINFO_CPUS: usize = 64;

/// The frequencies as last read.
#[derive(Debug, Default)]
pub struct FrequencyReader {
    /// The CPU that was read last
    last: Option<CpuId>,
    known: BTreeMap<CpuId, KnownFrequency>,
    /// No CPU has a cpufreq directory.
    has_no_cpufreq: bool,
    pacer: CostPacer,
    cpuinfo_read: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct KnownFrequency {
    khz: u32,
    /// 0 where it is not known
    max_khz: u32,
    read_s: u32,
}

impl FrequencyReader {
    /// The frequencies of these online CPUs; empty where the kernel does not report them.
    /// `boottime_ns`: that of the sample.
    pub fn sample(
        &mut self,
        root: &Root,
        online: &[(CpuId, CpuTimes)],
        (now, boottime_ns): (Instant, u64),
    ) -> Vec<CpuFrequency> {
        let read_s = u32::try_from(boottime_ns / 1_000_000_000).unwrap_or(u32::MAX);
        if self.has_no_cpufreq {
            self.read_cpuinfo(root, online.len(), (now, read_s));
        } else {
            self.read_cpufreq(root, online, (now, read_s));
        }
        let row = |(&cpu, known): (&CpuId, &KnownFrequency)| {
            let &KnownFrequency { khz, max_khz, read_s } = known;
            CpuFrequency { cpu, khz, max_khz, read_s }
        };
        self.known.iter().map(row).collect()
    }

    fn read_cpufreq(&mut self, root: &Root, online: &[(CpuId, CpuTimes)], (now, read_s): (Instant, u32)) {
        self.known.retain(|id, _| online.binary_search_by_key(id, |(online, _)| *online).is_ok());
        if !self.pacer.is_due(now) {
            return;
        }
        let begin = Instant::now();
        let mut is_missing = true;
        let first = self.last.map_or(0, |last| online.partition_point(|(id, _)| *id <= last));
        for (id, _) in online.iter().cycle().skip(first).take(CPUS_A_SAMPLE.min(online.len())) {
            self.last = Some(*id);
            // The highest one does not change.
            let max_khz =
                self.known.get(id).map(|known| known.max_khz).or_else(|| read_khz(root, *id, "cpuinfo_max_freq").ok());
            let current = read_khz(root, *id, "scaling_cur_freq");
            is_missing &= matches!(current, Err(Absent::NoSuchFile));
            match current.ok() {
                Some(khz) => self.known.insert(*id, KnownFrequency { khz, max_khz: max_khz.unwrap_or(0), read_s }),
                None => self.known.remove(id),
            };
            if begin.elapsed() >= MAX_TIME {
                break;
            }
        }
        self.pacer.schedule_next(now, begin.elapsed(), INTERVAL_PER_TIME);
        // A reading that fails once says nothing of the driver.
        self.has_no_cpufreq = is_missing && self.known.is_empty();
    }

    fn read_cpuinfo(&mut self, root: &Root, cpus: usize, (now, read_s): (Instant, u32)) {
        let is_due = self.cpuinfo_read.is_none_or(|read| now.saturating_duration_since(read) >= CPUINFO_PERIOD);
        if is_due && cpus <= MAX_CPUINFO_CPUS {
            self.cpuinfo_read = Some(now);
            let frequencies = root.read_once("proc/cpuinfo").map(|text| parse_cpuinfo(&text)).unwrap_or_default();
            let known = |(cpu, khz)| (cpu, KnownFrequency { khz, max_khz: 0, read_s });
            self.known = frequencies.into_iter().map(known).collect();
        }
    }
}

/// A file of the cpufreq directory of a CPU.
fn read_khz(root: &Root, cpu: CpuId, file: &str) -> Reading<u32> {
    let text = root.read_once(format!("sys/devices/system/cpu/cpu{}/cpufreq/{file}", cpu.0))?;
    lines(&text).next().and_then(|line| words(line).next()).and_then(parse_u32).ok_or(Absent::Malformed)
}

/// The lines `processor` and `cpu MHz` (x86) of each CPU; in kHz.
fn parse_cpuinfo(text: &[u8]) -> BTreeMap<CpuId, u32> {
    let mut found = BTreeMap::new();
    let mut cpu = None;
    for line in lines(text) {
        let mut parts = line.splitn(2, |&byte| byte == b':').map(<[u8]>::trim_ascii);
        match (parts.next(), parts.next()) {
            (Some(b"processor"), Some(number)) => cpu = parse_u32(number),
            (Some(b"cpu MHz"), Some(mhz)) => {
                let khz = parse_non_negative_f64(mhz).map(|mhz| (mhz * 1000.0) as u32);
                found.extend(cpu.map(CpuId).zip(khz));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn cpuinfo_has_a_frequency_for_each_cpu() {
        let text =
            b"processor\t: 0\nmodel name\t: x\ncpu MHz\t\t: 2649.996\n\nprocessor\t: 3\ncpu MHz\t\t: 800.5\n\nprocessor\t: 4\n";
        let found: Vec<(u32, u32)> = parse_cpuinfo(text).into_iter().map(|(cpu, khz)| (cpu.0, khz)).collect();
        assert_eq!(found, [(0, 2_649_996), (3, 800_500)]);
        assert!(parse_cpuinfo(b"cpu MHz : 5\nprocessor : x\n").is_empty());
    }

    #[test]
    fn a_tree_with_cpufreq_is_read_and_one_without_has_no_frequencies() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let online = [(CpuId(0), CpuTimes::default()), (CpuId(1), CpuTimes::default())];
        assert_eq!(FrequencyReader::default().sample(&root, &online, (Instant::now(), 0)), []);
        for (cpu, khz) in [(0, "3400000\n"), (1, "broken")] {
            tree.write(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"), khz);
            tree.write(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), "3500000\n");
        }
        assert_eq!(
            FrequencyReader::default().sample(&root, &online, (Instant::now(), 7_900_000_000)),
            [CpuFrequency { cpu: CpuId(0), khz: 3_400_000, max_khz: 3_500_000, read_s: 7 }]
        );
    }

    #[test]
    fn with_many_cpus_some_are_read_in_each_sample() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let online: Vec<(CpuId, CpuTimes)> = (0..20).map(|cpu| (CpuId(cpu), CpuTimes::default())).collect();
        let write = |khz: u32| {
            for (cpu, _) in &online {
                tree.write(format!("sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu.0), format!("{khz}\n"));
            }
        };
        let mut reader = FrequencyReader::default();
        let begin = Instant::now();
        // Hours apart, so that the time that a reading takes has no effect.
        let mut sample = |hour: u64, online: &[(CpuId, CpuTimes)]| -> Vec<u32> {
            let frequencies = reader.sample(&root, online, (begin + Duration::from_secs(3600 * hour), 0));
            frequencies.iter().map(|frequency| frequency.khz).collect()
        };
        write(1);
        let first = sample(0, &online).len();
        assert!((1..=CPUS_A_SAMPLE).contains(&first), "{first}");
        write(2);
        assert_eq!(sample(0, &online), vec![1; first], "the next reading is not due");
        // Each goes on where the last one ended.
        let all = (1..=40).map(|hour| sample(hour, &online)).last();
        assert_eq!(all, Some(vec![2; 20]));
        assert_eq!(sample(41, &online[..2]).len(), 2, "the others are offline");
    }
}
