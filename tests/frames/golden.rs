//! Golden frames. After an intended change run `INSTA_UPDATE=always cargo test --test frames` and review the diff.

use std::sync::Arc;

use stalltop::baseline::{Quantiles, RequestStatus, RequestWindow};
use stalltop::findings::{Evaluation, Severity};
use stalltop::interval::Interval;
use stalltop::sample::{Absent, Sample};
use stalltop::state::{Event, Position, Source, State, TimelineTick, update};
use stalltop::units::Millis;

use crate::machine::instant;
use crate::scenes;
use crate::screen::{live, live_after, live_intervals, press, setup, text};

/// Panes that only a large terminal has, and panes side by side.
#[test]
fn large_terminals() {
    for (word, size) in [("300x80", (300, 80)), ("500x150", (500, 150))] {
        insta::assert_snapshot!(format!("convoy-overview-{word}"), text(&live(&scenes::lock_convoy(), size)));
    }
}

/// Blank panes would say that nothing waits.
#[test]
fn what_cannot_be_read_is_not_nothing() {
    let mut evaluation = scenes::lock_convoy().intervals(1, 1).remove(0);
    let interval = &evaluation.interval;
    let without_tasks = |sample: &Sample| Arc::new(Sample { tasks: Err(Absent::NoPermission), ..sample.clone() });
    let (older, newer) = (without_tasks(&interval.older), without_tasks(&interval.newer));
    evaluation.interval = Arc::new(Interval::between(&interval.host, &older, &newer).unwrap());
    let mut state = State::new(setup((300, 80), Source::Live));
    update(&mut state, Event::Evaluation(evaluation));
    let frame = text(&state);
    assert!(!frame.contains("all asleep"), "{frame}");
    assert_eq!(
        frame.matches("- /proc cannot be read").count(),
        4,
        "threads by state, tasks, hottest threads, cgroups: {frame}"
    );
    assert_eq!(frame.matches("- not known").count(), 3, "pressure of CPU, I/O and memory: {frame}");
}

fn golden(name: &str, intervals: &[Evaluation], keys: &str) {
    // The overview alone divides itself in another way at each size.
    let middle = keys.starts_with('1').then_some(("120x40", (120, 40)));
    for (word, size) in [("80x24", (80, 24)), ("200x50", (200, 50))].into_iter().chain(middle) {
        let mut state = live_after(intervals, size);
        press(&mut state, keys);
        insta::assert_snapshot!(format!("{name}-{word}"), text(&state));
    }
}

#[test]
fn lock_convoy() {
    let machine = scenes::lock_convoy();
    let intervals = live_intervals(&machine);
    golden("convoy-overview", &intervals, "1");
    golden("convoy-zoom", &intervals, "1z");
    golden("convoy-zoom-disks", &intervals, "1z\t\t\t\t");
    golden("convoy-disk", &intervals, "3");
    golden("convoy-net", &intervals, "4");
    golden("convoy-tasks", &intervals, "5");
    golden("convoy-threads", &intervals, "5t");
    golden("convoy-classes", &intervals, "5c");
    golden("convoy-findings", &intervals, "6");
    golden("convoy-finding", &intervals, "6\n");
    golden("convoy-process", &intervals, "5\n");
    golden("convoy-thread", &intervals, "5t\n");
    golden("convoy-device", &intervals, "3\n");
    golden("convoy-help", &intervals, "?");
}

#[test]
fn saturated_disk() {
    let machine = scenes::saturated_disk();
    let intervals = live_intervals(&machine);
    golden("disk-overview", &intervals, "1");
    golden("disk-disk", &intervals, "3");
}

/// Most reads take 230 ms, a few 50 or 400.
#[test]
fn latencies_of_requests() {
    let mut machine = scenes::saturated_disk();
    machine.devices[0].read_latencies = vec![(131, 20), (148, 50), (149, 60), (155, 10)];
    let baseline = Quantiles { p50: Millis(7.9), p99: Millis(21.0) };
    let quantiles = Quantiles { p50: Millis(221.0), p99: Millis(386.0) };
    let window = RequestWindow { quantiles, requests: 140, lost_seconds_per_second: 29.0 };
    machine.latency_statuses[0].requests = Some(RequestStatus { baseline, window: Some(window) });
    let intervals = live_intervals(&machine);
    golden("latencies-disk", &intervals, "3");
    golden("latencies-device", &intervals, "3\n");
}

#[test]
fn one_saturated_core_of_256() {
    let machine = scenes::hot_core();
    let intervals = live_intervals(&machine);
    golden("hot-overview", &intervals, "1");
    golden("hot-cpu", &intervals, "2");
    golden("hot-core", &intervals, "2\n");
}

#[test]
fn network() {
    let mut machine = scenes::shaped_network();
    let intervals = live_intervals(&machine);
    golden("network-net", &intervals, "4");
    golden("network-peers", &intervals, "4p");
    golden("network-peer", &intervals, "4p\n");
    machine.network.scans = Some((4, 38_000_000));
    golden("network-seldom", &live_intervals(&machine), "4p");
}

#[test]
fn quiet_host() {
    let intervals = live_intervals(&scenes::quiet());
    golden("quiet-overview", &intervals, "1");
    golden("quiet-cpu", &intervals, "2");
    golden("quiet-findings", &intervals, "6");
}

#[test]
fn without_privilege() {
    let intervals = live_intervals(&scenes::no_privilege());
    golden("unprivileged-overview", &intervals, "1");
    golden("unprivileged-tasks", &intervals, "5");
    golden("unprivileged-process", &intervals, "5\n");
}

#[test]
fn the_smallest_size_displays_the_findings() {
    let state = live(&scenes::lock_convoy(), (40, 10));
    insta::assert_snapshot!("convoy-overview-40x10", text(&state));
    let state = live(&scenes::quiet(), (40, 10));
    insta::assert_snapshot!("quiet-overview-40x10", text(&state));
    let first = |size| text(&live(&scenes::quiet(), size)).lines().next().unwrap_or_default().trim_end().to_owned();
    let asked = [(39, 9), (30, 5), (20, 30), (19, 5), (5, 1), (4, 1)].map(first);
    assert_eq!(
        asked,
        ["stalltop needs 40×10, this is 39×9", "stalltop needs 40×10", "stalltop needs 40×10", "needs 40×10", "40×10", "40×…"]
    );
}

#[test]
fn replay() {
    let machine = scenes::lock_convoy();
    let intervals = machine.intervals(120, 50);
    for (word, size) in [("80x24", (80, 24)), ("200x50", (200, 50))] {
        let mut state = State::new(setup(size, Source::Replay { name: "db1-20260301T120000.stalltop".to_owned() }));
        let ticks: Vec<TimelineTick> = (0_u64..3600)
            .map(|second| TimelineTick {
                realtime_ns: instant(second).realtime_ns,
                worst_severity: match second {
                    50..600 => Some(Severity::Critical),
                    600..700 => Some(Severity::Warning),
                    _ => None,
                },
                busy: 0.5,
                blocked: 0.4,
                gap: second == 2000,
                mark: (second == 1200).then(|| "deploy".to_owned()),
            })
            .filter(|tick| !(instant(1800).realtime_ns..instant(2000).realtime_ns).contains(&tick.realtime_ns))
            .collect();
        update(&mut state, Event::Timeline(ticks.into()));
        for evaluation in intervals.clone() {
            update(&mut state, Event::Evaluation(evaluation));
        }
        let place = Position { index: 119, length: 3400, first: instant(0), last: instant(3599) };
        update(&mut state, Event::Position(place));
        press(&mut state, "+");
        insta::assert_snapshot!(format!("replay-{word}"), text(&state));
    }
}

#[test]
fn ascii() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    state.setup.terminal.glyphs = stalltop::state::GlyphSet::Ascii;
    let frame = text(&state);
    assert!(frame.is_ascii(), "{frame}");
    insta::assert_snapshot!("convoy-ascii-80x24", frame);
}

#[test]
fn before_the_first_interval() {
    let state = State::new(setup((80, 24), Source::Live));
    insta::assert_snapshot!("nothing-yet-80x24", text(&state));
}
