//! What is known of a stretch of time, for people and programs that read lines. Pure: text out, nothing printed.

pub mod baselines;
pub mod comparison;
pub mod finding_log;
pub mod formatting;
pub mod html;
pub mod json;
pub mod markdown;
pub mod mean_figures;
pub mod missing;
pub mod nagios;
pub mod nicstat;
pub mod report_data;
pub mod table;
pub mod text;
pub mod window;
