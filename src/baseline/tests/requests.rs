//! p50 and p99 of single requests: learning, what is not learned, and the file.

use super::*;
use crate::baseline::learned::MIN_TAIL_OBSERVATIONS;
use crate::baseline::request_latencies::MIN_TAIL_REQUESTS;
use crate::baseline::{Quantiles, RequestStatus};
use crate::interval::block_latencies::OperationLatency;
use crate::interval::latency_histogram::LatencyHistogram;

/// Buckets with the middle of 0.557 ms, 1.11 ms, 8.91 ms and 143 ms
const FAST: u8 = 80;
const FAST_TWICE: u8 = 88;
const SLOW: u8 = 112;
const SLOWER: u8 = 144;

const ENOUGH: usize = MIN_TAIL_OBSERVATIONS as usize;

fn latency(bucket: u8) -> Millis {
    LatencyHistogram::new([(bucket, 1)]).max().unwrap()
}

/// As the file has it.
fn stored(bucket: u8) -> Millis {
    Millis(f64::from(latency(bucket).0 as f32))
}

impl Bench {
    /// A second with reads of 1 ms by /proc/diskstats, whose latencies were measured.
    fn measured_second(&mut self, measured: &[(u8, u64)]) -> Interval {
        self.measured_interval(1000, measured)
    }

    fn measured_interval(&mut self, ms: u64, measured: &[(u8, u64)]) -> Interval {
        let completed = measured.iter().map(|bucket| bucket.1).sum();
        // The window of the bench sees an interval as it is made: here with what was measured.
        let window = self.window.clone();
        let mut interval = self.interval(ms, completed, 1);
        self.window = window;
        let none = LatencyHistogram::default;
        let total = LatencyHistogram::new(measured.iter().copied());
        let of_reads = OperationLatency { operation: Operation::Read, total, queue: none(), device: none(), sequential: 0 };
        interval.disks[0].latencies = vec![of_reads];
        self.window.push(&interval);
        interval
    }

    fn teach_measured(&mut self, intervals: usize, measured: &[(u8, u64)]) {
        for _ in 0..intervals {
            let interval = self.measured_second(measured);
            let observations = self.baselines.observations(&interval, &self.window);
            self.baselines.learn(&observations);
        }
    }

    fn requests(&mut self, measured: &[(u8, u64)]) -> Option<RequestStatus> {
        let interval = self.measured_second(measured);
        self.baselines.latency_statuses(&interval, &self.window).first().and_then(|status| status.requests)
    }

    fn quantiles(&self) -> Option<(Millis, Millis)> {
        self.learned().quantiles().map(|known| (known.p50, known.p99))
    }
}

#[test]
fn a_minute_with_enough_requests_makes_a_baseline_of_p50_and_p99() {
    let mut bench = Bench::new();
    bench.teach_measured(ENOUGH - 1, &[(FAST, 195), (SLOW, 5)]);
    assert_eq!(bench.quantiles(), None);
    bench.teach_measured(1, &[(FAST, 195), (SLOW, 5)]);
    assert_eq!(bench.quantiles(), Some((stored(FAST), stored(SLOW))));
    let status = bench.requests(&[(FAST, 160), (SLOWER, 40)]).unwrap();
    let window = status.window.unwrap();
    assert_eq!((window.requests, window.quantiles.p50, window.quantiles.p99), (200, latency(FAST), latency(SLOWER)));
    let lost = 40.0 * (latency(SLOWER).0 - stored(SLOW).0) / 1000.0;
    assert!((window.lost_seconds_per_second / lost - 1.0).abs() < 1e-9, "{window:?}");
    assert!((window.quantiles.multiples(&status.baseline).unwrap().0 - 1.0).abs() < 1e-6);
}

#[test]
fn the_requests_that_were_not_measured_lose_as_much_as_those_that_were() {
    let mut bench = Bench::new();
    bench.teach_measured(ENOUGH, &[(FAST, 200)]);
    let mut evaluated = |completed_by_measured: u64| {
        let window = bench.window.clone();
        let mut interval = bench.measured_second(&[(FAST, 160), (SLOWER, 40)]);
        bench.window = window;
        interval.disks[0].reads.completed *= completed_by_measured;
        bench.window.push(&interval);
        let statuses = bench.baselines.latency_statuses(&interval, &bench.window);
        statuses.first().unwrap().requests.unwrap().window.unwrap()
    };
    let (all, a_quarter) = (evaluated(1), evaluated(4));
    assert_eq!((a_quarter.requests, a_quarter.quantiles), (all.requests, all.quantiles));
    assert!((a_quarter.lost_seconds_per_second / all.lost_seconds_per_second - 4.0).abs() < 1e-9, "{a_quarter:?}");
}

#[test]
fn of_few_requests_several_seconds_make_one_observation_and_no_p99_is_evaluated() {
    let mut bench = Bench::new();
    bench.teach_measured(2 * ENOUGH - 1, &[(FAST, 50)]);
    assert_eq!(bench.quantiles(), None, "the last pair of seconds is not complete");
    bench.teach_measured(1, &[(FAST, 50)]);
    assert_eq!(bench.quantiles(), Some((stored(FAST), stored(FAST))));
    assert_eq!(bench.requests(&[(FAST, 98), (SLOWER, 1)]).unwrap().window, None);
    assert_eq!(bench.requests(&[(FAST, 98), (SLOWER, 2)]).unwrap().window.unwrap().requests, MIN_TAIL_REQUESTS);
}

#[test]
fn pauses_between_the_requests_of_a_device_do_not_keep_it_from_a_baseline() {
    let mut bench = Bench::new();
    for _ in 0..2 * ENOUGH {
        bench.teach_measured(1, &[(FAST, 50)]);
        bench.teach_measured(3, &[]);
    }
    assert_eq!(bench.quantiles(), Some((stored(FAST), stored(FAST))));
}

#[test]
fn short_intervals_are_evaluated_together_up_to_a_second() {
    let mut bench = Bench::new();
    bench.teach_measured(ENOUGH, &[(FAST, 200)]);
    let mut window = None;
    for _ in 0..10 {
        let interval = bench.measured_interval(100, &[(SLOW, 30)]);
        window = bench.baselines.latency_statuses(&interval, &bench.window).first().unwrap().requests.unwrap().window;
    }
    assert_eq!(window.unwrap().requests, 120, "the fewest that are enough");
}

#[test]
fn a_tail_does_not_become_its_own_baseline() {
    let mut bench = Bench::new();
    bench.teach_measured(ENOUGH, &[(FAST, 200)]);
    // 1 ms by the mean, and one request of ten takes 143 ms.
    bench.teach_measured(100, &[(FAST, 180), (SLOWER, 20)]);
    assert_eq!(bench.quantiles(), Some((stored(FAST), stored(FAST))));
}

/// The first seconds have no slow request by chance, and one in ten is slow from then on.
#[test]
fn a_few_seconds_without_slow_requests_do_not_decide_the_baseline() {
    let mut bench = Bench::new();
    bench.teach_measured(12, &[(FAST, 200)]);
    bench.teach_measured(100, &[(FAST, 180), (SLOWER, 20)]);
    assert_eq!(bench.quantiles(), Some((stored(FAST), stored(SLOWER))));
}

#[test]
fn a_device_with_one_observation_a_day_has_a_baseline_after_as_many_days() {
    let mut bench = Bench::new();
    let mut teach_days = |days: usize, bucket: u8| {
        for _ in 0..days {
            bench.teach_measured(1, &[(bucket, 200)]);
            bench.at_ms += 86_400_000;
        }
        let read = Baselines::from_bytes(&bench.baselines.to_bytes()).unwrap();
        assert_eq!(read, bench.baselines, "as many days in the file");
        bench.quantiles()
    };
    assert_eq!(teach_days(ENOUGH - 1, FAST), None);
    assert_eq!(teach_days(1, FAST), Some((stored(FAST), stored(FAST))));
    teach_days(2 * ENOUGH, FAST_TWICE);
    assert_eq!(teach_days(1, FAST_TWICE), Some((stored(FAST_TWICE), stored(FAST_TWICE))), "older days are dropped");
}

/// Of the days of a file with too many, the oldest are dropped.
#[test]
fn the_last_days_of_a_file_count() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.teach_measured(20, &[(FAST, 200)]);
        bench.at_ms += 86_400_000;
    }
    let text = String::from_utf8(bench.baselines.to_bytes()).unwrap();
    let at = text.find("quantile_days = [").expect("days") + "quantile_days = [".len();
    let days: String = (0..100).map(|day| format!("[{day}, 20, {:.1}, 9.0], ", if day < 90 { 1.0 } else { 5.0 })).collect();
    let read = Baselines::from_bytes(format!("{}{days}{}", &text[..at], &text[at..]).as_bytes()).unwrap();
    let known = read.iter().next().unwrap().1.quantiles().unwrap();
    assert_eq!(known.p50, Millis(5.0));
}

#[test]
fn a_baseline_set_by_hand_has_no_quantiles() {
    let mut bench = Bench::new();
    bench.teach_measured(ENOUGH, &[(FAST, 200)]);
    let key = bench.baselines.iter().next().unwrap().0.clone();
    bench.baselines.set(key, Millis(5.0));
    assert_eq!(bench.quantiles(), None);
}

#[test]
fn quantiles_survive_the_file_and_days() {
    let mut bench = Bench::new();
    for _ in 0..12 {
        bench.teach_measured(20, &[(FAST, 195), (SLOW, 5)]);
        bench.at_ms += 86_400_000;
    }
    let known = bench.quantiles();
    assert_eq!(known, Some((stored(FAST), stored(SLOW))));
    let bytes = bench.baselines.to_bytes();
    let read = Baselines::from_bytes(&bytes).unwrap();
    assert_eq!(read, bench.baselines);
    assert_eq!(read.iter().next().unwrap().1.quantiles(), bench.learned().quantiles());
}

#[test]
fn a_file_of_an_earlier_version_has_no_quantiles_and_fields_of_a_later_one_are_ignored() {
    let mut bench = Bench::new();
    bench.teach(20, 100, 7);
    let text = String::from_utf8(bench.baselines.to_bytes()).unwrap();
    assert!(!text.contains("p99") && !text.contains("quantile"), "{text}");
    let later = text.replacen("intervals = 20", "intervals = 20\np9999_days = [[1, 2, 3.0]]", 1);
    assert_ne!(later, text);
    assert_eq!(Baselines::from_bytes(later.as_bytes()).unwrap(), bench.baselines);
    assert_eq!(bench.quantiles(), None);
}

#[test]
fn values_of_a_damaged_file_make_no_multiple() {
    let zero = Quantiles { p50: Millis(0.0), p99: Millis(0.0) };
    assert_eq!(zero.multiples(&zero), None);
    let mut bench = Bench::new();
    bench.teach_measured(ENOUGH, &[(FAST, 200)]);
    let text = String::from_utf8(bench.baselines.to_bytes()).unwrap();
    let head = "[baseline.today.p99]\ncount = 60\nthinned = 0\nms = [";
    assert!(text.contains(head), "{text}");
    let damaged = text.replacen(head, &format!("{head}nan, -1.0, inf, "), 1);
    let read = Baselines::from_bytes(damaged.as_bytes()).unwrap();
    assert_eq!(read.iter().next().unwrap().1.quantiles(), bench.learned().quantiles());
}
