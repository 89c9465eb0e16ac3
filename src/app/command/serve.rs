//! `serve`: samples and evaluates this machine until it is stopped, and serves the metrics of the last sample over HTTP.

use nix::time::{ClockId, clock_gettime};

use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::TerminationSignals;
use crate::app::program::{priority, stdio};
use crate::app::sampling::{SamplerCommand, SamplerThread, SamplingPlan, TimedSample};
use crate::app::serve::{Access, HttpServer, LatestMetrics, OtlpSender, listen};
use crate::cli::{Configuration, Serve};
use crate::kernel::Root;
use crate::report::openmetrics::{Exporter, SamplingStatus};

pub fn serve(root: Root, configuration: &Configuration, options: &Serve) -> Result<Exit, Failure> {
    let access = Access::load(options.web_config.as_deref())?;
    let scheme = access.scheme();
    let listener = listen(options.listen, options.allow_remote)?;
    let address = listener.local_addr().unwrap_or(options.listen);
    let stop = TerminationSignals::block().map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let latest = LatestMetrics::new(options.interval);
    // Before the priority is raised: clients must not take CPU time from others.
    let server = HttpServer::start(listener, access, latest.clone())?;
    let start_otlp = |url: &String| OtlpSender::start(url, options.otlp_interval, env!("CARGO_PKG_VERSION"));
    let mut otlp = options.otlp.as_ref().map(start_otlp).transpose()?;
    priority::raise();
    let settings = Settings::load_and_warn(&root, configuration)?;
    let learner = BaselineLearner::for_root(&root);
    let sampler = SamplerThread::start(SamplingPlan::new(root, options.interval, None, settings.probes()))?;
    let control = sampler.control();
    stop.on_signal(move || control.send(SamplerCommand::Stop))?;
    let rule_config = settings.rule_config_for(&sampler.host);
    let mut evaluations = LiveEvaluations::new(sampler, rule_config, learner)?;
    stdio::print_stderr(&format!("metrics are at {scheme}://{address}/metrics"));
    let mut exporter = Exporter::new(env!("CARGO_PKG_VERSION"));
    let mut missed = 0_u64;
    while let Some(sample) = evaluations.next_sample() {
        missed = missed.saturating_add(sample.missed);
        let duration_seconds = sampling_seconds(&sample);
        let Some(evaluation) = evaluations.evaluate(&sample) else { continue };
        let status = SamplingStatus { duration_seconds, missed };
        let families = exporter.metric_families(&evaluation, status);
        if let Some(otlp) = &mut otlp {
            otlp.send(&evaluation, &families);
        }
        latest.set(families);
    }
    drop(server);
    evaluations.finish()?;
    Ok(Exit::Success)
}

/// From the start of a sample until it was received, in seconds; `None` if the clock cannot be read.
fn sampling_seconds(sample: &TimedSample) -> Option<f64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let now = std::time::Duration::from(now).as_nanos();
    Some(now.saturating_sub(u128::from(sample.sample.at.boottime_ns)) as f64 / 1e9)
}
