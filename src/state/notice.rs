//! The message in the bottom line.

use super::State;

/// Number of intervals after which a notice is removed.
const NOTICE_INTERVALS: u8 = 6;

/// A message; the next key or `NOTICE_INTERVALS` intervals remove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    /// Whether it is an error
    pub failure: bool,
}

impl Notice {
    pub fn new(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), failure: false }
    }

    pub fn failure(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), failure: true }
    }
}

/// A notice that is displayed.
#[derive(Clone, Debug)]
pub(super) struct ShownNotice {
    notice: Notice,
    /// Number of intervals until it is removed
    intervals_left: u8,
}

impl State {
    /// The displayed notice.
    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref().map(|shown| &shown.notice)
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.notice = Some(ShownNotice { notice, intervals_left: NOTICE_INTERVALS });
    }

    /// An interval has passed: removes a notice that was displayed long enough.
    pub(super) fn age_notice(&mut self) {
        let Some(shown) = &mut self.notice else { return };
        shown.intervals_left = shown.intervals_left.saturating_sub(1);
        if shown.intervals_left == 0 {
            self.notice = None;
        }
    }
}
