//! Runs a command: connects the layers below, waits for input, owns the terminal. Only the event loop is asynchronous.

pub mod armed;
pub mod baseline_learner;
pub mod child_process;
pub mod command;
pub mod config;
pub mod console;
pub mod demo_playlist;
pub mod disk_jobs;
pub mod evaluated_recording;
pub mod evaluation;
pub mod event_loop;
pub mod finding_command;
pub mod fleet;
mod frame_schedule;
pub mod full_screen;
pub mod live_pipeline;
pub mod mark_socket;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod operations_command;
pub mod process_signal;
pub mod program;
pub mod recorder;
pub mod recording_stream;
pub mod sampling;
pub mod saved_choices;
pub mod saved_screen;
pub mod screen_setup;
pub mod serve;
#[allow(unsafe_code, reason = "the only module of this layer with unsafe code")]
pub mod sys;
pub mod terminal;
pub mod time_range;
pub mod timeline;

use std::ffi::OsString;
use std::process::ExitCode;

use command::completions::{self, SHELL_VARIABLE};
use program::exit::{Exit, Failure};
use program::stdio::{print, print_help_to_stderr, print_stderr};
use program::{allocator, panics, privileges, signals};

use crate::cli::{self, EarlyExit};
use crate::kernel::probe::loader_process::{self, ProbeProgram};

/// The whole program. The terminal is restored in every case, and a failure is one line on standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    allocator::configure();
    signals::ignore_sigxfsz();
    panics::install_hook();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Err(failure) = privileges::refuse_setuid() {
        return exit_code(Err(failure));
    }
    if let Some(wanted) = ProbeProgram::from_arguments(arguments.get(1..).unwrap_or_default()) {
        // It was started as /proc/self/exe.
        let _ = nix::sys::prctl::set_name(c"stalltop");
        privileges::drop_privileges_for_loader();
        loader_process::run_loader(wanted);
        return ExitCode::SUCCESS;
    }
    // Only the script of `stalltop completions` sets it, and writes `--` before the words.
    if let Some(shell) = std::env::var_os(SHELL_VARIABLE)
        && arguments.get(1).is_some_and(|word| word == "--")
    {
        return exit_code(completions::complete(&shell.to_string_lossy(), &arguments));
    }
    let invocation = match cli::parse(arguments) {
        Ok(invocation) => invocation,
        Err(EarlyExit::HelpOrVersion(text)) => return exit_code(print(&text).map(|_| Exit::Success)),
        Err(EarlyExit::UsageError(line)) => {
            print_stderr(&line);
            return ExitCode::from(Exit::Usage.code());
        }
        Err(EarlyExit::MissingCommand(help)) => {
            print_help_to_stderr(&help);
            return ExitCode::from(Exit::Usage.code());
        }
        Err(EarlyExit::PluginUsageError(line)) => {
            print_stderr(&line);
            return ExitCode::from(Exit::Unknown.code());
        }
        Err(EarlyExit::NicstatUsageError(line)) => {
            print_stderr(&line);
            return ExitCode::from(Exit::Failed.code());
        }
    };
    if invocation.command.evaluates_whole_recording() {
        allocator::configure_for_batch();
    } else if invocation.command.shows_recording() {
        allocator::configure_for_replay();
    }
    privileges::drop_privileges_for(&invocation.command);
    exit_code(panics::catch(|| command::run(invocation)))
}

fn exit_code(result: Result<Exit, Failure>) -> ExitCode {
    let exit = result.unwrap_or_else(|failure| {
        if !failure.is_already_reported() {
            print_stderr(&failure.to_string());
        }
        failure.exit
    });
    ExitCode::from(exit.code())
}
