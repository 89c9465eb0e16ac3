//! Runs a command: waits, wires, owns the terminal. The only asynchronous code is in the event loop.

pub mod command;
pub mod config;
pub mod event_loop;
pub mod feed;
pub mod judging;
pub mod program;
pub mod recording;
pub mod sampling;
pub mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use program::exit::{Exit, Failure};
use program::stdout::{complain, print};
use program::{allocation, panics, rights, signals};

use crate::cli::{self, Refusal};
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
    code(panics::caught(|| command::run(invocation)))
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
