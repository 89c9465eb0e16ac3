//! Sends metrics and findings to an OpenTelemetry collector by OTLP over HTTP (Cargo feature `otlp`), on a thread of its own: a
//! collector that does not answer delays no sample.

#[cfg(feature = "otlp")]
mod delivery;
#[cfg(feature = "otlp")]
mod endpoint;
#[cfg(feature = "otlp")]
mod outbox;

#[cfg(feature = "otlp")]
mod sender {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::delivery::{RETRY_PAUSE, deliver_all};
    use super::endpoint::Endpoint;
    use super::outbox::Outbox;
    use crate::app::program::exit::{Exit, Failure};
    use crate::app::program::threads;
    use crate::findings::Evaluation;
    use crate::report::openmetrics::MetricFamily;
    use crate::report::otlp::{FindingLogRecords, TelemetryResource, metrics_request};
    use crate::sample::Instant;

    /// What is to be sent, and the running thread. Dropping it ends the thread.
    #[derive(Debug)]
    pub struct OtlpSender {
        outbox: Arc<Outbox>,
        findings: FindingLogRecords,
        version: &'static str,
        every_ns: u64,
        /// Begin of the totals
        start: Option<Instant>,
        /// CLOCK_BOOTTIME of the last metrics
        last_ns: Option<u64>,
        _stop: oneshot::Sender<()>,
    }

    impl OtlpSender {
        /// Starts the thread; it has the priority of the calling thread. `every`: time between metrics.
        pub fn start(url: &str, every: Duration, version: &'static str) -> Result<OtlpSender, Failure> {
            let endpoint = Endpoint::parse(url)?;
            let failure = |error| Failure::new(Exit::Failed, "cannot send metrics", error, "");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failure)?;
            let outbox = Arc::<Outbox>::default();
            let (stop, stopped) = oneshot::channel::<()>();
            let sent = Arc::clone(&outbox);
            threads::spawn("otlp", move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = deliver_all(&endpoint, &sent, RETRY_PAUSE) => {}
                        _ = stopped => {}
                    }
                });
                // A name server that does not answer must not delay the end.
                runtime.shutdown_background();
            })?;
            let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
            Ok(OtlpSender {
                outbox,
                findings: FindingLogRecords::default(),
                version,
                every_ns,
                start: None,
                last_ns: None,
                _stop: stop,
            })
        }

        /// Queues changes of findings, and the metrics if it is their time.
        pub fn send(&mut self, evaluation: &Evaluation, families: &[MetricFamily]) {
            let interval = &evaluation.interval;
            let at = interval.at();
            let resource = TelemetryResource { host: interval.host.hostname.to_string_lossy(), version: self.version };
            let length_ns = (interval.seconds * 1e9) as u64;
            let start = *self.start.get_or_insert(Instant {
                boottime_ns: at.boottime_ns.saturating_sub(length_ns),
                realtime_ns: at.realtime_ns.saturating_sub_unsigned(length_ns),
                ..at
            });
            if let Some(request) = self.findings.request(evaluation, &resource) {
                self.outbox.add_logs(request);
            }
            if self.last_ns.is_none_or(|last| at.boottime_ns.saturating_sub(last) >= self.every_ns) {
                self.last_ns = Some(at.boottime_ns);
                self.outbox.set_metrics(metrics_request(families, &resource, at, start));
            }
        }
    }
}

#[cfg(not(feature = "otlp"))]
mod sender {
    use std::time::Duration;

    use crate::app::program::exit::{Exit, Failure};
    use crate::findings::Evaluation;
    use crate::report::openmetrics::MetricFamily;

    /// Cannot be made.
    #[derive(Debug)]
    pub enum OtlpSender {}

    impl OtlpSender {
        /// Fails.
        pub fn start(url: &str, _every: Duration, _version: &'static str) -> Result<OtlpSender, Failure> {
            let why = "this stalltop was built without OpenTelemetry";
            let remedy = "build it with --features otlp, or let the collector scrape /metrics (its receiver 'prometheus')";
            Err(Failure::new(Exit::Usage, format!("cannot send metrics to '{url}'"), why, remedy))
        }

        pub fn send(&mut self, _evaluation: &Evaluation, _families: &[MetricFamily]) {}
    }
}

pub use sender::OtlpSender;
