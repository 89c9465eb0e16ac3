//! The state of the fleet screen: one row a host. As in `state`, `update` is the only function that changes it, and `app` carries out
//! the effects that it returns.

pub mod causes;
pub mod host;
mod key_input;
pub mod keys;
pub mod layout;
mod order;

use jiff::tz::TimeZone;
use tui_input::Input;

use super::filter::{FilterMatcher, MatchMode};
use super::key::Key;
use super::notice::Notice;
use super::terminal_capabilities::TerminalCapabilities;
use causes::FleetCause;
use host::{Condition, FleetHost};

/// How long a notice is shown.
const NOTICE_NS: u64 = 8_000_000_000;

/// What the program is started with.
#[derive(Clone, Debug)]
pub struct FleetSetup {
    pub terminal: TerminalCapabilities,
    /// Time zone of all displayed times
    pub time_zone: TimeZone,
    /// Columns and rows of the terminal
    pub size: (u16, u16),
    /// The speed of a replay; `None`: live
    pub playback_speed: Option<f64>,
    /// The directory that the hosts are recorded in
    pub recorded_in: Option<String>,
}

/// Everything that a frame of the fleet depends on.
#[derive(Clone, Debug)]
pub struct FleetState {
    setup: FleetSetup,
    /// In the order of the command line
    pub hosts: Vec<FleetHost>,
    /// Indices of all hosts, the worst first
    order: Vec<usize>,
    /// Those that the filter allows
    pub rows: Vec<usize>,
    pub causes: Vec<FleetCause>,
    /// The host under the cursor; `None` until the user moves it, which then stays on the first row
    selected: Option<usize>,
    /// The first visible row
    pub top: usize,
    pub filter: String,
    /// The filter that is being edited
    prompt: Option<Input>,
    /// The first visible line of the open help
    help: Option<usize>,
    notice: Option<ShownNotice>,
    /// The present time on the clock that samples arrive on: CLOCK_BOOTTIME, in a replay the time that is shown
    pub now_ns: u64,
    /// The same as a time of day, in nanoseconds since the Unix epoch
    pub realtime_ns: i64,
    /// Of recordings
    playback: Option<FleetPlayback>,
}

#[derive(Clone, Debug)]
struct ShownNotice {
    notice: Notice,
    /// CLOCK_BOOTTIME; `None` before the next event that says what time it is
    until_ns: Option<u64>,
}

/// The state of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetPlayback {
    pub paused: bool,
    /// 1.0 is real time
    pub speed: f64,
    /// All samples have been shown
    pub ended: bool,
}

/// Input of `update`.
#[derive(Clone, Debug)]
pub enum FleetEvent {
    Key(Key),
    /// A click on the row of this host
    ClickHost(usize),
    /// A click beside the rows of hosts
    ClickElsewhere,
    /// Rows down; negative: up
    Wheel(i64),
    Resize {
        width: u16,
        height: u16,
    },
    /// Hosts that have changed, by their indices
    Hosts(Vec<(usize, FleetHost)>),
    /// The present time
    Now {
        /// CLOCK_BOOTTIME, also in a replay
        clock_ns: u64,
        now_ns: u64,
        realtime_ns: i64,
    },
    /// The end of the recordings has been reached, or left again
    PlaybackEnded(bool),
    Notice(Notice),
    /// How far the open help can be scrolled: before a key or the wheel
    MaxScroll(usize),
    /// Theme and characters have been chosen on the screens of a host
    Terminal(TerminalCapabilities),
}

/// What the program has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FleetEffect {
    Nothing,
    Redraw,
    Quit,
    Suspend,
    /// Draw all of the screen anew
    Repaint,
    /// Open the screens of this host
    Open(usize),
    /// Save the last minutes of all hosts
    Save,
    /// Pause or resume the replay
    Pause(bool),
    /// Play at this multiple of real time
    Speed(f64),
    /// Move the replay by this number of seconds
    Step(i64),
}

/// Changes the state by an event.
pub fn update(state: &mut FleetState, event: FleetEvent) -> FleetEffect {
    match event {
        FleetEvent::Key(key) => return state.on_key(key),
        FleetEvent::ClickHost(_) | FleetEvent::ClickElsewhere if state.help.is_some() => state.help = None,
        FleetEvent::ClickElsewhere => {}
        FleetEvent::Wheel(rows) if state.help.is_some() => state.scroll_help(rows),
        FleetEvent::ClickHost(host) => {
            if state.selected_host() == Some(host) && state.selected.is_some() {
                return FleetEffect::Open(host);
            }
            state.selected = Some(host);
        }
        FleetEvent::Wheel(rows) => state.move_by(rows),
        FleetEvent::Resize { width, height } => state.setup.size = (width, height),
        FleetEvent::Hosts(hosts) => {
            for (index, host) in hosts {
                if let Some(known) = state.hosts.get_mut(index) {
                    *known = host;
                }
            }
            state.arrange();
        }
        FleetEvent::Now { clock_ns, now_ns, realtime_ns } => {
            (state.now_ns, state.realtime_ns) = (now_ns, realtime_ns);
            state.age_notice(clock_ns);
            state.arrange();
        }
        FleetEvent::PlaybackEnded(ended) => {
            if let Some(playback) = &mut state.playback {
                playback.ended = ended;
            }
        }
        FleetEvent::Notice(notice) => state.notify(notice),
        FleetEvent::MaxScroll(max) => state.help = state.help.map(|offset| offset.min(max)),
        FleetEvent::Terminal(terminal) => state.setup.terminal = terminal,
    }
    state.scroll_to_cursor();
    FleetEffect::Redraw
}

impl FleetState {
    /// With these hosts, of which nothing is known yet.
    pub fn new(setup: FleetSetup, hosts: Vec<FleetHost>) -> FleetState {
        let order: Vec<usize> = (0..hosts.len()).collect();
        FleetState {
            playback: setup.playback_speed.map(|speed| FleetPlayback { paused: false, speed, ended: false }),
            setup,
            hosts,
            rows: order.clone(),
            order,
            causes: Vec::new(),
            selected: None,
            top: 0,
            filter: String::new(),
            prompt: None,
            help: None,
            notice: None,
            now_ns: 0,
            realtime_ns: 0,
        }
    }

    pub fn setup(&self) -> &FleetSetup {
        &self.setup
    }

    /// The filter that is being edited.
    pub fn prompt(&self) -> Option<&Input> {
        self.prompt.as_ref()
    }

    /// The open help: its first visible line.
    pub fn help(&self) -> Option<usize> {
        self.help
    }

    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref().map(|shown| &shown.notice)
    }

    /// Of recordings.
    pub fn playback(&self) -> Option<FleetPlayback> {
        self.playback
    }

    /// The host under the cursor.
    pub fn selected_host(&self) -> Option<usize> {
        self.rows.get(self.selected_row()).copied()
    }

    /// The row under the cursor.
    pub fn selected_row(&self) -> usize {
        let row = self.selected.and_then(|host| self.rows.iter().position(|&row| row == host));
        row.unwrap_or(0)
    }

    /// Number of hosts in this condition.
    pub fn count(&self, condition: Condition) -> usize {
        self.hosts.iter().filter(|host| host.condition(self.now_ns) == condition).count()
    }

    /// Sorts the hosts, groups their causes, and applies the filter.
    fn arrange(&mut self) {
        order::sort(&mut self.order, &self.hosts, self.now_ns);
        self.causes = causes::causes(self);
        let mut matcher = FilterMatcher::new(&self.filter, MatchMode::Literal);
        let hosts = &self.hosts;
        let mut is_shown = |index: &usize| match hosts.get(*index) {
            Some(host) if matcher.is_active() => matcher.matches_text(&filter_text(host, self.now_ns)),
            host => host.is_some(),
        };
        self.rows = self.order.iter().copied().filter(&mut is_shown).collect();
    }

    fn notify(&mut self, notice: Notice) {
        self.notice = Some(ShownNotice { notice, until_ns: None });
    }

    /// Removes a notice that was displayed long enough.
    fn age_notice(&mut self, clock_ns: u64) {
        let Some(shown) = &mut self.notice else { return };
        if clock_ns >= *shown.until_ns.get_or_insert(clock_ns.saturating_add(NOTICE_NS)) {
            self.notice = None;
        }
    }
}

/// What the filter searches: the name, the condition, the causes and the headline.
fn filter_text(host: &FleetHost, now_ns: u64) -> String {
    let mut text = format!("{} {}", host.name, host.condition(now_ns).as_str());
    if let Some(summary) = &host.summary {
        for words in summary.causes.iter().map(|cause| &cause.words).chain(summary.headlines.last()) {
            text.push(' ');
            text.push_str(words);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;
    use host::{Connection, HostCause, HostSummary};

    fn host(name: &str, worst: Option<Severity>, cause: &str) -> FleetHost {
        let causes = worst.iter().map(|&severity| HostCause { severity, words: cause.to_owned() }).collect();
        let summary = HostSummary { worst, causes, ..HostSummary::default() };
        FleetHost { connection: Connection::Connected, summary: Some(summary), ..FleetHost::new(name) }
    }

    fn three_hosts() -> FleetState {
        three_hosts_at(None)
    }

    fn three_hosts_at(playback_speed: Option<f64>) -> FleetState {
        let names = ["web1", "web2", "db1"].map(FleetHost::new).to_vec();
        let (terminal, time_zone) = (TerminalCapabilities::default(), TimeZone::UTC);
        let setup = FleetSetup { terminal, time_zone, size: (80, 24), playback_speed, recorded_in: None };
        let mut state = FleetState::new(setup, names);
        let hosts = [
            host("web1", None, ""),
            host("web2", Some(Severity::Critical), "fsync on sdb"),
            host("db1", Some(Severity::Warning), "fsync on sdb"),
        ];
        update(&mut state, FleetEvent::Hosts(hosts.into_iter().enumerate().collect()));
        state
    }

    fn press(state: &mut FleetState, keys: &str) -> FleetEffect {
        keys.chars().fold(FleetEffect::Nothing, |_, key| {
            let key = match key {
                '\n' => Key::Enter,
                '\x1b' => Key::Escape,
                other => Key::Char(other),
            };
            update(state, FleetEvent::Key(key))
        })
    }

    #[test]
    fn the_cursor_stays_on_its_host() {
        let mut state = three_hosts();
        assert_eq!((state.rows.as_slice(), state.selected_host()), ([1, 2, 0].as_slice(), Some(1)));
        assert_eq!(press(&mut state, "j\n"), FleetEffect::Open(2));
        update(
            &mut state,
            FleetEvent::Hosts(vec![(2, host("db1", None, "")), (0, host("web1", Some(Severity::Critical), ""))]),
        );
        assert_eq!(state.selected_host(), Some(2));
        assert_eq!(press(&mut state, "G\n"), FleetEffect::Open(*state.rows.last().unwrap()));
    }

    #[test]
    fn the_filter_finds_names_and_causes() {
        let mut state = three_hosts();
        press(&mut state, "/fsync");
        assert_eq!(state.rows, [1, 2]);
        press(&mut state, "\n");
        assert!(state.prompt.is_none() && state.filter == "fsync");
        press(&mut state, "\x1b/db1");
        assert_eq!(state.rows, [2]);
        press(&mut state, "\x1b");
        assert_eq!(state.rows.len(), 3);
    }

    #[test]
    fn causes_are_those_of_hosts_that_answer() {
        let mut state = three_hosts();
        assert_eq!(state.causes.first().map(|cause| cause.hosts.as_slice()), Some([1, 2].as_slice()));
        let lost = Connection::Lost { why: "gone".into(), retry_at_ns: 0 };
        let web2 = FleetHost { connection: lost, ..host("web2", Some(Severity::Critical), "fsync on sdb") };
        update(&mut state, FleetEvent::Hosts(vec![(1, web2)]));
        assert_eq!(state.causes.first().map(|cause| cause.hosts.as_slice()), Some([2].as_slice()));
        assert_eq!((state.count(Condition::Unknown), state.count(Condition::Warning)), (1, 1));
    }

    #[test]
    fn keys_of_a_replay_do_nothing_live() {
        let mut state = three_hosts();
        press(&mut state, " ");
        assert!(state.notice.is_some());
        let mut state = three_hosts_at(Some(1.0));
        assert_eq!(press(&mut state, " "), FleetEffect::Pause(true));
        assert_eq!(press(&mut state, "+"), FleetEffect::Speed(2.0));
        assert_eq!(press(&mut state, "{"), FleetEffect::Step(-60));
        assert_eq!(press(&mut state, "w"), FleetEffect::Redraw);
        assert_eq!(press(&mut state, "q"), FleetEffect::Quit);
    }

    #[test]
    fn a_notice_is_shown_for_some_seconds_of_the_clock_of_this_machine() {
        let mut state = three_hosts_at(Some(100.0));
        let mut is_shown_at = |seconds: u64| {
            let now_ns = seconds * 100_000_000_000;
            update(&mut state, FleetEvent::Now { clock_ns: 50_000_000_000 + seconds * 1_000_000_000, now_ns, realtime_ns: 0 });
            let shown = state.notice().is_some();
            if seconds == 0 {
                update(&mut state, FleetEvent::Notice(Notice::failure("the theme is unknown")));
            }
            shown
        };
        assert_eq!([0, 10, 11, 17, 18].map(&mut is_shown_at), [false, true, true, true, false]);
    }
}
