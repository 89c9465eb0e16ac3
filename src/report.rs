//! Formats intervals, findings and whole recordings as text, JSON, CSV, HTML, Markdown. Pure functions: nothing is printed here.

pub mod baselines;
pub mod comparison;
pub mod file_systems;
pub mod finding_log;
pub mod fleet;
pub mod folded;
pub mod formatting;
pub mod html;
pub mod json;
mod latency_table;
pub mod markdown;
pub mod mean_figures;
pub mod missing;
pub mod nagios;
pub mod nicstat;
pub mod openmetrics;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod query;
pub mod report_data;
pub mod run_queue;
pub mod table;
pub mod text;
pub mod wait_graph;
pub mod window;
