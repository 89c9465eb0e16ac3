//! The terminal, its keys and the signals: what the loops of the screens wait for beside their samples. A loop takes it, and gives it back
//! to the next one.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};

use crate::app::disk_jobs::ClosingReport;
use crate::app::event_loop::EventLoop;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::SignalEvents;
use crate::app::terminal::Terminal;
use crate::app::terminal::keyboard::{self, Input};
use crate::app::timeline::Timeline;
use crate::state::{State, TerminalCapabilities};

pub struct Console {
    pub terminal: Terminal,
    pub signals: SignalEvents,
    pub keys: mpsc::Receiver<Input>,
}

/// How the user has left the screens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The program ends
    Quit,
    /// To the fleet
    Back,
}

impl Console {
    /// Takes the terminal. Called within the runtime. `terminated`: as of `SignalEvents`.
    pub fn open(terminated: Arc<Notify>) -> Result<Console, Failure> {
        let signals = SignalEvents::listen(terminated).map_err(failed("cannot wait for signals"))?;
        let terminal = Terminal::init().map_err(failed("cannot use the terminal"))?;
        let keys = keyboard::listen()?;
        Ok(Console { terminal, signals, keys })
    }

    /// Shows a timeline until the user leaves it. Saves and closes what was begun there.
    pub async fn show(self, state: State, timeline: Timeline) -> Shown {
        let mut event_loop = EventLoop::new(self, state, timeline, None);
        let left = event_loop.run().await;
        let terminal = event_loop.terminal_capabilities();
        let (console, closing) = event_loop.into_parts();
        Shown { console, terminal, left, report: closing.close() }
    }
}

/// What remains of a timeline that was shown.
pub struct Shown {
    pub console: Console,
    /// Theme and characters as they were chosen meanwhile
    pub terminal: TerminalCapabilities,
    pub left: Result<Left, Failure>,
    /// What was saved there, and what could not be written
    pub report: ClosingReport,
}

/// The runtime of the screens: one thread.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(failed("cannot start"))
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(Exit::Failed, what, error, "")
}
