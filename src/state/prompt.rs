//! The line editor at the bottom of the screen: filter, time, mark.

use tui_input::{Input, InputRequest};

use super::State;
use super::event::Effect;
use super::key::Key;
use super::notice::Notice;
use crate::units::time_spec::TimeSpec;

/// Maximum length of the text in bytes.
const MAX_LENGTH: usize = 200;

/// An open line editor.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub kind: PromptKind,
    pub input: Input,
}

/// The kind of text that a prompt reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    Filter,
    Time,
    Mark,
}

/// Edits a line by a key; returns false if the key does not edit.
pub(super) fn edit_line(input: &mut Input, key: Key) -> bool {
    let request = match key {
        Key::Char(char) => InputRequest::InsertChar(char),
        Key::Backspace => InputRequest::DeletePrevChar,
        Key::Delete => InputRequest::DeleteNextChar,
        Key::Left | Key::ShiftLeft => InputRequest::GoToPrevChar,
        Key::Right | Key::ShiftRight => InputRequest::GoToNextChar,
        Key::Home | Key::Control('a') => InputRequest::GoToStart,
        Key::End | Key::Control('e') => InputRequest::GoToEnd,
        Key::Control('w') => InputRequest::DeletePrevWord,
        Key::Control('u') => InputRequest::DeleteLine,
        _ => return false,
    };
    if !matches!(request, InputRequest::InsertChar(_)) || input.value().len() < MAX_LENGTH {
        input.handle(request);
    }
    true
}

impl State {
    pub(super) fn open_prompt(&mut self, kind: PromptKind) {
        let text = if kind == PromptKind::Filter { self.filter().to_owned() } else { String::new() };
        self.prompt = Some(Prompt { kind, input: Input::new(text) });
    }

    /// A key while a prompt is open. A filter applies with each key.
    pub(super) fn edit_prompt(&mut self, key: Key) -> Effect {
        let Some(mut prompt) = self.prompt.take() else { return Effect::Nothing };
        match key {
            Key::Escape => {
                if prompt.kind == PromptKind::Filter {
                    self.set_filter(String::new());
                }
                return Effect::Redraw;
            }
            Key::Enter => return self.submit_prompt(&prompt),
            key if edit_line(&mut prompt.input, key) => {}
            _ => {
                self.prompt = Some(prompt);
                return Effect::Nothing;
            }
        }
        if prompt.kind == PromptKind::Filter {
            self.set_filter(prompt.input.value().to_owned());
        }
        self.prompt = Some(prompt);
        Effect::Redraw
    }

    fn submit_prompt(&mut self, prompt: &Prompt) -> Effect {
        let text = prompt.input.value().trim();
        match prompt.kind {
            PromptKind::Mark if !text.is_empty() => Effect::Mark(text.to_owned()),
            PromptKind::Time if !text.is_empty() => match self.parse_time(text) {
                Some(at) => self.seek(Effect::JumpTo(at)),
                None => {
                    self.notify(Notice::failure(format!("not a time: {text} (12:03, 12:03:15, -5m, +90s)")));
                    Effect::Redraw
                }
            },
            _ => Effect::Redraw,
        }
    }

    /// A typed time in nanoseconds since the Unix epoch, relative to what can be displayed.
    fn parse_time(&self, text: &str) -> Option<i64> {
        let (first, last) = match &self.timeline.position {
            Some(position) => (position.first.realtime_ns, position.last.realtime_ns),
            None => (self.graphs.history.iter().next()?.at.realtime_ns, self.graphs.history.iter().next_back()?.at.realtime_ns),
        };
        TimeSpec::parse(text)?.resolve(first, last, &self.setup.time_zone)
    }
}
