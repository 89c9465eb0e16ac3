//! What is known of a stretch of time, for people and programs that read lines. Pure: text out, nothing printed.

pub mod baselines;
pub mod changes;
pub mod chronicle;
pub mod comparison;
pub mod json;
pub mod markdown;
pub mod nagios;
pub mod nicstat;
pub mod page;
pub mod statistics;
pub mod table;
pub mod text;
pub mod window;
pub mod words;
