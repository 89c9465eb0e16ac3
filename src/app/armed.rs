//! `record --armed`: the last minutes in memory (`history`), what starts a capture (`trigger`, `inbox`, `pressure`, `finding_trigger`), and
//! the capture itself (`capture`, `capture_plan`).
//!
//! A trigger wakes the sampling thread, so that the first sample after it comes within 200 ms. The command (`command/record/armed`)
//! takes triggers from the inbox with each sample.

pub mod capture;
pub mod capture_plan;
pub mod finding_trigger;
pub mod history;
pub mod inbox;
pub mod pressure;
pub mod recent_triggers;
pub mod trigger;
pub mod triggered_command;
