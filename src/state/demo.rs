//! What a recording of `stalltop demo` shows: the text at the bottom of its screens.

/// A recording of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemoNote {
    /// From 1
    pub number: usize,
    /// Number of recordings
    pub count: usize,
    pub title: &'static str,
    /// What to notice, and which key to press
    pub notice: &'static str,
    /// Whether `q` goes to another recording
    pub has_next: bool,
}

impl DemoNote {
    /// Lines of the note on a terminal of this height.
    pub fn lines(height: u16) -> u16 {
        match height {
            ..=15 => 1,
            16..=20 => 2,
            _ => 3,
        }
    }
}
