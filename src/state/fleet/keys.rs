//! The keys of the fleet screen. Its help is printed from this table.

use crate::state::key::Key;
use Key::{Char, Control, Function};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetAction {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Back,
    Filter,
    Save,
    TogglePause,
    Faster,
    Slower,
    /// Move a replay by seconds
    Step(i64),
    Help,
    Repaint,
    Suspend,
    Quit,
}

/// Related keys: an entry of the help.
#[derive(Clone, Copy, Debug)]
pub struct FleetBinding {
    /// The keys as the help names them
    pub key_label: &'static str,
    pub description: &'static str,
    pub keys: &'static [(Key, FleetAction)],
    /// Only of recordings
    pub replay_only: bool,
}

/// The action of a key.
pub fn action(key: Key, is_replay: bool) -> Option<FleetAction> {
    let bindings = BINDINGS.iter().filter(|binding| is_replay || !binding.replay_only);
    bindings.flat_map(|binding| binding.keys).find(|(bound, _)| *bound == key).map(|(_, action)| *action)
}

/// All keys, in the order of the help.
pub const BINDINGS: &[FleetBinding] = &[
    FleetBinding {
        key_label: "↑ ↓  j k",
        description: "select a host (PgUp PgDn Home End g G, wheel, click)",
        keys: &[
            (Key::Up, FleetAction::Up),
            (Key::Down, FleetAction::Down),
            (Char('k'), FleetAction::Up),
            (Char('j'), FleetAction::Down),
            (Key::PageUp, FleetAction::PageUp),
            (Key::PageDown, FleetAction::PageDown),
            (Key::Home, FleetAction::First),
            (Key::End, FleetAction::Last),
            (Char('g'), FleetAction::First),
            (Char('G'), FleetAction::Last),
        ],
        replay_only: false,
    },
    FleetBinding {
        key_label: "Enter / Esc",
        description: "all screens of the selected host / back to the fleet",
        keys: &[(Key::Enter, FleetAction::Open), (Key::Escape, FleetAction::Back)],
        replay_only: false,
    },
    FleetBinding {
        key_label: "/",
        description: "only hosts whose name, condition or cause contains a text (Esc clears)",
        keys: &[(Char('/'), FleetAction::Filter), (Function(3), FleetAction::Filter), (Function(4), FleetAction::Filter)],
        replay_only: false,
    },
    FleetBinding {
        key_label: "w",
        description: "save the last minutes of all hosts, a recording each",
        keys: &[(Char('w'), FleetAction::Save)],
        replay_only: false,
    },
    FleetBinding {
        key_label: "Space",
        description: "pause / resume the replay",
        keys: &[(Char(' '), FleetAction::TogglePause)],
        replay_only: true,
    },
    FleetBinding {
        key_label: "[ ]  { }",
        description: "back / forward by one second, by one minute",
        keys: &[
            (Char('['), FleetAction::Step(-1)),
            (Char(']'), FleetAction::Step(1)),
            (Char('{'), FleetAction::Step(-60)),
            (Char('}'), FleetAction::Step(60)),
        ],
        replay_only: true,
    },
    FleetBinding {
        key_label: "+ -",
        description: "play faster / slower",
        keys: &[(Char('+'), FleetAction::Faster), (Char('='), FleetAction::Faster), (Char('-'), FleetAction::Slower)],
        replay_only: true,
    },
    FleetBinding {
        key_label: "h ?  q",
        description: "help (F1), quit (F10, Ctrl-C), suspend (Ctrl-Z), redraw (Ctrl-L)",
        keys: &[
            (Char('h'), FleetAction::Help),
            (Char('?'), FleetAction::Help),
            (Function(1), FleetAction::Help),
            (Char('q'), FleetAction::Quit),
            (Function(10), FleetAction::Quit),
            (Control('c'), FleetAction::Quit),
            (Control('z'), FleetAction::Suspend),
            (Control('l'), FleetAction::Repaint),
        ],
        replay_only: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_action() {
        let keys: Vec<Key> = BINDINGS.iter().flat_map(|binding| binding.keys).map(|(key, _)| *key).collect();
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{key:?} twice");
        }
    }
}
