//! `fleet --once`: evaluates all hosts for some seconds, prints the result, and exits as `check` does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::host_link::HostLink;
use super::recorded_hosts::RecordedHosts;
use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio;
use crate::cli;
use crate::findings::Severity;
use crate::report::fleet::{FleetReport, HostReport};
use crate::state::fleet::host::Connection;

/// How long the first sample of a host may take: a connection, and a slow machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for the hosts, or until `stopped`, and prints.
pub fn once(options: &cli::Fleet, links: &[Arc<HostLink>], notify: &Notify, stopped: &AtomicBool) -> Result<Exit, Failure> {
    let timer = Builder::new_current_thread().enable_time().build();
    let timer = timer.map_err(|error| Failure::new(Exit::Failed, "cannot start a timer", error, ""))?;
    let deadline = Instant::now() + options.span + CONNECT_TIMEOUT;
    // A sample may be some milliseconds late.
    let span = options.span.saturating_sub(options.interval / 2).as_secs_f64();
    while !stopped.load(Ordering::SeqCst) && !links.iter().all(|link| is_complete(link, span)) {
        if timer.block_on(async { timeout_at(deadline, notify.notified()).await }).is_err() {
            break;
        }
    }
    print(options, links.iter().map(|link| host_report(link)).collect())
}

/// The same of recordings, from their beginning to their end.
pub fn of_recordings(options: &cli::Fleet, settings: &Settings, files: &RecordedHosts) -> Result<Exit, Failure> {
    print(options, files.reports(settings))
}

fn print(options: &cli::Fleet, hosts: Vec<HostReport>) -> Result<Exit, Failure> {
    let report = FleetReport::new(hosts);
    let glyphs = stdio::glyphs(options.appearance.glyphs());
    match options.json {
        true => stdio::print(&report.json()),
        false => stdio::print_with_glyphs(glyphs, &report.text()),
    }?;
    Ok(match report.worst_severity() {
        Some(severity) if severity > Severity::Note => Exit::Found(severity),
        _ if report.has_unknown_hosts() => Exit::Unknown,
        _ => Exit::Success,
    })
}

/// Whether the host was evaluated for that many seconds, or cannot be.
fn is_complete(link: &HostLink, span: f64) -> bool {
    matches!(link.state().connection, Connection::Ended(_))
        || link.samples().as_ref().is_some_and(|samples| samples.result().seconds() >= span)
}

fn host_report(link: &HostLink) -> HostReport {
    let window = link.samples().as_ref().map(|samples| samples.result().clone()).unwrap_or_default();
    let host = link.state();
    let why = match &host.connection {
        _ if !window.is_empty() => None,
        Connection::Ended(Some(why)) => Some(why.clone()),
        Connection::Ended(None) => Some("it sent no two samples".to_owned()),
        _ => Some("no answer in time".to_owned()),
    };
    HostReport { host, window, why }
}
