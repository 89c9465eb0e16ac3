//! The one function that changes a state.

use super::{Effect, Event, State};

/// Takes in what happened; says what is to be done about it beyond drawing.
pub fn update(state: &mut State, event: Event) -> Effect {
    match event {
        Event::Judged(judged) => {
            state.current = Some(judged);
            Effect::Redraw
        }
        Event::Resize { width, height } => {
            state.setup.size = (width, height);
            Effect::Redraw
        }
        Event::Key(super::Key::Char('q') | super::Key::Control('c')) => Effect::Quit,
        _ => Effect::Nothing,
    }
}
