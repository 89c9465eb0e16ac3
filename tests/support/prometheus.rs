//! A real Prometheus for tests: it scrapes one target once a second, with the rules of assets/prometheus.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child_guard::ChildGuard;

/// Prometheus itself may start slowly; the alert waits for 15 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Prometheus with a data base of its own. It ends with the test.
pub struct Prometheus {
    _child: ChildGuard,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it on a free port. `options`: further ones of its command line.
    pub fn start(folder: &Path, target: SocketAddr, options: &[&str]) -> Prometheus {
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
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus");
        Prometheus { _child: ChildGuard(child), address }
    }

    /// `data` of an answer of its API; `None` while it does not answer.
    pub fn api(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str::<Value>(body).ok()?.get("data").cloned()
    }

    /// The first value of a query.
    pub fn query(&self, query: &str) -> Option<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.api(&format!("query?query={encoded}"))?;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Waits for a condition.
    pub fn until<T>(&self, what: &str, mut condition: impl FnMut(&Prometheus) -> Option<T>) -> T {
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
