//! Runs a command: waits, wires, owns the terminal. The only asynchronous code is in the event loop.

pub mod allocation;
pub mod baseline;
pub mod check;
pub mod compare;
pub mod config;
pub mod doctor;
pub mod door;
pub mod event_loop;
pub mod exit;
pub mod export;
pub mod feed;
pub mod hangup;
pub mod inspect;
pub mod judging;
pub mod keyboard;
pub mod learn;
pub mod lines;
pub mod mark;
pub mod news;
pub mod nicstat;
pub mod output;
pub mod panics;
pub mod papers;
pub mod part;
pub mod patience;
pub mod record;
pub mod recorded;
pub mod recording;
pub mod report;
pub mod rights;
pub mod sampling;
pub mod segments;
pub mod signals;
pub mod stdout;
pub mod table;
pub mod tally;
pub mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use exit::{Exit, Failure};
use stdout::{complain, print};

use crate::cli::{self, Command, Invocation, Refusal};
use crate::kernel::Root;
use crate::kernel::probe::loader;

/// The whole program. Whatever happens: the terminal is given back, and one line says what went wrong.
pub fn start(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    allocation::prepare();
    signals::prepare();
    panics::prepare();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Err(failure) = rights::refuse_set_user_id() {
        return code(Err(failure));
    }
    if matches!(arguments.as_slice(), [_, word] if word == loader::WORD) {
        rights::keep_for_loading();
        loader::serve();
        return ExitCode::SUCCESS;
    }
    let invocation = match cli::parse(arguments) {
        Ok(invocation) => invocation,
        Err(Refusal::Told(text)) => return code(print(&text).map(|_| Exit::Fine)),
        Err(Refusal::Wrong(line)) => {
            complain(&line);
            return ExitCode::from(Exit::Usage.code());
        }
        Err(Refusal::WrongAsNicstat(line)) => {
            complain(&line);
            return ExitCode::from(Exit::Failed.code());
        }
    };
    rights::keep_for(&invocation.command);
    code(panics::caught(|| run(invocation)))
}

fn run(invocation: Invocation) -> Result<Exit, Failure> {
    let Invocation { root, configuration, command } = invocation;
    let root = root.map_or_else(Root::host, Root::at);
    match command {
        Command::Live(live) if terminal::is_there() => event_loop::live(root, &configuration, &live),
        Command::Live(live) => lines::live(root, &configuration, &live),
        Command::Check(check) => check::check(root, &configuration, &check),
        Command::Baseline(command) => baseline::baseline(root, &configuration, &command),
        Command::Doctor => doctor::doctor(root, &configuration),
        Command::Nicstat(options) => nicstat::nicstat(&root, &configuration, &options),
        Command::Mark(words) => mark::mark(&words),
        Command::Completions { shell } => papers::completions(shell),
        Command::Man { command } => papers::manual(&command),
        Command::Record(record) => record::record(root, &configuration, &record),
        Command::Replay(replay) if terminal::is_there() => event_loop::replay(&configuration, &replay),
        Command::Replay(_) => {
            let why = "standard output is no terminal, or TERM is not set";
            Err(Failure::new(Exit::Usage, "cannot replay", why, "for lines try 'stalltop check FILE'"))
        }
        Command::Export(options) => export::export(&configuration, &options),
        Command::Table(options) => table::table(root, &configuration, &options),
        Command::Info(info) => inspect::info(&info),
        Command::Report(report) => report::report(&configuration, &report),
        Command::Cut(cut) => part::cut(&cut),
        Command::Cat(cat) => part::cat(&cat),
        Command::Compare(compare) => compare::compare(&configuration, &compare),
    }
}

fn code(result: Result<Exit, Failure>) -> ExitCode {
    let exit = result.unwrap_or_else(|failure| {
        if !failure.is_told() {
            complain(&failure.to_string());
        }
        failure.exit
    });
    ExitCode::from(exit.code())
}
