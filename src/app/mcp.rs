//! The tools of `stalltop mcp`: each runs another command of this program and returns a part of its JSON output. No tool writes anything,
//! and each answer has a limited size.

mod answer;
mod arguments;
mod compare;
mod diagnose;
mod explain;
mod program;
mod recordings;
mod schema;
mod server;
mod table;
mod tool;

pub use server::Server;
pub use tool::AllowedTargets;
