//! `--otlp`: what a collector receives, decoded by OpenTelemetry's own messages for Python. Needs the feature `otlp`.

use std::process::Command;

#[cfg(not(feature = "otlp"))]
use crate::harness::program;

#[cfg(not(feature = "otlp"))]
#[test]
fn without_the_feature_the_option_says_what_to_do() {
    let mut command = Command::new(program());
    let output = command.args(["serve", "--listen", "127.0.0.1:0", "--otlp", "http://localhost"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("--features otlp") && said.lines().count() == 1, "{said}");
}

#[cfg(feature = "otlp")]
mod with_otlp {
    use std::collections::{BTreeMap, BTreeSet};
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpStream;
    use std::path::Path;
    use std::process::Stdio;
    use std::sync::mpsc::{Receiver, channel};

    use serde_json::Value;
    use stalltop::app::evaluation::SampleEvaluator;
    use stalltop::baseline::Baselines;
    use stalltop::findings::Evaluator;
    use stalltop::recording::Replayer;
    use stalltop::report::openmetrics::{Exporter, SamplingStatus};
    use stalltop::report::otlp::{FindingLogRecords, TelemetryResource, metrics_request};

    use super::*;
    use crate::child_guard::ChildGuard;
    use crate::serve::metrics::exported_of_huge_machine;
    use crate::serve::server::{PATIENCE, Server};

    /// It ends with the test.
    struct Collector {
        _child: ChildGuard,
        lines: Receiver<String>,
        port: u16,
    }

    impl Collector {
        /// `None` where Python or its packages are missing.
        fn start(statuses: &[&str]) -> Option<Collector> {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/serve/otlp_collector.py");
            let mut command = Command::new("python3");
            command.arg(script).args(statuses).stdout(Stdio::piped()).stderr(Stdio::null());
            let Ok(mut child) = command.spawn() else {
                println!("skipped: python3 is not installed");
                return None;
            };
            let output = BufReader::new(child.stdout.take()?).lines();
            let (sender, lines) = channel();
            // It reads until the collector has ended.
            std::thread::spawn(move || output.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
            let Ok(port) = lines.recv_timeout(PATIENCE) else {
                println!("skipped: python3 has no opentelemetry-proto (pip install opentelemetry-proto)");
                let _ = child.kill();
                let _ = child.wait();
                return None;
            };
            Some(Collector { _child: ChildGuard(child), lines, port: port.parse().unwrap() })
        }

        /// The next request of this path.
        fn next(&mut self, path: &str) -> Value {
            loop {
                let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no request of {path}: {error}"));
                let line: Value = serde_json::from_str(&line).unwrap();
                if line["path"] == path {
                    return line;
                }
            }
        }

        /// What it decodes of a request that stalltop would send.
        fn decode(&mut self, path: &str, body: &[u8]) -> Value {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            write!(stream, "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
            stream.write_all(body).unwrap();
            self.next(path)["request"].clone()
        }
    }

    fn source() -> TelemetryResource {
        TelemetryResource { host: "web1".to_owned(), version: "1.2.3" }
    }

    /// Attributes by their names.
    fn attributes(value: &Value) -> BTreeMap<&str, &str> {
        let pairs = value["attributes"].as_array().into_iter().flatten();
        pairs.map(|pair| (pair["key"].as_str().unwrap(), pair["value"]["stringValue"].as_str().unwrap_or("a number"))).collect()
    }

    /// Metrics by their names.
    fn metrics(request: &Value) -> BTreeMap<&str, &Value> {
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let by_name: BTreeMap<&str, &Value> = metrics.iter().map(|metric| (metric["name"].as_str().unwrap(), metric)).collect();
        assert_eq!(by_name.len(), metrics.len(), "no name comes twice");
        by_name
    }

    fn points<'a>(metrics: &BTreeMap<&str, &'a Value>, name: &str) -> Vec<&'a Value> {
        let metric = metrics.get(name).unwrap_or_else(|| panic!("{name} of {:?}", metrics.keys()));
        let data = ["sum", "gauge", "exponentialHistogram"].iter().find_map(|kind| metric.get(*kind)).unwrap();
        data["dataPoints"].as_array().unwrap().iter().collect()
    }

    fn replay(recording: &str, mut each: impl FnMut(&stalltop::findings::Evaluation)) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(recording);
        let mut replayer = Replayer::open(&path).unwrap();
        let mut evaluator = SampleEvaluator::new(replayer.host(0), Evaluator::new(Baselines::default()));
        for index in 0..replayer.len() {
            if let Some(evaluation) = evaluator.evaluate(replayer.sample(index).unwrap()) {
                each(&evaluation);
            }
        }
    }

    #[test]
    fn the_page_has_the_names() {
        let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/serve.md")).unwrap();
        let table = stalltop::report::otlp::names_table();
        assert!(page.contains(&table), "docs/serve.md must have\n{table}");
    }

    #[test]
    fn metrics_have_the_names_units_and_kinds_of_the_conventions() {
        let Some(mut collector) = Collector::start(&[]) else { return };
        let (mut exporter, mut start, mut last) = (Exporter::new("1.2.3"), None, Vec::new());
        let mut number = 0;
        replay("tests/recordings/lab/15-lock-convoy.stalltop", |evaluation| {
            let families = exporter.metric_families(evaluation, SamplingStatus::default());
            let at = evaluation.interval.at();
            last = metrics_request(&families, &source(), at, *start.get_or_insert(at));
            number = families.iter().map(|family| family.series.len()).sum();
        });
        let request = collector.decode("/v1/metrics", &last);
        let resource = attributes(&request["resourceMetrics"][0]["resource"]);
        assert_eq!((resource["service.name"], resource["host.name"]), ("stalltop", "web1"));
        let metrics = metrics(&request);
        let all: usize = metrics.keys().map(|name| points(&metrics, name).len()).sum();
        assert_eq!(all, number, "every series is a data point");
        for (name, unit, is_sum) in [
            ("system.cpu.time", "s", true),
            ("system.cpu.logical.count", "{cpu}", true),
            ("system.disk.operations", "{operation}", true),
            ("system.disk.operation_time", "s", true),
            ("system.disk.io", "By", true),
            ("system.network.io", "By", true),
            ("stalltop.idle.blocked_seconds", "s", true),
            ("stalltop.idle.blocked_ratio", "1", false),
        ] {
            let Some(metric) = metrics.get(name) else { panic!("{name} of {:?}", metrics.keys()) };
            assert_eq!((metric["unit"].as_str(), metric.get("sum").is_some()), (Some(unit), is_sum), "{name}");
        }
        let modes: BTreeSet<&str> =
            points(&metrics, "system.cpu.time").iter().map(|point| attributes(point)["cpu.mode"]).collect();
        assert_eq!(modes, ["idle", "interrupt", "iowait", "nice", "softirq", "steal", "system", "user"].into());
        let time = &metrics["system.cpu.time"]["sum"];
        assert!(
            time["isMonotonic"] == true && time["aggregationTemporality"] == "AGGREGATION_TEMPORALITY_CUMULATIVE",
            "{time}"
        );
        let times = |name: &str, key: &str| points(&metrics, name)[0][key].as_str().unwrap().parse::<u64>().unwrap();
        let (boot, begin) = (times("system.disk.io", "startTimeUnixNano"), times("system.cpu.time", "startTimeUnixNano"));
        assert!(0 < boot && boot < begin && begin < times("system.cpu.time", "timeUnixNano"), "{boot} {begin}");
        for point in points(&metrics, "system.disk.operations") {
            assert!(matches!(attributes(point)["disk.io.direction"], "read" | "write"), "{point}");
        }
        let operations = points(&metrics, "stalltop.disk.operations");
        assert!(operations.iter().any(|point| attributes(point)["stalltop.operation"] == "flush"), "{operations:?}");
    }

    #[test]
    fn latencies_are_exponential_histograms() {
        let Some(mut collector) = Collector::start(&[]) else { return };
        let families = exported_of_huge_machine().pop().unwrap();
        let at = stalltop::sample::Instant::default();
        let request = collector.decode("/v1/metrics", &metrics_request(&families, &source(), at, at));
        let metrics = metrics(&request);
        let requests = "stalltop.disk.request_duration_seconds";
        assert_eq!(metrics[requests]["unit"], "s");
        for point in points(&metrics, requests) {
            let count = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
            let buckets = point["positive"]["bucketCounts"].as_array().unwrap();
            assert_eq!(buckets.iter().map(count).sum::<u64>(), count(&point["count"]), "{point}");
            // The mean is in the range of the buckets: 2^(index / 16) seconds.
            let bound = |index: f64| libm::exp2((point["positive"]["offset"].as_f64().unwrap() + index) / 16.0);
            let mean = point["sum"].as_f64().unwrap() / count(&point["count"]) as f64;
            assert!(point["scale"] == 4 && bound(0.0) < mean && mean <= bound(buckets.len() as f64), "{mean}: {point}");
        }
    }

    #[test]
    fn findings_are_log_records_when_they_begin_and_end() {
        let Some(mut collector) = Collector::start(&[]) else { return };
        let (mut log, mut requests) = (FindingLogRecords::default(), Vec::new());
        replay("tests/recordings/lab/15-lock-convoy.stalltop", |evaluation| {
            requests.extend(log.request(evaluation, &source()))
        });
        let mut active = BTreeSet::new();
        let mut blocked = None;
        for body in requests {
            let request = collector.decode("/v1/logs", &body);
            let records = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().clone();
            for record in records {
                let attributes = attributes(&record);
                let key = (attributes["stalltop.finding.kind"].to_owned(), attributes["stalltop.finding.subject"].to_owned());
                match record["eventName"].as_str().unwrap() {
                    "stalltop.finding.began" => assert!(active.insert(key.clone()), "{record}"),
                    "stalltop.finding.changed" => assert!(active.contains(&key), "{record}"),
                    "stalltop.finding.ended" => assert!(active.remove(&key), "{record}"),
                    other => panic!("{other}"),
                }
                if key.0 == "idle-but-blocked" && record["severityText"] == "critical" {
                    blocked = Some(record);
                }
            }
        }
        let record = blocked.expect("the lock convoy");
        assert_eq!(record["severityNumber"], "SEVERITY_NUMBER_ERROR");
        let sentence = record["body"]["stringValue"].as_str().unwrap();
        assert!(sentence.contains("idle but blocked") && sentence.contains("fsync"), "{sentence}");
    }

    #[test]
    fn a_collector_that_refuses_at_first_gets_metrics_later_and_the_scrape_goes_on() {
        let Some(mut collector) = Collector::start(&["503"]) else { return };
        let url = format!("http://127.0.0.1:{}", collector.port);
        let server = Server::spawn(&["--interval", "200ms", "--otlp", &url, "--otlp-interval", "200ms"]);
        let refused = collector.next("/v1/metrics");
        assert_eq!(refused["status"], 503);
        assert_eq!(server.get("/metrics", "").0, 200);
        let (first, second) = (collector.next("/v1/metrics"), collector.next("/v1/metrics"));
        assert_eq!(first["headers"]["content-type"], "application/x-protobuf");
        let time = |line: &Value| {
            let metrics = metrics(&line["request"]);
            points(&metrics, "system.cpu.time")[0]["timeUnixNano"].as_str().unwrap().parse::<u64>().unwrap()
        };
        assert!(time(&first) < time(&second), "{first} {second}");
    }

    /// A collector that rejects a part says so in an answer that is no error.
    #[test]
    fn what_a_collector_rejects_is_printed_and_not_sent_again() {
        let Some(mut collector) = Collector::start(&["partial"]) else { return };
        let url = format!("http://127.0.0.1:{}", collector.port);
        let server = Server::spawn(&["--interval", "200ms", "--otlp", &url, "--otlp-interval", "200ms"]);
        let said = server.until_it_says("cannot send ");
        let (what, number) =
            if said.contains("logs") { ("findings", "2 of the logs") } else { ("metrics", "3 of the metrics") };
        let why = format!("the collector rejected {number}: too old; what is refused is dropped");
        assert_eq!(said, format!("stalltop: cannot send {what} to {url}: {why}"));
        let again = server.until_it_says("are sent to ");
        assert_eq!(again, format!("stalltop: {what} are sent to {url} again"));
        // The next one is another.
        let time = |line: &Value| metrics(&line["request"]).values().next().map(|metric| metric.to_string());
        let (first, second) = (collector.next("/v1/metrics"), collector.next("/v1/metrics"));
        assert_ne!(time(&first), time(&second));
    }
}
