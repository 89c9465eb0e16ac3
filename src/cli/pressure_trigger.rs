//! Parses the triggers of `record --psi`, as /proc/pressure takes them, with units: `some io 150ms 1s`.

use std::fmt;
use std::time::Duration;

use super::value_parsers;
use crate::units::time;

/// Stall time within a window, for one resource; Documentation/accounting/psi.rst, "Monitoring for pressure thresholds".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PressureTrigger {
    pub resource: PressureResource,
    /// Whether all tasks that are not idle must be stalled at once; otherwise one is enough
    pub full: bool,
    /// Time of stall from which it triggers
    pub stall: Duration,
    pub window: Duration,
}

/// A file below /proc/pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureResource {
    Cpu,
    Memory,
    Io,
}

/// The kernel takes no other windows.
const WINDOW_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(10);

const SYNTAX: &str = "the form is 'some io 150ms 1s': some or full, cpu, memory or io, time of stall, window";

impl PressureTrigger {
    /// Full memory stall: never normal, unlike waits for a disk or a CPU.
    pub const DEFAULT: PressureTrigger = PressureTrigger {
        resource: PressureResource::Memory,
        full: true,
        stall: Duration::from_millis(300),
        window: Duration::from_secs(2),
    };

    pub fn parse(text: &str) -> Result<PressureTrigger, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[share, resource, stall, window] = words.as_slice() else { return Err(SYNTAX.to_owned()) };
        let full = match share {
            "some" => false,
            "full" => true,
            _ => return Err(SYNTAX.to_owned()),
        };
        let resource = match resource {
            "cpu" if full => return Err("the kernel has no full pressure of CPUs: use 'some cpu'".to_owned()),
            "cpu" => PressureResource::Cpu,
            "memory" => PressureResource::Memory,
            "io" => PressureResource::Io,
            _ => return Err(SYNTAX.to_owned()),
        };
        let (stall, window) = (value_parsers::positive_duration(stall)?, value_parsers::positive_duration(window)?);
        if !WINDOW_RANGE.contains(&window) {
            return Err("a window is 500ms to 10s".to_owned());
        }
        if stall > window || stall < Duration::from_micros(1) {
            return Err("the time of stall is at most the window".to_owned());
        }
        Ok(PressureTrigger { resource, full, stall, window })
    }

    fn share(&self) -> &'static str {
        if self.full { "full" } else { "some" }
    }

    /// The line to write to the file.
    pub fn kernel_line(&self) -> String {
        format!("{} {} {}", self.share(), self.stall.as_micros(), self.window.as_micros())
    }
}

impl PressureResource {
    /// The name of its file below /proc/pressure.
    pub fn name(self) -> &'static str {
        match self {
            PressureResource::Cpu => "cpu",
            PressureResource::Memory => "memory",
            PressureResource::Io => "io",
        }
    }
}

/// In the form of the option.
impl fmt::Display for PressureTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stall, window) =
            (time::compact_duration(self.stall.as_secs_f64()), time::compact_duration(self.window.as_secs_f64()));
        write!(f, "{} {} {stall} {window}", self.share(), self.resource.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_has_the_form_of_the_kernel_with_units() {
        let trigger = PressureTrigger::parse(" some  io 150ms 1s ").unwrap();
        assert_eq!((trigger.kernel_line().as_str(), trigger.to_string().as_str()), ("some 150000 1000000", "some io 150ms 1s"));
        assert_eq!(PressureTrigger::parse("full memory 300ms 2s"), Ok(PressureTrigger::DEFAULT));
        assert_eq!(PressureTrigger::parse(&PressureTrigger::DEFAULT.to_string()), Ok(PressureTrigger::DEFAULT));
        for wrong in [
            "",
            "some io",
            "none",
            "half io 150ms 1s",
            "some disk 150ms 1s",
            "full cpu 1s 2s",
            "some io 2s 1s",
            "some io 0 1s",
            "some io 1ms 100ms",
            "some io 1s 11s",
            "some io 150ms 1s x",
            "some io -1s 1s",
        ] {
            assert!(PressureTrigger::parse(wrong).is_err(), "{wrong}");
        }
    }
}
