//! The interface table: heading and rows of each form; nicstat's three precisions.

use super::{At, Form, parseable};
use crate::interval::nicstat::NicLine;
use crate::report::text::printable;

/// Two decimals below 100, one below 100,000, else none. `-` for what is not known.
pub(super) fn p(figure: Option<f64>) -> String {
    figure.map_or_else(unknown, |v| format!("{v:.*}", if v < 100.0 { 2 } else { usize::from(v < 100_000.0) }))
}

/// Two decimals below 10, one below 100, else none.
pub(super) fn p4(figure: Option<f64>) -> String {
    figure.map_or_else(unknown, |v| format!("{v:.*}", if v < 10.0 { 2 } else { usize::from(v < 100.0) }))
}

/// Three decimals below 10, two below 100, one below 10,000, else none.
pub(super) fn pp(figure: Option<f64>) -> String {
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
const KB: f64 = 1024.0;
const MEGABIT: f64 = 131_072.0;

/// The table in one form.
pub(super) struct Table<'a> {
    pub form: Form,
    pub at: &'a At,
}

impl Table<'_> {
    pub fn heading(&self) -> String {
        let (Form { extended, summary, both_utilizations, megabits, .. }, clock) = (self.form, &self.at.clock);
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
        if self.form.parseable {
            return self.parseable(&name, nic);
        }
        let unit = if self.form.megabits { MEGABIT } else { KB };
        let (read, written) = (nic.rx.bytes.map(|bytes| bytes / unit), nic.tx.bytes.map(|bytes| bytes / unit));
        let wide = |figures: &[Option<f64>]| figures.iter().map(|&figure| format!(" {:>7}", p(figure))).collect::<String>();
        if self.form.extended {
            let rates = wide(&[read, written, nic.rx.packets, nic.tx.packets]);
            let errors = errors(nic).map(|figure| format!(" {:>5}", p4(figure))).concat();
            let utilization = match self.form.both_utilizations {
                true => format!(" {:>6} {:>6}", p4(nic.rx.utilization), p4(nic.tx.utilization)),
                false => format!("  {:>5}", p4(nic.utilization)),
            };
            return format!("{name:<10}{rates} {errors}{utilization}");
        }
        let clock = &self.at.clock;
        if self.form.summary {
            let three = |figure: Option<f64>| figure.map_or_else(unknown, |v| format!("{v:.3}"));
            return format!("{clock} {name:>8} {:>14} {:>14}", three(read), three(written));
        }
        let figures = wide(&[read, written, nic.rx.packets, nic.tx.packets, nic.rx.average_bytes, nic.tx.average_bytes]);
        let last = match self.form.both_utilizations {
            true => format!(" {:>6} {:>6}", p4(nic.rx.utilization), p4(nic.tx.utilization)),
            false => format!(" {:>5} {:>6}", p4(nic.utilization), p(nic.saturation)),
        };
        format!("{clock} {name:>8}{figures}{last}")
    }

    /// Always KB, and one %Util. A colon in the name of an alias would be one column more.
    fn parseable(&self, name: &str, nic: &NicLine) -> String {
        let kb = |bytes: Option<f64>| bytes.map(|bytes| bytes / KB);
        let rates = [kb(nic.rx.bytes), kb(nic.tx.bytes), nic.rx.packets, nic.tx.packets].map(pp);
        let mut columns = rates.to_vec();
        columns.extend([p4(nic.utilization), p(nic.saturation)]);
        if self.form.extended {
            columns.extend(errors(nic).map(p));
        }
        format!("{}:{}{}", self.at.epoch, name.replace(':', "."), parseable(&columns))
    }
}

/// IErr, OErr, Coll, NoCP, Defer; the last is counted nowhere on Linux.
fn errors(nic: &NicLine) -> [Option<f64>; 5] {
    [nic.rx.errors, nic.tx.errors, nic.collisions, nic.nocanput, Some(0.0)]
}
