//! One table from key to action. The help overlay is printed from it, so that no key goes unmentioned.

use super::event::Key;
use super::screen::Screen;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Show(Screen),
    NextScreen,
    PreviousScreen,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Back,
    Filter,
    Sort,
    SortBack,
    Reverse,
    Threads,
    Tree,
    ByClass,
    Peers,
    AllCpus,
    GoToMoment,
    Pause,
    SampleBack,
    SampleForward,
    MinuteBack,
    MinuteForward,
    Jump,
    NextFinding,
    PreviousFinding,
    Save,
    Record,
    Mark,
    NextMark,
    Plus,
    Minus,
    Help,
    Redraw,
    Suspend,
    Quit,
}

/// One line of the help overlay: keys that belong together, and what each of them does.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// As a person would say them
    pub shown: &'static str,
    pub words: &'static str,
    pub keys: &'static [(Key, Action)],
    /// Empty: on every screen
    pub screens: &'static [Screen],
}

/// The action of a key on a screen; a binding of that screen alone goes before one of all screens.
pub fn action(screen: Screen, key: Key) -> Option<Action> {
    let on = |binding: &&Binding| binding.screens.contains(&screen);
    let everywhere = |binding: &&Binding| binding.screens.is_empty();
    let find = |binding: &Binding| binding.keys.iter().find(|bound| bound.0 == key).map(|bound| bound.1);
    BINDINGS.iter().filter(on).find_map(find).or_else(|| BINDINGS.iter().filter(everywhere).find_map(find))
}

/// The screens that a key which does nothing here is for; `None` where it is for none.
pub fn elsewhere(key: Key) -> Option<&'static [Screen]> {
    BINDINGS.iter().find(|binding| binding.keys.iter().any(|bound| bound.0 == key)).map(|binding| binding.screens)
}

use Key::{Char, Control, Function};

/// Every key there is, in the order in which help shows them.
pub const BINDINGS: &[Binding] = &[
    Binding {
        shown: "1 … 6  Tab",
        words: "overview, CPU, disk, network, tasks, findings",
        keys: &[
            (Char('1'), Action::Show(Screen::Overview)),
            (Char('2'), Action::Show(Screen::Cpu)),
            (Char('3'), Action::Show(Screen::Disk)),
            (Char('4'), Action::Show(Screen::Network)),
            (Char('5'), Action::Show(Screen::Tasks)),
            (Char('6'), Action::Show(Screen::Findings)),
            (Key::Tab, Action::NextScreen),
            (Key::BackTab, Action::PreviousScreen),
        ],
        screens: &[],
    },
    Binding {
        shown: "↑ ↓  j k",
        words: "move (PgUp PgDn Home End g G, wheel, click; Shift selects text)",
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
        screens: &[],
    },
    Binding {
        shown: "Enter / Esc",
        words: "details of what is under the cursor / back",
        keys: &[(Key::Enter, Action::Open), (Key::Escape, Action::Back)],
        screens: &[],
    },
    Binding {
        shown: "/",
        words: "filter rows (F4; fuzzy; Esc clears); on 1: the tasks",
        keys: &[
            (Char('/'), Action::Filter),
            (Char('\\'), Action::Filter),
            (Function(3), Action::Filter),
            (Function(4), Action::Filter),
        ],
        screens: &[],
    },
    Binding {
        shown: "s  S",
        words: "sort by the next column (→ ←, F6, or click it), reverse",
        keys: &[
            (Char('s'), Action::Sort),
            (Function(6), Action::Sort),
            (Key::Right, Action::Sort),
            (Key::Left, Action::SortBack),
            (Char('S'), Action::Reverse),
        ],
        screens: &[Screen::Cpu, Screen::Disk, Screen::Network, Screen::Tasks],
    },
    Binding {
        shown: "t  T  c",
        words: "threads on/off, tree (F5), group by what they wait for",
        keys: &[
            (Char('t'), Action::Threads),
            (Char('T'), Action::Tree),
            (Function(5), Action::Tree),
            (Char('c'), Action::ByClass),
        ],
        screens: &[Screen::Tasks],
    },
    Binding {
        shown: "p",
        words: "remote hosts (peers) or interfaces",
        keys: &[(Char('p'), Action::Peers)],
        screens: &[Screen::Network],
    },
    Binding {
        shown: "a",
        words: "all CPUs in their order, or the busiest first",
        keys: &[(Char('a'), Action::AllCpus)],
        screens: &[Screen::Cpu],
    },
    Binding {
        shown: "o",
        words: "go to the moment when the finding began",
        keys: &[(Char('o'), Action::GoToMoment)],
        screens: &[Screen::Findings],
    },
    Binding {
        shown: "Space",
        words: "pause / go on (live: back to the present)",
        keys: &[(Char(' '), Action::Pause)],
        screens: &[],
    },
    Binding {
        shown: "[ ]  { }",
        words: "one sample back / forward, one minute",
        keys: &[
            (Char('['), Action::SampleBack),
            (Char(']'), Action::SampleForward),
            (Char('{'), Action::MinuteBack),
            (Char('}'), Action::MinuteForward),
        ],
        screens: &[],
    },
    Binding {
        shown: "b  n N",
        words: "jump to a time, to the next / previous finding",
        keys: &[(Char('b'), Action::Jump), (Char('n'), Action::NextFinding), (Char('N'), Action::PreviousFinding)],
        screens: &[],
    },
    Binding {
        shown: "w",
        words: "write the last minutes, which are in memory, to a file",
        keys: &[(Char('w'), Action::Save)],
        screens: &[],
    },
    Binding {
        shown: "R  m  M",
        words: "start / stop recording, set a mark, go to the next one",
        keys: &[(Char('R'), Action::Record), (Char('m'), Action::Mark), (Char('M'), Action::NextMark)],
        screens: &[],
    },
    Binding {
        shown: "+ -",
        words: "longer / shorter interval; in a replay: faster / slower",
        keys: &[(Char('+'), Action::Plus), (Char('='), Action::Plus), (Char('-'), Action::Minus)],
        screens: &[],
    },
    Binding {
        shown: "h ?  q",
        words: "this help (F1), quit (F10, Ctrl-C); Ctrl-Z, Ctrl-L as usual",
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
        screens: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings_on_one_screen() {
        for screen in Screen::ALL {
            let mut seen = Vec::new();
            for binding in BINDINGS.iter().filter(|b| b.screens.is_empty() || b.screens.contains(&screen)) {
                for (key, _) in binding.keys {
                    assert!(!seen.contains(key), "{key:?} twice on {screen:?}");
                    seen.push(*key);
                }
            }
        }
    }

    #[test]
    fn a_key_of_one_screen_does_nothing_on_another() {
        assert_eq!(action(Screen::Tasks, Char('t')), Some(Action::Threads));
        assert_eq!(action(Screen::Disk, Char('t')), None);
        assert_eq!(action(Screen::Disk, Char('q')), Some(Action::Quit));
    }
}
