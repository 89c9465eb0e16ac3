//! The list of screens. A screen is a line in `with_screens!` and two items called `SCREEN`: a `ScreenDefinition` in
//! `state/screen/<file>.rs`, and a `ScreenView` in `view/<file>.rs`. Without one of them it does not compile.

mod cpu;
mod disk;
mod findings;
mod network;
mod overview;
pub mod pressure;
mod tasks;

use super::State;
use super::filter::FilterMatcher;
use super::layout::{ListLines, ScreenLayout};
use super::panes::{self, Band};
use super::rows::Row;
use super::sort::SortColumn;
use crate::findings::Evaluation;

/// Calls a macro with the variant of `Screen` and the name of the files of each screen, in the order of their keys.
macro_rules! with_screens {
    ($list:ident) => {
        $list! {
            Overview => overview,
            Cpu => cpu,
            Disk => disk,
            Network => network,
            Tasks => tasks,
            Findings => findings,
            Pressure => pressure,
        }
    };
}
pub(crate) use with_screens;

macro_rules! define_screens {
    ($($variant:ident => $file:ident,)*) => {
        /// A screen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Screen {
            $($variant,)*
        }

        impl Screen {
            pub const ALL: [Screen; [$(Screen::$variant),*].len()] = [$(Screen::$variant),*];

            pub const fn definition(self) -> &'static ScreenDefinition {
                match self {
                    $(Screen::$variant => &$file::SCREEN,)*
                }
            }
        }
    };
}

with_screens!(define_screens);

/// What the state knows of a screen.
pub struct ScreenDefinition {
    /// The name in the key line
    pub label: &'static str,
    /// The same on a narrow terminal, where the keys need the room
    pub short_label: &'static str,
    /// The sort columns of the list, the default first; empty if the list cannot be sorted
    pub sort_columns: &'static [SortColumn],
    /// The rows of the list, filtered and sorted
    pub(super) rows: fn(&State, &Evaluation, FilterMatcher) -> Vec<Row>,
    /// Why the sort order cannot be changed, or `None` if it can
    pub(super) fixed_order_reason: fn(&State) -> Option<&'static str>,
    /// Lines of the active findings above the body
    pub(super) finding_lines: fn(&State) -> u16,
    /// Lines above and below the list, in the body or in the pane of the list
    pub(super) list_lines: fn(&State, &ScreenLayout) -> ListLines,
    /// The panes on a large terminal; empty if the screen has none
    pub bands: &'static [Band],
    /// The pane of the list; `None` if the list is in the body
    pub list_pane: Option<usize>,
}

impl ScreenDefinition {
    pub const fn pane_count(&self) -> usize {
        panes::pane_count(self.bands)
    }
}

/// A number of rows of a pane.
fn rows_of(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX).min(1000)
}

#[allow(clippy::derivable_impls, reason = "the variants are made by a macro")]
impl Default for Screen {
    fn default() -> Screen {
        Screen::Overview
    }
}

impl Screen {
    /// The name in the key line.
    pub fn label(self) -> &'static str {
        self.definition().label
    }

    /// The sort columns of the list, the default first; empty if the list cannot be sorted.
    pub fn sort_columns(self) -> &'static [SortColumn] {
        self.definition().sort_columns
    }

    /// The key of the screen.
    pub fn digit(self) -> u8 {
        self as u8 + 1
    }

    /// The screen with this key.
    pub fn with_key(key: char) -> Option<Screen> {
        let digit = key.to_digit(10)?;
        Screen::ALL.into_iter().find(|screen| u32::from(screen.digit()) == digit)
    }

    pub fn next(self) -> Screen {
        Screen::ALL.get(self as usize + 1).copied().unwrap_or_default()
    }

    pub fn previous(self) -> Screen {
        Screen::ALL.get((self as usize).wrapping_sub(1)).or(Screen::ALL.last()).copied().unwrap_or_default()
    }
}
