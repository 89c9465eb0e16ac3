//! `check`: watches for a while (or reads a recording), says what is wrong, and exits as a monitoring plugin does.

use std::path::Path;
use std::time::Duration;

use super::exit::{Exit, Failure};
use super::judging::{Judging, Lessons};
use super::recorded::Recorded;
use super::recording::{self, Session};
use super::sampling::Sampling;
use super::stdout;
use crate::cli::Check;
use crate::kernel::Root;
use crate::recording::Redaction;
use crate::report::{json, text, window::Window};

/// How long is looked unless it is said.
const SPAN: Duration = Duration::from_secs(5);

pub fn check(root: Root, check: &Check) -> Result<Exit, Failure> {
    let window = match &check.file {
        Some(file) => recorded(file, check.span),
        None => live(root, check),
    };
    let window = window.map_err(cannot_tell)?;
    let lines = if check.json { json::check(&window) } else { text::check(&window) };
    stdout::print(&lines).map_err(cannot_tell)?;
    Ok(exit(&window))
}

/// A monitoring system takes any other code than 3 for a verdict.
fn cannot_tell(mut failure: Failure) -> Failure {
    failure.exit = Exit::CannotTell;
    failure
}

fn exit(window: &Window) -> Exit {
    match window.worst() {
        _ if window.is_empty() => Exit::CannotTell,
        Some(worst) => Exit::Found(worst),
        None => Exit::Fine,
    }
}

fn live(root: Root, check: &Check) -> Result<Window, Failure> {
    let span = check.span.unwrap_or(SPAN);
    let interval = check.interval.unwrap_or_else(|| interval_for(span)).min(span);
    let mut lessons = if root.is_host() { Lessons::load_or_complain() } else { Lessons::none() };
    let mut sampling = Sampling::start(root, interval, Some(span))?;
    let mut judging = Judging::new(sampling.host.clone(), lessons.judge());
    let mut window = Window::default();
    let mut session = None;
    while let Some(taken) = sampling.samples.blocking_recv() {
        if let Some(path) = &check.save {
            let session = match &mut session {
                Some(session) => session,
                None => {
                    let meta = recording::meta(&sampling.host, interval, Redaction::Nothing);
                    session.insert(Session::create(path, &meta, lessons.baselines()).map_err(recording::failure)?)
                }
            };
            session.offer(taken.clone());
        }
        if let Some(judged) = judging.take(taken.sample) {
            lessons.hear(&judged);
            window.add(&judged);
        }
    }
    if let Some(line) = session.and_then(|session| session.finish().failure()) {
        return Err(Failure::new(Exit::CannotTell, line, "", ""));
    }
    if let Some(line) = lessons.keep_in_time() {
        stdout::complain(&line);
    }
    if super::panics::happened() { Err(Failure::told(Exit::Failed)) } else { Ok(window) }
}

/// All of a recording, or so much of its end. Judged from its beginning all the same: what was learned and what had begun
/// before is known.
fn recorded(file: &Path, span: Option<Duration>) -> Result<Window, Failure> {
    let mut recorded = Recorded::open(file)?;
    let span = span.map_or(u64::MAX, |span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let from = recorded.end().boottime_ns.saturating_sub(span);
    let mut window = Window::default();
    for judged in recorded.by_ref().filter(|judged| judged.interval.at().boottime_ns > from) {
        window.add(&judged);
    }
    recorded.complain();
    Ok(window)
}

/// A second, or less where that would be too few intervals to tell a state from a moment.
fn interval_for(span: Duration) -> Duration {
    const ENOUGH: u32 = 4;
    (span / ENOUGH).clamp(Duration::from_millis(100), Duration::from_secs(1))
}
