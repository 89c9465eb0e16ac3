//! Names and units of the metrics in OpenTelemetry: those of its semantic conventions for systems, else the name for Prometheus
//! with dots, so that a translation to Prometheus gives that name again.

use std::borrow::Cow;

use crate::report::openmetrics::names::{
    self, CPU_SECONDS, CPUS, DISK_BUSY_SECONDS, DISK_BYTES, DISK_OPERATION_SECONDS, DISK_OPERATIONS, METRICS, NETWORK_BYTES,
    NETWORK_PACKETS,
};
use crate::report::openmetrics::{Label, Metric};

/// Name and unit (UCUM).
pub type NameAndUnit = (Cow<'static, str>, &'static str);

static CONVENTIONS: [(&Metric, &str, &str); 8] = [
    (&CPU_SECONDS, "system.cpu.time", "s"),
    (&CPUS, "system.cpu.logical.count", "{cpu}"),
    (&DISK_OPERATIONS, "system.disk.operations", "{operation}"),
    (&DISK_OPERATION_SECONDS, "system.disk.operation_time", "s"),
    (&DISK_BYTES, "system.disk.io", "By"),
    (&DISK_BUSY_SECONDS, "system.disk.io_time", "s"),
    (&NETWORK_BYTES, "system.network.io", "By"),
    (&NETWORK_PACKETS, "system.network.packet.count", "{packet}"),
];

/// Suffixes of the names for Prometheus, and their units.
const UNITS: [(&str, &str); 3] = [("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1")];

/// First words that are a name space of their own.
const NAME_SPACES: [&str; 9] = ["cpu", "idle", "thread", "finding", "disk", "network", "pressure", "cgroup", "sample"];

/// The name and unit of a series. Flushes and discards have no name in the conventions, which know reads and writes.
pub fn name_and_unit(metric: &Metric, labels: &[Label]) -> NameAndUnit {
    let is_known = labels.iter().all(|(name, value)| *name != "operation" || matches!(value.as_str(), "read" | "write"));
    let convention = CONVENTIONS.iter().find(|(known, _, _)| std::ptr::eq(*known, metric));
    match convention {
        Some((_, name, unit)) if is_known => (Cow::Borrowed(*name), *unit),
        _ => own_name(metric.name),
    }
}

fn own_name(name: &str) -> NameAndUnit {
    let name = name.trim_start_matches("stalltop_").trim_end_matches("_total");
    let unit = UNITS.iter().find(|(suffix, _)| name.ends_with(suffix)).map_or("", |(_, unit)| *unit);
    let name = match name.split_once('_') {
        Some((space, rest)) if NAME_SPACES.contains(&space) => format!("stalltop.{space}.{rest}"),
        _ => format!("stalltop.{name}"),
    };
    (Cow::Owned(name), unit)
}

/// The attribute of a label, and its value.
pub fn attribute_of(metric: &Metric, (label, value): &Label) -> (Cow<'static, str>, String) {
    let is_network = metric.name.starts_with("stalltop_network_") && !std::ptr::eq(metric, &NETWORK_PACKETS);
    let key = match *label {
        "device" if is_network => "network.interface.name",
        "device" => "system.device",
        "direction" => "network.io.direction",
        "operation" if matches!(value.as_str(), "read" | "write") => "disk.io.direction",
        "mode" => "cpu.mode",
        other => return (Cow::Owned(format!("stalltop.{other}")), value.clone()),
    };
    // As the conventions call it.
    let value = if *label == "mode" && value == "irq" { "interrupt".to_owned() } else { value.clone() };
    (Cow::Borrowed(key), value)
}

/// The metrics that have another name than `stalltop.…`, as a table of docs/serve.md.
pub fn names_table() -> String {
    let mut table = "| OpenTelemetry | unit | Prometheus |\n| --- | --- | --- |\n".to_owned();
    for (metric, name, unit) in &CONVENTIONS {
        table.push_str(&format!("| `{name}` | {unit} | `{}` |\n", metric.name));
    }
    let example = own_name(names::IDLE_BLOCKED.name);
    let others = METRICS.len() - CONVENTIONS.len();
    table.push_str(&format!(
        "| `{}` and {} others | {} | `{}` |\n",
        example.0,
        others - 1,
        example.1,
        names::IDLE_BLOCKED.name
    ));
    table
}
