//! Draws a state. A pure function of it: no clock, no file, no change of anything.

use ratatui::Frame;

use crate::state::{Click, State};

/// One frame.
pub fn render(state: &State, frame: &mut Frame) {
    let _ = (state, frame);
}

/// What is drawn at this column and row.
pub fn hit(state: &State, column: u16, row: u16) -> Click {
    let _ = (state, column, row);
    Click::Nothing
}
