//! The table of interfaces: heading and rows for each set of options, and the three precisions of nicstat.

use super::arithmetic::NicLine;
use super::{Options, SampleTime, parseable};
use crate::report::formatting::printable;

/// Two decimals below 100, one below 100,000, else none. `-` for what is not known.
pub(super) fn precision(figure: Option<f64>) -> String {
    figure.map_or_else(unknown, |v| format!("{v:.*}", if v < 100.0 { 2 } else { usize::from(v < 100_000.0) }))
}

/// Two decimals below 10, one below 100, else none.
pub(super) fn precision4(figure: Option<f64>) -> String {
    figure.map_or_else(unknown, |v| format!("{v:.*}", if v < 10.0 { 2 } else { usize::from(v < 100.0) }))
}

/// Three decimals below 10, two below 100, one below 10,000, else none.
pub(super) fn precision_parseable(figure: Option<f64>) -> String {
    let decimals = |v: f64| match v {
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v => usize::from(v < 10_000.0),
    };
    figure.map_or_else(unknown, |v| format!("{v:.*}", decimals(v)))
}

fn unknown() -> String {
    "-".to_owned()
}

/// KB of 1024 bytes, megabits of 2^20 bits.
const BYTES_PER_KB: f64 = 1024.0;
const BYTES_PER_MEGABIT: f64 = 131_072.0;

/// The table for one set of options.
pub(super) struct InterfaceTable<'a> {
    pub options: Options,
    pub at: &'a SampleTime,
}

impl InterfaceTable<'_> {
    pub fn heading(&self) -> String {
        let (Options { extended, summary, both_utilizations, megabits, .. }, clock) = (self.options, &self.at.clock);
        if extended {
            let (read, written) = if megabits { ("RdMbps", "WrMbps") } else { ("RdKB", "WrKB") };
            let rates = [read, written, "RdPkt", "WrPkt"].map(|name| format!(" {name:>7}")).concat();
            let errors = ["IErr", "OErr", "Coll", "NoCP", "Defer"].map(|name| format!(" {name:>5}")).concat();
            let utilization = if both_utilizations { " %rUtil %wUtil" } else { "  %Util" };
            return format!("{clock:<10}{rates} {errors}{utilization}");
        }
        let (read, written) = if megabits { ("rMbps", "wMbps") } else { ("rKB/s", "wKB/s") };
        if summary {
            return format!("{:>8} {:>8} {read:>14} {written:>14}", "Time", "Int");
        }
        let names = [read, written, "rPk/s", "wPk/s", "rAvs", "wAvs"].map(|name| format!(" {name:>7}")).concat();
        let last = if both_utilizations { " %rUtil %wUtil" } else { " %Util    Sat" };
        format!("{:>8} {:>8}{names}{last}", "Time", "Int")
    }

    pub fn row(&self, nic: &NicLine) -> String {
        let name = printable(&String::from_utf8_lossy(nic.id.name.as_bytes()));
        if self.options.parseable {
            return self.parseable(&name, nic);
        }
        let unit = if self.options.megabits { BYTES_PER_MEGABIT } else { BYTES_PER_KB };
        let (read, written) = (nic.rx.bytes.map(|bytes| bytes / unit), nic.tx.bytes.map(|bytes| bytes / unit));
        let wide =
            |figures: &[Option<f64>]| figures.iter().map(|&figure| format!(" {:>7}", precision(figure))).collect::<String>();
        if self.options.extended {
            let rates = wide(&[read, written, nic.rx.packets, nic.tx.packets]);
            let errors = errors(nic).map(|figure| format!(" {:>5}", precision4(figure))).concat();
            let utilization = match self.options.both_utilizations {
                true => format!(" {:>6} {:>6}", precision4(nic.rx.utilization), precision4(nic.tx.utilization)),
                false => format!("  {:>5}", precision4(nic.utilization)),
            };
            return format!("{name:<10}{rates} {errors}{utilization}");
        }
        let clock = &self.at.clock;
        if self.options.summary {
            let three = |figure: Option<f64>| figure.map_or_else(unknown, |v| format!("{v:.3}"));
            return format!("{clock} {name:>8} {:>14} {:>14}", three(read), three(written));
        }
        let figures = wide(&[read, written, nic.rx.packets, nic.tx.packets, nic.rx.average_bytes, nic.tx.average_bytes]);
        let last = match self.options.both_utilizations {
            true => format!(" {:>6} {:>6}", precision4(nic.rx.utilization), precision4(nic.tx.utilization)),
            false => format!(" {:>5} {:>6}", precision4(nic.utilization), precision(nic.saturation)),
        };
        format!("{clock} {name:>8}{figures}{last}")
    }

    /// Always KB, and one %Util. A colon in the name of an alias would be one column more.
    fn parseable(&self, name: &str, nic: &NicLine) -> String {
        let kb = |bytes: Option<f64>| bytes.map(|bytes| bytes / BYTES_PER_KB);
        let rates = [kb(nic.rx.bytes), kb(nic.tx.bytes), nic.rx.packets, nic.tx.packets].map(precision_parseable);
        let mut columns = rates.to_vec();
        columns.extend([precision4(nic.utilization), precision(nic.saturation)]);
        if self.options.extended {
            columns.extend(errors(nic).map(precision));
        }
        format!("{}:{}{}", self.at.epoch, name.replace(':', "."), parseable(&columns))
    }
}

/// IErr, OErr, Coll, NoCP, Defer; the last is counted nowhere on Linux.
fn errors(nic: &NicLine) -> [Option<f64>; 5] {
    [nic.rx.errors, nic.tx.errors, nic.collisions, nic.nocanput, Some(0.0)]
}
