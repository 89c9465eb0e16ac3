//! A real Prometheus scrapes `stalltop serve` while the load of 15 runs: the alert of assets/prometheus fires, names the wait chain,
//! and goes after the load has ended.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::blocked::start_convoy;
use crate::scenario::{DISK_TOOLS, Lab};
use crate::serve::Server;

/// Prometheus itself may start slowly; the alert waits for 15 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// The promise of docs/serve.md.
const MAX_SCRAPE_SECONDS: f64 = 0.005;
const MAX_SERIES: f64 = 200.0;

/// A Prometheus with a data base of its own. It ends with the test.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Scrapes the target once a second, with the rules of assets/prometheus.
    fn start(folder: &Path, target: SocketAddr) -> Prometheus {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/prometheus/stalltop.rules.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs:\n  - job_name: stalltop\n    static_configs:\n      - targets: ['{target}']\n",
            rules.display()
        );
        fs::write(folder.join("prometheus.yml"), config).expect("its configuration");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let log = fs::File::create(folder.join("log")).expect("its log");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus");
        Prometheus { child, address }
    }

    /// `data` of an answer of its API; `None` while it does not answer.
    fn api(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str::<Value>(body).ok()?.get("data").cloned()
    }

    /// The first value of a query.
    fn query(&self, query: &str) -> Option<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.api(&format!("query?query={encoded}"))?;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// The firing critical alert of idle-but-blocked.
    fn alert(&self) -> Option<Value> {
        let alerts = self.api("alerts")?["alerts"].as_array()?.clone();
        alerts.into_iter().find(|alert| {
            alert["labels"]["alertname"] == "StalltopCritical"
                && alert["labels"]["kind"] == "idle-but-blocked"
                && alert["state"] == "firing"
        })
    }

    /// Waits for a condition.
    fn until<T>(&self, what: &str, mut condition: impl FnMut(&Prometheus) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = condition(self) {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "not so in time: {what}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn prometheus_alerts_while_a_convoy_waits_and_not_afterwards() {
    let Some(lab) = Lab::open(&[DISK_TOOLS, &["prometheus"]].concat()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_with("1s");
    let prometheus = Prometheus::start(folder.path(), server.address);
    prometheus.until("it has scraped", |prometheus| prometheus.query("up{job=\"stalltop\"} == 1"));
    assert!(prometheus.alert().is_none(), "before the load");

    let (scenario, device) = start_convoy(&lab, 10_000);
    let begin = Instant::now();
    let alert = prometheus.until("the alert fires", Prometheus::alert);
    println!("the alert fires {:.1} s after the load began: {}", begin.elapsed().as_secs_f64(), alert["annotations"]);
    let description = alert["annotations"]["description"].as_str().expect("a description");
    let expected = format!("convoy is blocked in fsync behind worker on {device}.");
    assert!(description.starts_with(&expected), "{description}, not {expected}");
    // 0.9 or more since the load began, which is a part of the minute.
    let ratio = prometheus.query("max_over_time(instance:stalltop_idle_blocked:ratio_rate1m[1m])").expect("a recorded ratio");
    assert!(ratio > 0.2 && ratio < 1.0, "{ratio}");

    drop(scenario);
    let end = Instant::now();
    prometheus.until("the alert goes", |prometheus| prometheus.alert().is_none().then_some(()));
    println!("it goes {:.1} s after the load has ended", end.elapsed().as_secs_f64());
    let active = prometheus.query("stalltop_finding_active{kind=\"idle-but-blocked\",severity=\"critical\"}");
    assert_eq!(active, Some(0.0), "the series stays, so that the alert resolves");

    let median = prometheus.query("quantile_over_time(0.5, scrape_duration_seconds[5m])").expect("scrapes");
    let longest = prometheus.query("max_over_time(scrape_duration_seconds[5m])").expect("scrapes");
    let series = prometheus.query("max_over_time(scrape_samples_scraped[5m])").expect("scrapes");
    println!("a scrape: median {:.2} ms, longest {:.2} ms, {series} series", median * 1e3, longest * 1e3);
    assert!(median <= MAX_SCRAPE_SECONDS && series <= MAX_SERIES, "{median} s, {series} series");
}
