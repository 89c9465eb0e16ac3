//! The table of key bindings. The help page is generated from it. The key of a screen is its number in the list of screens.

mod action;

use super::key::Key;
use super::screen::Screen;
pub use action::Action;

/// One entry of the help page: related keys and their actions.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The keys as the help page names them
    pub key_label: &'static str,
    pub description: &'static str,
    pub keys: &'static [(Key, Action)],
    /// The screens on which the keys work
    pub screens: Screens,
}

/// The screens on which keys work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screens {
    All,
    /// Those whose list can be sorted
    Sortable,
    Only(Screen),
}

impl Screens {
    pub fn contain(self, screen: Screen) -> bool {
        match self {
            Screens::All => true,
            Screens::Sortable => !screen.sort_columns().is_empty(),
            Screens::Only(only) => only == screen,
        }
    }

    /// Their digits: `5`, `2–5, 7`; `None` if they are all screens.
    pub fn digits(self) -> Option<String> {
        if self == Screens::All {
            return None;
        }
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for digit in Screen::ALL.into_iter().filter(|&screen| self.contain(screen)).map(Screen::digit) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == digit => *last = digit,
                _ => ranges.push((digit, digit)),
            }
        }
        let range = |&(first, last): &(u8, u8)| if first == last { first.to_string() } else { format!("{first}–{last}") };
        Some(ranges.iter().map(range).collect::<Vec<_>>().join(", "))
    }

    /// The screen, if it is only one.
    pub fn single(self) -> Option<Screen> {
        if let Screens::Only(screen) = self { Some(screen) } else { None }
    }
}

/// The action of a key on a screen. A binding for this screen precedes one for all screens.
pub fn action(screen: Screen, key: Key) -> Option<Action> {
    if let Char(digit) = key
        && let Some(screen) = Screen::with_key(digit)
    {
        return Some(Action::Show(screen));
    }
    let on = |binding: &&Binding| binding.screens != Screens::All && binding.screens.contain(screen);
    let everywhere = |binding: &&Binding| binding.screens == Screens::All;
    let find = |binding: &Binding| binding.keys.iter().find(|bound| bound.0 == key).map(|bound| bound.1);
    BINDINGS.iter().filter(on).find_map(find).or_else(|| BINDINGS.iter().filter(everywhere).find_map(find))
}

/// The screens on which a key works; `None` if it is not bound.
pub fn screens_for_key(key: Key) -> Option<Screens> {
    BINDINGS.iter().find(|binding| binding.keys.iter().any(|bound| bound.0 == key)).map(|binding| binding.screens)
}

use Key::{Char, Control, Function};

/// All keys, in the order of the help page.
pub const BINDINGS: &[Binding] = &[
    Binding {
        key_label: "Tab  z",
        description: "next pane (next screen if there is none); z: zoom the pane",
        keys: &[(Key::Tab, Action::NextPane), (Key::BackTab, Action::PreviousPane), (Char('z'), Action::ZoomPane)],
        screens: Screens::All,
    },
    Binding {
        key_label: "↑ ↓  j k",
        description: "move (PgUp PgDn Home End g G, wheel, click; Shift selects text)",
        keys: &[
            (Key::Up, Action::Up),
            (Key::Down, Action::Down),
            (Char('k'), Action::Up),
            (Char('j'), Action::Down),
            (Key::PageUp, Action::PageUp),
            (Key::PageDown, Action::PageDown),
            (Key::Home, Action::First),
            (Key::End, Action::Last),
            (Char('g'), Action::First),
            (Char('G'), Action::Last),
        ],
        screens: Screens::All,
    },
    Binding {
        key_label: "Enter / Esc",
        description: "details of the selected row / back",
        keys: &[(Key::Enter, Action::OpenDetails), (Key::Escape, Action::Back)],
        screens: Screens::All,
    },
    Binding {
        key_label: "/",
        description: "filter rows (F4; fuzzy; Esc clears); on 1: filter tasks",
        keys: &[
            (Char('/'), Action::Filter),
            (Char('\\'), Action::Filter),
            (Function(3), Action::Filter),
            (Function(4), Action::Filter),
        ],
        screens: Screens::All,
    },
    Binding {
        key_label: "s  S",
        description: "sort by the next column (→ ←, F6, or click it), reverse",
        keys: &[
            (Char('s'), Action::NextSort),
            (Function(6), Action::NextSort),
            (Key::Right, Action::NextSort),
            (Key::Left, Action::PreviousSort),
            (Char('S'), Action::ReverseSort),
        ],
        screens: Screens::Sortable,
    },
    Binding {
        key_label: "( )",
        description: "scroll the list left / right: hidden columns, long texts (Shift-← Shift-→, horizontal wheel)",
        keys: &[
            (Char('('), Action::MoveLeft),
            (Char(')'), Action::MoveRight),
            (Key::ShiftLeft, Action::MoveLeft),
            (Key::ShiftRight, Action::MoveRight),
        ],
        screens: Screens::Sortable,
    },
    Binding {
        key_label: "t T x c u",
        description: "threads on/off, tree (F5), fold a branch; group by wait class, by container, pod or unit (remembered)",
        keys: &[
            (Char('t'), Action::ToggleThreads),
            (Char('T'), Action::ToggleTree),
            (Function(5), Action::ToggleTree),
            (Char('x'), Action::ToggleBranch),
            (Char('c'), Action::ToggleWaitClasses),
            (Char('u'), Action::ToggleCgroups),
        ],
        screens: Screens::Only(Screen::Tasks),
    },
    Binding {
        key_label: "p",
        description: "remote hosts / interfaces",
        keys: &[(Char('p'), Action::ToggleRemoteHosts)],
        screens: Screens::Only(Screen::Network),
    },
    Binding {
        key_label: "a",
        description: "CPUs by number / busiest first",
        keys: &[(Char('a'), Action::ToggleCpuOrder)],
        screens: Screens::Only(Screen::Cpu),
    },
    Binding {
        key_label: "o",
        description: "go to the start of the finding",
        keys: &[(Char('o'), Action::GoToFindingStart)],
        screens: Screens::Only(Screen::Findings),
    },
    Binding {
        key_label: "Space",
        description: "pause / resume (live: back to now)",
        keys: &[(Char(' '), Action::TogglePause)],
        screens: Screens::All,
    },
    Binding {
        key_label: "[ ]  { }",
        description: "back / forward by one sample, by one minute; or click a graph",
        keys: &[
            (Char('['), Action::SampleBack),
            (Char(']'), Action::SampleForward),
            (Char('{'), Action::MinuteBack),
            (Char('}'), Action::MinuteForward),
        ],
        screens: Screens::All,
    },
    Binding {
        key_label: "< >  Z",
        description: "graphs show a shorter / longer time (1s to 24h), all of it",
        keys: &[(Char('<'), Action::ShorterGraphs), (Char('>'), Action::LongerGraphs), (Char('Z'), Action::WholeGraphs)],
        screens: Screens::All,
    },
    Binding {
        key_label: "v",
        description: "a span: [ ] ← → extend it, tables show its figures, w saves it",
        keys: &[(Char('v'), Action::ToggleSpan)],
        screens: Screens::All,
    },
    Binding {
        key_label: "b  n N",
        description: "jump to a time, to the next / previous finding",
        keys: &[(Char('b'), Action::JumpToTime), (Char('n'), Action::NextFinding), (Char('N'), Action::PreviousFinding)],
        screens: Screens::All,
    },
    Binding {
        key_label: "w",
        description: "save the samples in memory (the last minutes) to a file",
        keys: &[(Char('w'), Action::Save)],
        screens: Screens::All,
    },
    Binding {
        key_label: "R  m  M",
        description: "start / stop recording, set a mark, go to the next mark",
        keys: &[(Char('R'), Action::ToggleRecording), (Char('m'), Action::Mark), (Char('M'), Action::NextMark)],
        screens: Screens::All,
    },
    Binding {
        key_label: "y Y  P",
        description: "copy the row or sentence, the command (OSC 52; in tmux: set-clipboard on or allow-passthrough on); save the \
                      screen as text, ANSI and SVG",
        keys: &[(Char('y'), Action::CopySelection), (Char('Y'), Action::CopyCommand), (Char('P'), Action::SaveScreen)],
        screens: Screens::All,
    },
    Binding {
        key_label: "K",
        description: "send a signal to the selected process, after a question (F9; only with --allow-signals)",
        keys: &[(Char('K'), Action::SendSignal), (Function(9), Action::SendSignal)],
        screens: Screens::All,
    },
    Binding {
        key_label: "C",
        description: "choose the columns, also with a click beside the headings (remembered)",
        keys: &[(Char('C'), Action::ChooseColumns)],
        screens: Screens::Sortable,
    },
    Binding {
        key_label: ":  F2",
        description: "every action, screen and finding by fuzzy search (Ctrl-P); theme, panes (remembered)",
        keys: &[(Char(':'), Action::OpenPalette), (Control('p'), Action::OpenPalette), (Function(2), Action::OpenSettings)],
        screens: Screens::All,
    },
    Binding {
        key_label: "+ -",
        description: "longer / shorter interval; in a replay: faster / slower",
        keys: &[(Char('+'), Action::Plus), (Char('='), Action::Plus), (Char('-'), Action::Minus)],
        screens: Screens::All,
    },
    Binding {
        key_label: "h ?  q",
        description: "help (F1), quit (F10, Ctrl-C), suspend (Ctrl-Z), redraw (Ctrl-L)",
        keys: &[
            (Char('h'), Action::Help),
            (Char('?'), Action::Help),
            (Function(1), Action::Help),
            (Char('q'), Action::Quit),
            (Function(10), Action::Quit),
            (Control('c'), Action::Quit),
            (Control('z'), Action::Suspend),
            (Control('l'), Action::Redraw),
        ],
        screens: Screens::All,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_action_per_screen() {
        for screen in Screen::ALL {
            let mut seen = Vec::new();
            for binding in BINDINGS.iter().filter(|binding| binding.screens.contain(screen)) {
                for (key, _) in binding.keys {
                    assert!(!seen.contains(key), "{key:?} twice on {screen:?}");
                    seen.push(*key);
                }
            }
        }
    }

    #[test]
    fn a_key_of_one_screen_is_unbound_on_another() {
        assert_eq!(action(Screen::Tasks, Char('t')), Some(Action::ToggleThreads));
        assert_eq!(action(Screen::Disk, Char('t')), None);
        assert_eq!(action(Screen::Disk, Char('q')), Some(Action::Quit));
    }
}
