//! The protobuf format and its native histograms: decoded, scraped by a real Prometheus, and compared with `table disk` on a real
//! device. Needs the feature `native-histograms`.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{Histogram, MetricFamily, MetricType};
use prost::Message;
use stalltop::app::evaluation::SampleEvaluator;
use stalltop::app::serve::{Access, HttpServer, LatestMetrics, listen};
use stalltop::baseline::Baselines;
use stalltop::findings::Evaluator;
use stalltop::ids::DiskId;
use stalltop::interval::latency_histogram::LatencyHistogram;
use stalltop::report::openmetrics::{self, Exporter, Format, SamplingStatus};
use stalltop::sample::block_latencies::{BlockLatencies, LatencyBucket};
use stalltop::sample::disk::Operation;
use stalltop::units::Counter;

use crate::harness::program;
use crate::loop_device::LoopDevice;
use crate::prometheus_server::Prometheus;
use crate::serve::metrics::{RECORDINGS, exported, exported_of_huge_machine, has_promtool};
use crate::serve::probes::may_load;
use crate::serve::server::Server;
use crate::synthetic::{cpu_times, disk, host, latency_bucket, operations, sample};
use crate::until::until;

const NAME: &str = "stalltop_disk_request_duration_seconds";
const NATIVE: &str = "--enable-feature=native-histograms";

/// Half the width of an exponential bucket, for the interpolation of Prometheus, and the distance to the middle of ours.
const TOLERANCE: f64 = 0.045;

/// Share of the requests by which two definitions of a quantile may differ.
const OTHER_RANK: f64 = 0.003;

/// Families, each with its length before it.
fn decode(mut body: &[u8]) -> Vec<MetricFamily> {
    let mut families = Vec::new();
    while !body.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut body).unwrap());
    }
    families
}

/// Indices and counts of the buckets of spans and deltas, as Prometheus reads them.
fn buckets(histogram: &Histogram) -> Vec<(i32, u64)> {
    let (mut index, mut count) = (0, 0_i64);
    let mut deltas = histogram.positive_delta.iter();
    let mut buckets = Vec::new();
    for span in &histogram.positive_span {
        index += span.offset;
        for delta in deltas.by_ref().take(span.length as usize) {
            count += delta;
            buckets.push((index, u64::try_from(count).unwrap()));
            index += 1;
        }
    }
    assert_eq!(deltas.count(), 0, "spans and deltas have the same number of buckets");
    buckets
}

#[test]
fn a_decoder_reads_all_families_and_both_kinds_of_buckets() {
    let mut histograms = 0;
    let machines = RECORDINGS.iter().map(|recording| exported(recording)).chain([exported_of_huge_machine()]);
    for mut machine in machines {
        let families: Arc<[_]> = machine.pop().unwrap().into();
        let decoded = decode(&openmetrics::encode(&families, Format::Protobuf));
        assert_eq!(decoded.len(), families.len());
        for (decoded, family) in decoded.iter().zip(&*families) {
            assert_eq!((decoded.name.as_str(), decoded.metric.len()), (family.metric.name, family.series.len()));
            for (metric, (labels, value)) in decoded.metric.iter().zip(&family.series) {
                let read: Vec<(&str, String)> =
                    metric.label.iter().map(|label| (label.name.as_str(), label.value.clone())).collect();
                assert_eq!(read, labels.iter().map(|(name, value)| (*name, value.clone())).collect::<Vec<_>>());
                let openmetrics::Value::Histogram(expected) = value else {
                    let number = metric.gauge.as_ref().map(|gauge| gauge.value);
                    assert_eq!(number.or(metric.counter.as_ref().map(|counter| counter.value)), value.number());
                    continue;
                };
                assert_eq!(decoded.r#type(), MetricType::Histogram);
                let histogram = metric.histogram.as_ref().unwrap();
                let native: u64 = buckets(histogram).iter().map(|bucket| bucket.1).sum();
                assert_eq!((histogram.sample_count, native), (expected.requests(), expected.requests()));
                assert_eq!(histogram.bucket.last().map(|bucket| bucket.cumulative_count), Some(expected.requests()));
                histograms += 1;
            }
        }
    }
    assert_eq!(histograms, 6, "two disks with three operations");
}

/// The metrics after a second in which a disk has done these reads. Buckets as in `sample::block_latencies`.
fn metrics(exporter: &mut Exporter, buckets: &[(u8, u64)]) -> Vec<openmetrics::MetricFamily> {
    let at = |second: u64| {
        let times = cpu_times(second * 10, 0, second * 90, 0);
        let reads: u64 = buckets.iter().map(|bucket| bucket.1).sum();
        let machine = sample(second as f64).cpus([times]).disk(disk("vdz").id(8, 16).reads(operations(reads, 4, 1)));
        let bucket = |&(bucket, count): &(u8, u64)| LatencyBucket {
            on_device: Counter(count),
            ..latency_bucket(DiskId { major: 8, minor: 16 }, Operation::Read, bucket, count)
        };
        let counts = BlockLatencies { since_boottime_ns: 1, buckets: buckets.iter().map(bucket).collect() };
        machine.with(|sample| sample.block_latencies = Ok(counts)).shared()
    };
    let mut evaluator = SampleEvaluator::new(Arc::new(host()), Evaluator::new(Baselines::default()));
    let evaluation = (1..3).find_map(|second| evaluator.evaluate(at(second))).unwrap();
    exporter.metric_families(&evaluation, SamplingStatus::default())
}

fn agree(what: &str, prometheus: f64, ours: f64, tolerance: f64) {
    assert!((prometheus / ours - 1.0).abs() <= tolerance, "{what}: {prometheus} by Prometheus, {ours} by stalltop");
}

/// The counts before the first scrape differ from those of the interval, so that the quantile is of the rate, not of the sums.
#[test]
fn a_real_prometheus_computes_the_quantiles_of_the_interval() {
    if !has_promtool() {
        return;
    }
    let before = [(60, 9_000), (150, 500)];
    // No share is at the edge of a bucket, where the two may take another one.
    let interval = [(70, 595), (75, 365), (90, 35), (110, 4), (200, 1)];
    let mut after: Vec<(u8, u64)> = before.iter().chain(&interval).copied().collect();
    after.sort_unstable();

    let mut exporter = Exporter::new("1.2.3");
    let latest = LatestMetrics::new(Duration::from_secs(60));
    latest.set(metrics(&mut exporter, &before));
    let listener = listen("127.0.0.1:0".parse().unwrap(), false).ok().unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let _server = HttpServer::start(listener, Access::load(None).ok().unwrap(), latest.clone()).ok().unwrap();

    for options in [&[NATIVE][..], &[]] {
        latest.set(metrics(&mut exporter, &before));
        let folder = tempfile::tempdir().unwrap();
        let prometheus = Prometheus::start(folder.path(), address, options);
        let is_native = !options.is_empty();
        let count = if is_native { format!("histogram_count({NAME})") } else { format!("{NAME}_count") };
        let wait = |expected: u64| {
            prometheus.until("it has scraped", |prometheus| {
                prometheus.query(&count).filter(|&count| count == expected as f64).map(|_| ())
            })
        };
        wait(9_500);
        latest.set(metrics(&mut exporter, &after));
        wait(10_500);
        let series = if is_native { NAME.to_owned() } else { format!("{NAME}_bucket") };
        let expected = LatencyHistogram::new(interval);
        let answer = |share: f64| {
            let query = format!("histogram_quantile({share}, rate({series}{{device=\"vdz\",operation=\"read\"}}[1m]))");
            prometheus.until("a rate", |prometheus| prometheus.query(&query).filter(|value| value.is_finite()))
        };
        for share in [0.5, 0.95, 0.99] {
            let (theirs, ours) = (answer(share), expected.quantile(share).unwrap().0 / 1e3);
            println!("p{}: {:.4} ms by Prometheus {options:?}, {:.4} ms by stalltop", share * 100.0, theirs * 1e3, ours * 1e3);
            if is_native {
                agree("quantile", theirs, ours, TOLERANCE);
            } else {
                // A classic bucket is three times as wide as the one before.
                assert!(theirs > ours / 3.4 && theirs < ours * 3.4, "{theirs} {ours}");
            }
        }
        let recorded = format!("device_operation:{NAME}:p99_5m");
        let recorded = prometheus.until("the rule", |prometheus| prometheus.query(&recorded));
        agree("the rule", recorded, answer(0.99), 1e-6);
    }
}

/// `table disk` has an eBPF program of its own, and counts the same requests.
#[test]
fn on_a_real_device_prometheus_and_table_disk_have_the_same_quantile() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk");
    fs::File::create(&image).unwrap().set_len(160 << 20).unwrap();
    if !has_promtool() || !may_load() {
        return;
    }
    let Some(device) = LoopDevice::attach(&image, None) else {
        println!("skipped: no loop device");
        return;
    };
    let name = device.name();
    // Not auto, which detaches on a busy machine.
    let server = Server::spawn(&["--interval", "200ms", "--probes", "on"]);
    let write = |count: u32| {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=4k", "oflag=direct"]).arg(format!("of={}", device.path)).arg(format!("count={count}"));
        let output = dd.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // The program is attached after the server listens. A series must be in the first scrape already.
    let start = format!("{NAME}_count{{device=\"{name}\",operation=\"write\"}} ");
    let counted = || -> Option<f64> {
        let (_, _, body) = server.get("/metrics", "");
        body.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
    };
    until("the writes are counted", || {
        write(1);
        std::thread::sleep(Duration::from_millis(500));
        counted().is_some()
    });
    // On a busy machine the count may be older than the last write: one sample later it is not.
    let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let sampled = || -> Option<f64> {
        let (_, _, body) = server.get("/metrics", "");
        body.lines().find_map(|line| line.strip_prefix("stalltop_sample_timestamp_seconds ")?.parse().ok())
    };
    until("there is a sample after the last write", || sampled().is_some_and(|at| at > written + 0.2));
    let before = counted().unwrap();
    let prometheus = Prometheus::start(folder.path(), server.address, &[NATIVE]);
    let labels = format!("{{device=\"{name}\",operation=\"write\"}}");
    let count = |expected: f64| {
        prometheus.until("all requests", |prometheus| {
            prometheus.query(&format!("histogram_count({NAME}{labels})")).filter(|count| *count == expected)
        })
    };
    count(before);
    // Its program is attached while the shell sleeps.
    let mut table = Command::new(program());
    table.args("table disk --columns latency --format json --no-config --probes on -- sh -c".split(' '));
    // Of small requests a good part of the time would be that of the two programs.
    table.arg(format!("sleep 4; dd if=/dev/zero bs=128k oflag=direct of={} count=1000", device.path));
    // The figures of a command's run are written to standard error.
    let output = String::from_utf8(table.output().unwrap().stderr).unwrap();
    let mut rows = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let row = rows.find(|row| row["table"] == "disk" && row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("no row of {name}: {output}"));
    count(before + 1_000.0);
    let quantile = |share: f64| {
        let query = format!("histogram_quantile({share}, rate({NAME}{labels}[1m]))");
        prometheus.until("a rate", |prometheus| prometheus.query(&query).filter(|value| value.is_finite()))
    };
    for (share, key) in [(0.5, "write_p50_seconds"), (0.99, "write_p99_seconds")] {
        // Where few requests are so slow, the next one in order may have taken much longer.
        let (least, most) = (quantile(share - OTHER_RANK), quantile(share + OTHER_RANK));
        let ours = row[key].as_f64().unwrap();
        println!(
            "{key} of 1,000 writes: {:.4} to {:.4} ms by Prometheus, {:.4} ms by table disk",
            least * 1e3,
            most * 1e3,
            ours * 1e3
        );
        // The two programs end at slightly different times, and a request may be in the next bucket for one of them.
        let nearest = ours.clamp(least, most);
        agree(key, nearest, ours, 0.15);
    }
    let scrape = prometheus.query("quantile_over_time(0.5, scrape_duration_seconds[1m])").unwrap();
    println!("a scrape: {:.2} ms", scrape * 1e3);
}
