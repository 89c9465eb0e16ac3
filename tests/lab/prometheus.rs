//! A real Prometheus scrapes `stalltop serve` while the load of 15 runs: the alert of assets/prometheus fires, names the wait chain,
//! and goes after the load has ended.

use std::time::Instant;

use serde_json::Value;

use crate::blocked::start_convoy;
use crate::prometheus_server::Prometheus;
use crate::scenario::{DISK_TOOLS, Lab};
use crate::serve::Server;

/// The promise of docs/serve.md.
const MAX_SCRAPE_SECONDS: f64 = 0.005;
const MAX_SERIES: f64 = 200.0;

/// The firing critical alert of idle-but-blocked.
fn alert(prometheus: &Prometheus) -> Option<Value> {
    let alerts = prometheus.api("alerts")?["alerts"].as_array()?.clone();
    alerts.into_iter().find(|alert| {
        alert["labels"]["alertname"] == "StalltopCritical"
            && alert["labels"]["kind"] == "idle-but-blocked"
            && alert["state"] == "firing"
    })
}

#[test]
fn prometheus_alerts_while_a_convoy_waits_and_not_afterwards() {
    if !crate::long() {
        return;
    }
    let Some(lab) = Lab::open(&[DISK_TOOLS, &["prometheus"]].concat()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_with("1s");
    let prometheus = Prometheus::start(folder.path(), server.address, &[]);
    prometheus.until("it has scraped", |prometheus| prometheus.query("up{job=\"stalltop\"} == 1"));
    assert!(alert(&prometheus).is_none(), "before the load");

    let (scenario, device) = start_convoy(&lab, 10_000);
    let begin = Instant::now();
    let fired = prometheus.until("the alert fires", alert);
    println!("the alert fires {:.1} s after the load began: {}", begin.elapsed().as_secs_f64(), fired["annotations"]);
    let description = fired["annotations"]["description"].as_str().expect("a description");
    let expected = format!("convoy is blocked in fsync behind worker on {device}.");
    assert!(description.starts_with(&expected), "{description}, not {expected}");
    // 0.9 or more since the load began, which is a part of the minute.
    let ratio = prometheus.query("max_over_time(instance:stalltop_idle_blocked:ratio_rate1m[1m])").expect("a recorded ratio");
    assert!(ratio > 0.2 && ratio < 1.0, "{ratio}");

    drop(scenario);
    let end = Instant::now();
    prometheus.until("the alert goes", |prometheus| alert(prometheus).is_none().then_some(()));
    println!("it goes {:.1} s after the load has ended", end.elapsed().as_secs_f64());
    let active = prometheus.query("stalltop_finding_active{kind=\"idle-but-blocked\",severity=\"critical\"}");
    assert_eq!(active, Some(0.0), "the series stays, so that the alert resolves");

    let median = prometheus.query("quantile_over_time(0.5, scrape_duration_seconds[5m])").expect("scrapes");
    let longest = prometheus.query("max_over_time(scrape_duration_seconds[5m])").expect("scrapes");
    let series = prometheus.query("max_over_time(scrape_samples_scraped[5m])").expect("scrapes");
    println!("a scrape: median {:.2} ms, longest {:.2} ms, {series} series", median * 1e3, longest * 1e3);
    assert!(median <= MAX_SCRAPE_SECONDS && series <= MAX_SERIES, "{median} s, {series} series");
}
