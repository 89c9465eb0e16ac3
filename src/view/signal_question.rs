//! The question before a signal is sent, over the screen: the process, its command, and a line for each signal.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::StyleRole;
use crate::safe;
use crate::state::ClickTarget;
use crate::state::process_signal::ProcessSignal;
use crate::state::signal_question::SignalQuestion;

/// Cells of the question at most.
const MAX_WIDTH: u16 = 76;

pub fn draw(question: &SignalQuestion, pane: &mut Pane) {
    // The frame, the question, the command, and the signals.
    let lines = 4 + ProcessSignal::ALL.len() as u16;
    let (width, height) = (MAX_WIDTH.min(pane.width()), lines.min(pane.height()));
    let mut frame = pane.subarea((pane.width() - width) / 2, (pane.height() - height) / 2, width, height);
    frame.clear();
    frame.on_click(ClickTarget::Overlay);
    let mut inner = frame.framed(("Signal", StyleRole::Bold), ("y sends it, ↑ ↓ choose, Esc: no", StyleRole::Dim));
    let signal = question.signal().name();
    inner.line(0, (safe!("Send {signal} to pid {}?", question.process.pid), StyleRole::Warning));
    inner.line(1, SafeLine::new(SafeText::sanitize(question.command.clone()), StyleRole::Bold));
    let rows = usize::from(inner.height().saturating_sub(2));
    let top = (question.selected + 1).saturating_sub(rows);
    for (y, (at, signal)) in (2..inner.height()).zip(ProcessSignal::ALL.into_iter().enumerate().skip(top)) {
        let mut row = inner.subarea(0, y, u16::MAX, 1);
        row.line(0, SafeLine::new(safe!(" {:<8} ", signal.name()), StyleRole::Plain).with(signal.meaning(), StyleRole::Dim));
        row.on_click(ClickTarget::Signal(at));
        if at == question.selected {
            row.highlight_rows(0, 1);
        }
    }
}
