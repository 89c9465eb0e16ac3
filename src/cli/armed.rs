//! The options of `record --armed`: what makes it record, how much of the time before and after, and the bounds of its directory.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::pressure_trigger::PressureTrigger;
use super::value_parsers;

/// Captures are kept below this number and size unless other bounds are given.
const DEFAULT_MAX_CAPTURES: u32 = 20;
pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// The least size of all captures: less has no room for some minutes of a large machine.
pub const MIN_MAX_BYTES: u64 = 16 << 20;

/// The heading of these options in help and manual page.
const HEADING: &str = "Armed";

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Armed {
    /// Keep the last minutes in memory, and write nothing until something happens: a finding (--on), a pressure trigger (--psi),
    /// SIGUSR1 or `stalltop mark`. Then record these minutes, the event ten times a second, and the minutes after it to a new
    /// file in this directory
    #[arg(long = "armed", value_name = "DIR", conflicts_with_all = ["file", "rotate"], help_heading = HEADING)]
    pub directory: Option<PathBuf>,
    /// How much of the time before goes into a capture: 10s to 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = pre_roll, requires = "directory", help_heading = HEADING)]
    pub pre_roll: Duration,
    /// How long a capture goes on after the event: 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = after, requires = "directory", help_heading = HEADING)]
    pub after: Duration,
    /// Capture when tasks stall for so long within a window of 500ms to 10s: 'some io 150ms 1s', 'full memory 300ms 2s'. Can be
    /// given more than once; `none` for no such trigger [default: 'full memory 300ms 2s']
    #[arg(long, value_name = "TRIGGER", value_parser = psi, requires = "directory", help_heading = HEADING)]
    pub psi: Vec<PressureOption>,
    /// Delete the oldest captures of this machine and user, so that the directory has no more than these
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_CAPTURES, value_parser = value_parsers::count)]
    #[arg(requires = "directory", help_heading = HEADING)]
    pub max_captures: u32,
}

impl Armed {
    /// The pressure triggers, with the default one.
    pub fn pressure_triggers(&self) -> Vec<PressureTrigger> {
        if self.psi.is_empty() {
            return vec![PressureTrigger::DEFAULT];
        }
        let triggers = self.psi.iter().filter_map(|option| match option {
            PressureOption::None => None,
            PressureOption::Trigger(trigger) => Some(*trigger),
        });
        triggers.collect()
    }
}

/// A value of `--psi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PressureOption {
    None,
    Trigger(PressureTrigger),
}

fn psi(text: &str) -> Result<PressureOption, String> {
    if text.trim() == "none" {
        return Ok(PressureOption::None);
    }
    PressureTrigger::parse(text).map(PressureOption::Trigger)
}

fn pre_roll(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(10)..=Duration::from_secs(3600), "it is 10s to 1h")
}

fn after(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1)..=Duration::from_secs(3600), "it is 1s to 1h")
}

fn within(text: &str, range: std::ops::RangeInclusive<Duration>, otherwise: &str) -> Result<Duration, String> {
    let duration = value_parsers::duration(text)?;
    if range.contains(&duration) { Ok(duration) } else { Err(otherwise.to_owned()) }
}
