//! The question before a signal is sent: it names the process, its command and the signal; only `y` sends it. It opens where the
//! processes are those of this machine, and signals were allowed on the command line.

use super::event::{ClickTarget, Effect};
use super::key::Key;
use super::notice::Notice;
use super::process_signal::ProcessSignal;
use super::rows::Item;
use super::{Overlay, Source, State};
use crate::ids::ProcessId;
use crate::sample::task::Process;

/// Bytes of the command line in the question at most.
const MAX_COMMAND_BYTES: usize = 512;

/// The open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalQuestion {
    pub process: ProcessId,
    /// Name and command line; not sanitized
    pub command: String,
    /// Index in `ProcessSignal::ALL`
    pub selected: usize,
}

impl SignalQuestion {
    pub fn signal(&self) -> ProcessSignal {
        ProcessSignal::ALL.get(self.selected).copied().unwrap_or(ProcessSignal::Terminate)
    }

    pub(super) fn select(&mut self, index: usize) {
        self.selected = index.min(ProcessSignal::ALL.len() - 1);
    }

    pub(super) fn select_by(&mut self, by: i64) {
        self.select(self.selected.saturating_add_signed(isize::try_from(by).unwrap_or(0)));
    }
}

impl State {
    /// Opens the question for the process of the open page or the selected row; without one a notice says why.
    pub(super) fn ask_for_signal(&mut self) {
        match self.question_for_selected_process() {
            Ok(question) => self.overlay = Some(Overlay::SignalQuestion(question)),
            Err(reason) => self.notify(Notice::new(reason)),
        }
    }

    fn question_for_selected_process(&self) -> Result<SignalQuestion, &'static str> {
        match self.setup.source {
            _ if self.options.demo.is_some() => return Err("no signals in the demo: its processes are not on this machine"),
            Source::Replay { .. } | Source::Pipe { .. } | Source::Host { .. } => {
                return Err("no signals in a replay: its processes may be gone, or on another machine");
            }
            Source::Live if !self.options.allows_signals => {
                return Err("signals are not enabled: start stalltop with --allow-signals");
            }
            Source::Live => {}
        }
        let process = self.selected_process().ok_or("no process is selected: ↑ ↓ select one, then K")?;
        if process.kernel_thread {
            return Err("this is a kernel thread: it takes no signals");
        }
        Ok(SignalQuestion { process: process.id(), command: command(process), selected: 0 })
    }

    /// The process of the open page or the selected row; of a thread, the process to which it belongs.
    fn selected_process(&self) -> Option<&Process> {
        let tasks = self.current()?.interval.newer.tasks.as_ref().ok()?;
        match self.open_or_selected_item()? {
            Item::Process(id) => tasks.process(id.pid).map(|process| &**process).filter(|process| process.id() == id),
            Item::Thread(id) => tasks.thread(id).map(|(process, _)| &**process),
            _ => None,
        }
    }

    /// A key while the question is open.
    pub(super) fn answer_signal_question(&mut self, mut question: SignalQuestion, key: Key) -> Effect {
        let mut effect = Effect::Redraw;
        match key {
            Key::Char('y') => return Effect::SendSignal { process: question.process, signal: question.signal() },
            Key::Escape | Key::Char('n' | 'q') => return Effect::Redraw,
            Key::Up | Key::Char('k') => question.select_by(-1),
            Key::Down | Key::Char('j') => question.select_by(1),
            Key::Home => question.select(0),
            Key::End => question.select(usize::MAX),
            _ => effect = Effect::Nothing,
        }
        self.overlay = Some(Overlay::SignalQuestion(question));
        effect
    }

    /// A click while the question is open: outside of it, it closes.
    pub(super) fn click_signal_question(&mut self, mut question: SignalQuestion, target: &ClickTarget) -> Effect {
        let effect = match *target {
            ClickTarget::Signal(index) => {
                question.select(index);
                Effect::Redraw
            }
            ClickTarget::Overlay => Effect::Nothing,
            _ => return Effect::Redraw,
        };
        self.overlay = Some(Overlay::SignalQuestion(question));
        effect
    }
}

/// The name, and the command line with blanks between its arguments.
fn command(process: &Process) -> String {
    let name = process.comm.to_string_lossy();
    let line = process.facts.cmdline.as_ref().map_or(&b""[..], |line| line.as_bytes());
    let line = String::from_utf8_lossy(line.get(..MAX_COMMAND_BYTES).unwrap_or(line)).replace('\0', " ");
    match line.trim_end() {
        "" => name,
        line => format!("{name}: {line}"),
    }
}
