//! What is known of a stretch of time, for people and programs that read lines. Pure: text out, nothing printed.

pub mod baselines;
pub mod chronicle;
pub mod json;
pub mod markdown;
pub mod nicstat;
pub mod page;
pub mod table;
pub mod text;
pub mod window;
pub mod words;
