//! What is known of a stretch of time, for people and programs that read lines. Pure: text out, nothing printed.

pub mod baselines;
pub mod json;
pub mod nicstat;
pub mod table;
pub mod text;
pub mod window;
