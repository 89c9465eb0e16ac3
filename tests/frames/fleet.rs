//! The screen of the fleet: golden frames, all sizes, hostile names.

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stalltop::findings::Evaluation;
use stalltop::state::fleet::host::{Connection, FleetHost, HostSummary};
use stalltop::state::fleet::{FleetEvent, FleetSetup, FleetState, update};
use stalltop::state::{Key, TerminalCapabilities};
use stalltop::view;

use crate::machine::Machine;
use crate::scenes;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1000 * SECOND;

fn connected(name: &str, evaluation: &Evaluation) -> FleetHost {
    FleetHost {
        connection: Connection::Connected,
        summary: Some(HostSummary::new(evaluation)),
        arrived_ns: Some(NOW - SECOND / 2),
        interval_ns: SECOND,
        ..FleetHost::new(name)
    }
}

fn last(machine: &Machine) -> Evaluation {
    machine.intervals(90, 50).pop().unwrap()
}

/// Hosts with and without findings, and those that do not answer.
fn hosts() -> Vec<FleetHost> {
    let (convoy, disk, core) = (last(&scenes::lock_convoy()), last(&scenes::saturated_disk()), last(&scenes::hot_core()));
    let lost = Connection::Lost {
        why: "ssh: connect to host web4 port 22: Connection refused".to_owned(),
        retry_at_ns: NOW + 7 * SECOND,
    };
    vec![
        connected("web1", &convoy),
        FleetHost { clock_offset_seconds: Some(-41.7), ..connected("web2", &disk) },
        connected("admin@a-host-with-a-long-name.example.org", &core),
        FleetHost { connection: lost, ..FleetHost::new("web4") },
        FleetHost { arrived_ns: Some(NOW - 12 * SECOND), ..connected("web5", &convoy) },
        FleetHost::new("web6"),
        FleetHost { other_version: Some("0.0.9".to_owned()), ..connected("db1", &convoy) },
        FleetHost { note: Some("damage at byte 7: bytes are missing; 3 samples lost".to_owned()), ..connected("db2", &convoy) },
    ]
}

fn state(hosts: Vec<FleetHost>, size: (u16, u16)) -> FleetState {
    let names = hosts.iter().map(|host| FleetHost::new(host.name.clone())).collect();
    let (terminal, time_zone) = (TerminalCapabilities::default(), TimeZone::UTC);
    let setup = FleetSetup { terminal, time_zone, size, playback_speed: None, recorded_in: None };
    let mut state = FleetState::new(setup, names);
    update(&mut state, FleetEvent::Now { clock_ns: NOW, now_ns: NOW, realtime_ns: 1_763_985_795_000_000_000 });
    update(&mut state, FleetEvent::Hosts(hosts.into_iter().enumerate().collect()));
    state
}

fn text(state: &FleetState) -> String {
    let (width, height) = state.setup().size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    view::render_fleet_into(state, &mut buffer);
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(row).collect()
}

#[test]
fn golden() {
    let hosts = hosts();
    for (word, size) in [("80x24", (80, 24)), ("200x50", (200, 50)), ("40x10", (40, 10))] {
        let mut state = state(hosts.clone(), size);
        insta::assert_snapshot!(format!("fleet-{word}"), text(&state));
        update(&mut state, FleetEvent::Key(Key::Char('?')));
        insta::assert_snapshot!(format!("fleet-help-{word}"), text(&state));
    }
}

#[test]
fn every_size_is_drawn() {
    let hosts = hosts();
    for width in [1, 2, 20, 39, 40, 41, 60, 79, 80, 99, 100, 110, 119, 120, 160, 200, 300] {
        for height in [1, 2, 7, 8, 9, 12, 19, 20, 24, 35, 36, 50, 100] {
            let mut state = state(hosts.clone(), (width, height));
            for key in [Key::End, Key::Char('/'), Key::Char('x'), Key::Enter, Key::Char('?')] {
                text(&state);
                update(&mut state, FleetEvent::Key(key));
            }
            text(&state);
        }
    }
}

#[test]
fn nothing_of_a_host_acts_on_the_terminal() {
    let hostile = "a\u{1b}[2J\u{202e}\n\u{9b}31m";
    let lost = Connection::Lost { why: hostile.to_owned(), retry_at_ns: 0 };
    let mut summary = HostSummary::new(&last(&scenes::lock_convoy()));
    summary.headlines = std::array::from_fn(|_| hostile.to_owned());
    summary.causes.iter_mut().for_each(|cause| cause.words = hostile.to_owned());
    let connected = FleetHost {
        connection: Connection::Connected,
        summary: Some(summary),
        arrived_ns: Some(NOW),
        interval_ns: SECOND,
        note: Some(hostile.to_owned()),
        other_version: Some(hostile.to_owned()),
        ..FleetHost::new(hostile)
    };
    let ended = FleetHost { connection: Connection::Ended(Some(hostile.to_owned())), ..FleetHost::new("ended") };
    let hosts = vec![connected, FleetHost { connection: lost, ..FleetHost::new(hostile) }, ended];
    for size in [(80, 24), (200, 50)] {
        let text = text(&state(hosts.clone(), size));
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(acts) && text.contains("\\u{1b}[2J"), "{text}");
    }
}

#[test]
fn the_help_scrolls_to_its_end() {
    let mut state = state(hosts(), (40, 10));
    update(&mut state, FleetEvent::Key(Key::Char('?')));
    assert!(!text(&state).contains(" ours "), "{}", text(&state));
    for key in [Key::Char('G'), Key::Down] {
        report_frame(&mut state);
        update(&mut state, FleetEvent::Key(key));
    }
    assert!(text(&state).contains(" ours "), "{}", text(&state));
    report_frame(&mut state);
    update(&mut state, FleetEvent::Key(Key::Up));
    let last = text(&state);
    assert!(!last.contains(" ours "), "{last}");
    update(&mut state, FleetEvent::Key(Key::Char('?')));
    assert!(state.help().is_none());
}

/// What the event loop does before a key.
fn report_frame(state: &mut FleetState) {
    update(state, view::fleet_frame_event(state).unwrap());
}
