//! `check`: watches for a while (or reads a recording), says what is wrong, and exits as a monitoring plugin does.

use std::time::{Duration, Instant};

use super::exit::{Exit, Failure};
use super::judging::{Judging, Lessons};
use super::sampling::Sampling;
use super::stdout;
use crate::cli::Check;
use crate::kernel::Root;
use crate::report::{json, text, window::Window};

/// How long is looked unless it is said.
const SPAN: Duration = Duration::from_secs(5);

pub fn check(root: Root, check: &Check) -> Result<Exit, Failure> {
    let window = live(root, check).map_err(cannot_tell)?;
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
    let mut lessons = if root.is_host() { Lessons::load().0 } else { Lessons::none() };
    let begun = Instant::now();
    let mut sampling = Sampling::start(root, interval, None)?;
    let mut judging = Judging::new(sampling.host.clone(), lessons.judge());
    let mut window = Window::default();
    // The sample that is due when the time is over still counts.
    let enough = span.saturating_sub(interval / 2);
    while let Some(sample) = sampling.samples.blocking_recv() {
        if let Some(judged) = judging.take(sample) {
            window.add(&judged);
        }
        if begun.elapsed() >= enough {
            lessons.keep(judging.judge());
            return Ok(window);
        }
    }
    Err(Failure::told(Exit::Failed))
}

/// A second, or less where that would be too few intervals to tell a state from a moment.
fn interval_for(span: Duration) -> Duration {
    const ENOUGH: u32 = 4;
    (span / ENOUGH).clamp(Duration::from_millis(100), Duration::from_secs(1))
}
