//! The HTTP server of `serve`: answers from the last metrics, on a thread of its own. A request causes no sampling, and no client
//! can hold more than one of a limited number of connections (`server`).

mod access;
#[cfg(feature = "tls")]
mod basic_auth;
mod listen;
mod otlp;
mod response;
mod server;
#[cfg(feature = "tls")]
mod web_config;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;

use crate::report::openmetrics::{self, Format, MetricFamily};
pub use access::Access;
pub use listen::listen;
pub use otlp::OtlpSender;
pub use server::HttpServer;

/// Without a sample for so long, `/-/healthy` says that sampling is stuck.
const MIN_STALE: Duration = Duration::from_secs(10);

/// The metrics of the last sample. Clones share them.
#[derive(Clone, Debug)]
pub struct LatestMetrics {
    current: Arc<Mutex<Option<Arc<Metrics>>>>,
    /// Age from which metrics are stale
    stale_after: Duration,
}

impl LatestMetrics {
    /// None yet. `interval`: time between samples.
    pub fn new(interval: Duration) -> LatestMetrics {
        LatestMetrics { current: Arc::default(), stale_after: MIN_STALE.max(interval.saturating_mul(3)) }
    }

    /// Replaces the metrics by those of a new sample.
    pub fn set(&self, families: Vec<MetricFamily>) {
        let metrics = Metrics { families: families.into(), since: Instant::now(), bodies: Default::default() };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(metrics));
    }

    /// The metrics of the last sample; `None` before the first interval.
    fn get(&self) -> Option<Arc<Metrics>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether samples come; otherwise why not.
    fn health(&self) -> Result<(), String> {
        let metrics = self.get().ok_or_else(|| "no interval yet".to_owned())?;
        let age = metrics.since.elapsed();
        if age > self.stale_after { Err(format!("the last sample came {} s ago", age.as_secs())) } else { Ok(()) }
    }
}

/// The metrics of one sample, and their encodings, each made for the first request that needs it.
struct Metrics {
    families: Arc<[MetricFamily]>,
    since: Instant,
    bodies: [OnceLock<Bytes>; 3],
}

impl Metrics {
    fn body(&self, format: Format) -> Bytes {
        let encode = || Bytes::from(openmetrics::encode(&self.families, format));
        let body = match format {
            Format::OpenMetrics => &self.bodies[0],
            Format::Text => &self.bodies[1],
            #[cfg(feature = "native-histograms")]
            Format::Protobuf => &self.bodies[2],
        };
        body.get_or_init(encode).clone()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").field("families", &self.families.len()).finish_non_exhaustive()
    }
}
