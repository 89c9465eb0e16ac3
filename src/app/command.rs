//! The commands, a file each.

mod baseline;
mod batch;
mod bug_report;
mod cat;
mod check;
pub mod command_docs;
mod compare;
pub mod completions;
mod cut;
mod demo;
mod doctor;
mod export;
mod info;
pub mod json_docs;
pub mod manual;
mod mark;
mod mcp;
mod nicstat;
mod output;
mod probe;
mod record;
mod report;
mod serve;
mod table;
mod trace;

use super::program::exit::{Exit, Failure};
use super::{fleet, full_screen, terminal};
use crate::cli::probe::Probe;
use crate::cli::{Command, Invocation};
use crate::kernel::Root;

/// Runs the command.
pub fn run(invocation: Invocation) -> Result<Exit, Failure> {
    let Invocation { root, configuration, command } = invocation;
    let root = root.map_or_else(Root::host, Root::at_directory);
    match command {
        Command::Live(live) if terminal::is_available() => full_screen::live(root, &configuration, &live),
        Command::Live(live) => batch::live(root, &configuration, &live),
        Command::Check(check) => check::check(root, &configuration, &check),
        Command::Baseline(command) => baseline::baseline(root, &configuration, &command),
        Command::Doctor => doctor::doctor(root, &configuration),
        Command::BugReport(options) => bug_report::bug_report(root, &configuration, &options),
        Command::Nicstat(options) => nicstat::nicstat(&root, &configuration, &options),
        Command::Mark(words) => mark::mark(&words),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man { command } => manual::man_page(&command),
        Command::Record(record) => record::record(root, &configuration, &record),
        Command::Fleet(options) => fleet::fleet(&configuration, &options),
        Command::Serve(options) => serve::serve(root, &configuration, &options),
        Command::Mcp(options) => mcp::mcp(&options),
        Command::Replay(replay) if terminal::is_available() => full_screen::replay(&configuration, &replay),
        Command::Replay(_) => {
            let why = "standard output is not a terminal, or TERM is not set or dumb";
            Err(Failure::new(Exit::Usage, "cannot replay", why, "for text try 'stalltop check FILE'"))
        }
        Command::Demo(options) => demo::demo(&configuration, &options),
        Command::Export(options) => export::export(&configuration, &options),
        Command::Probe(Probe::Fs(options)) => probe::file_systems(&root, &options),
        Command::Probe(Probe::Runq(options)) => probe::run_queue(&root, &options),
        Command::Probe(Probe::Query(options)) => probe::queries(&root, &options),
        Command::Trace(options) => trace::trace(&root, &configuration, &options),
        Command::Table(options) => table::table(root, &configuration, &options),
        Command::Info(info) => info::info(&info),
        Command::Report(report) => report::report(&configuration, &report),
        Command::Cut(cut) => cut::cut(&cut),
        Command::Cat(cat) => cat::cat(&cat),
        Command::Compare(compare) => compare::compare(&configuration, &compare),
    }
}
