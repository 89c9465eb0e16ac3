//! The resource usage of a command (`table -- COMMAND`), with that of the children that it waited for.

use std::fmt::Write;

use serde::Serialize;

use super::printer::Format;
use crate::report::json::to_line;

/// The resource usage of a command (wait4(2)), and its exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ResourceUsage {
    /// As in a shell: 128 + signal number if a signal ended it
    pub exit_code: u8,
    pub elapsed_seconds: f64,
    pub user_seconds: f64,
    pub system_seconds: f64,
    /// CPU time ÷ elapsed time: 1.0 is one whole CPU
    pub cpu_ratio: Option<f64>,
    /// The same of all CPUs
    pub host_ratio: Option<f64>,
    /// Of its largest process; `None` if that is not larger than stalltop itself, which the kernel includes
    pub max_resident_bytes: Option<u64>,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// From and to storage
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl ResourceUsage {
    /// As text, or as a JSON object.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => to_line(&JsonLine { schema: "stalltop/1", table: "command", usage: self }),
            Format::Parseable => String::new(),
            Format::Text | Format::Csv { .. } => self.text(),
        }
    }

    /// One figure per line, number first, as in `vmstat -s` and `perf stat`.
    fn text(&self) -> String {
        let share = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", ratio * 100.0));
        let kb = |bytes: u64| (bytes / 1024).to_string();
        let lines = [
            (self.exit_code.to_string(), "exit code"),
            (format!("{:.3}", self.elapsed_seconds), "s elapsed"),
            (format!("{:.3}", self.user_seconds), "s user"),
            (format!("{:.3}", self.system_seconds), "s system"),
            (share(self.cpu_ratio), "% of one CPU"),
            (share(self.host_ratio), "% of all CPUs"),
            (self.max_resident_bytes.map_or_else(|| "-".to_owned(), kb), "kB resident at most"),
            (self.minor_faults.to_string(), "minor faults"),
            (self.major_faults.to_string(), "major faults"),
            (self.voluntary_switches.to_string(), "voluntary context switches"),
            (self.involuntary_switches.to_string(), "involuntary context switches"),
            (kb(self.read_bytes), "kB read from storage"),
            (kb(self.written_bytes), "kB written to storage"),
        ];
        let mut text = String::from("\nCommand, with the children it waited for\n");
        for (figure, words) in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{figure:>16} {words}");
        }
        text
    }
}

#[derive(Serialize)]
struct JsonLine<'a> {
    schema: &'static str,
    table: &'static str,
    #[serde(flatten)]
    usage: &'a ResourceUsage,
}
