//! Time on the screens: the cursor in all graphs, their window, and spans.

use std::sync::{Arc, LazyLock};

use stalltop::findings::Evaluation;
use stalltop::interval::Interval;
use stalltop::state::history::IntervalSummary;
use stalltop::state::{ClickTarget, Effect, Event, Key, Position, Source, State, TimelineTick, update};
use stalltop::view::drawn_frame;
use stalltop::view::hit_area::{area_at, target_at};

use crate::machine::instant;
use crate::scenes;
use crate::screen::{buffer, live, press, setup, text};

/// Ten minutes of the lock convoy, which is found after five.
static TEN_MINUTES: LazyLock<Vec<Evaluation>> = LazyLock::new(|| scenes::lock_convoy().intervals(600, 300));

/// A replay of them, displaying interval `at`.
fn replay(size: (u16, u16), at: usize) -> State {
    let intervals = &*TEN_MINUTES;
    let mut state = State::new(setup(size, Source::Replay { name: "db1.stalltop".to_owned() }));
    update(
        &mut state,
        Event::Timeline(intervals.iter().map(|evaluation| TimelineTick::new(evaluation, false, None)).collect()),
    );
    update(&mut state, Event::Summaries(intervals.iter().map(IntervalSummary::for_graphs).collect()));
    let place = Position { index: at, length: 600, first: instant(1), last: instant(600) };
    update(&mut state, Event::Position(place));
    update(&mut state, Event::Findings(intervals[599].active.to_vec()));
    update(&mut state, Event::SeekCompleted { evaluation: intervals[at].clone(), preceding: Vec::new() });
    state
}

/// Extends the span from interval `from` to interval `to`.
fn extend(state: &mut State, from: usize, to: usize) {
    let intervals = &*TEN_MINUTES;
    update(state, Event::SeekCompleted { evaluation: intervals[to].clone(), preceding: Vec::new() });
    let (first, last) = (&intervals[from].interval, &intervals[to].interval);
    let mut interval = Interval::between(&first.host, &first.older, &last.newer).unwrap();
    interval.set_mean_blocked_ratio(Some(0.3));
    update(state, Event::Span { interval: Arc::new(interval), intervals: (to - from + 1) as u64 });
}

#[test]
fn replay_graphs_show_the_recording_with_a_cursor() {
    for (word, size) in [("80x24", (80, 24)), ("120x40", (120, 40)), ("200x50", (200, 50))] {
        insta::assert_snapshot!(format!("time-replay-{word}"), text(&replay(size, 450)));
    }
}

#[test]
fn one_interval_of_a_replay_is_no_all_clear() {
    let (first, second) = (text(&replay((80, 24), 0)), text(&replay((80, 24), 1)));
    assert!(first.contains("first interval: too early for an all-clear"), "{first}");
    assert!(!first.contains("nothing found wrong"), "{first}");
    assert!(second.contains("nothing found wrong"), "{second}");
}

/// All graphs of a frame have the cursor in the column of the same time.
#[test]
fn the_cursor_is_in_every_graph() {
    for (at, size) in [(20, (200, 50)), (450, (200, 50)), (599, (200, 50)), (300, (120, 40)), (300, (90, 30)), (300, (80, 24))]
    {
        let state = replay(size, at);
        let graphs = text(&state).matches('▼').count();
        // Timeline, CPU, cores, memory, disks and network; or timeline, the two graphs of the CPU time, the cores, a disk, and
        // in and out.
        let expected = match size.1 {
            50 => 5..=6,
            40 => 3..=5,
            _ => 5..=7,
        };
        assert!(expected.contains(&graphs), "interval {at} at {size:?}: {graphs}\n{}", text(&state));
    }
}

/// The same on all screens and on the pages of a process and of a finding.
#[test]
fn the_cursor_is_on_every_screen_and_page() {
    // Timeline, then each graph; those in the rows of tables too.
    for (keys, graphs) in [("2", 4), ("3", 5), ("4", 4), ("5", 2), ("7", 2), ("5\n", 3), ("6\n", 2)] {
        let mut state = replay((200, 50), 450);
        let intervals = &*TEN_MINUTES;
        let nearby = intervals.iter().map(|of| IntervalSummary::from_evaluation(of, None)).collect();
        update(&mut state, Event::GraphIntervals(nearby));
        press(&mut state, keys);
        let cursors = text(&state).matches('▼').count();
        assert!(cursors >= graphs, "{keys}: {cursors}\n{}", text(&state));
    }
}

/// Of a window that is longer than what is kept of each interval, a page shows the part around the displayed time.
#[test]
fn the_intervals_near_the_displayed_time_are_known_one_by_one() {
    let mut state = replay((200, 50), 450);
    let window = |state: &State| state.stretch_of_intervals().map(|stretch| (stretch.end - stretch.start) / 1_000_000_000);
    assert_eq!(window(&state), Some(600));
    let day = Position { index: 450, length: 86_400, first: instant(1), last: instant(86_400) };
    update(&mut state, Event::Position(day));
    assert_eq!(window(&state), None, "{}", text(&state));
    press(&mut state, "5\n");
    assert_eq!(window(&state), Some(600));
    let intervals = &*TEN_MINUTES;
    update(&mut state, Event::GraphIntervals(intervals.iter().map(|of| IntervalSummary::from_evaluation(of, None)).collect()));
    assert!(text(&state).contains("(10m00s)"), "{}", text(&state));
    press(&mut state, "\x1b1<<<<<<");
    assert_eq!(window(&state), Some(600));
    press(&mut state, "<<<<<");
    assert_eq!(window(&state), Some(10));
}

#[test]
fn the_graphs_of_a_replay_zoom() {
    let mut state = replay((200, 50), 450);
    let title = |state: &State| text(state).lines().find(|line| line.contains("┌ CPU, ")).unwrap().to_owned();
    assert!(title(&state).contains("12:00:00–12:10:00 (10m00s)"), "{}", title(&state));
    press(&mut state, "<<");
    assert!(title(&state).contains("(2m00s)"), "{}", title(&state));
    insta::assert_snapshot!("time-zoomed-200x50", text(&state));
    press(&mut state, "<<<<<<<<<<");
    assert!(title(&state).contains("(1 s)"), "{}", title(&state));
    press(&mut state, ">");
    assert!(title(&state).contains("(2 s)"), "{}", title(&state));
    press(&mut state, "Z");
    assert!(title(&state).contains("(10m00s)"), "{}", title(&state));
}

/// Sizes of all kinds, with all screens and zooms of a replay with a span: no panic, no drawing outside, and a cursor in the last row of time.
#[test]
fn a_replay_at_every_size() {
    let mut state = replay((80, 24), 450);
    for (at, keys) in
        ["1", "2", "3", "4", "4p", "5", "5c", "6", "7", "5\n", "\x1b6\n", "\x1b3\n", "\x1b?"].into_iter().enumerate()
    {
        press(&mut state, keys);
        for (width, height) in
            (1..=64).flat_map(|width| (1..=34).map(move |height| (width * 4, height * 2))).skip(2 * at).step_by(26)
        {
            update(&mut state, Event::Resize { width, height });
            buffer(&state);
        }
        for (width, height) in [(1, 1), (500, 150), (40, 10), (101, 33)] {
            update(&mut state, Event::Resize { width, height });
            buffer(&state);
        }
        press(&mut state, if at % 4 == 3 { "Z" } else { "<<" });
        if at == 6 {
            press(&mut state, "v");
        }
    }
}

/// A click on a graph displays the time of that column, and a drag follows it beyond the graph.
#[test]
fn a_click_on_a_graph_goes_to_its_time() {
    let state = replay((200, 50), 450);
    let (_, areas) = drawn_frame(&state);
    // Of the pane of the CPU: 10 minutes in 73 columns from column 9 on.
    let times: Vec<i64> = (0..110)
        .filter_map(|x| match target_at(&areas, x, 8) {
            ClickTarget::Time(at) => Some((at - instant(0).realtime_ns) / 1_000_000_000),
            _ => None,
        })
        .collect();
    assert!(times.len() > 60 && times.is_sorted() && times[0] < 10 && times.last() > Some(&590), "{times:?}");
    let graph = area_at(&areas, 20, 8).unwrap();
    assert_eq!(graph.time_at(150), graph.time_at(graph.area.right() - 1));
    assert_eq!(graph.time_at(0), graph.time_at(graph.area.x));
}

#[test]
fn a_paused_live_screen_has_a_cursor_and_the_newest_has_none() {
    let mut state = live(&scenes::lock_convoy(), (200, 50));
    assert!(!text(&state).contains('▼'));
    press(&mut state, "[");
    let earlier = scenes::lock_convoy().intervals(90, 50)[30].clone();
    update(&mut state, Event::SeekCompleted { evaluation: earlier, preceding: Vec::new() });
    insta::assert_snapshot!("time-paused-200x50", text(&state));
    press(&mut state, " ");
    assert!(!text(&state).contains('▼'), "{}", text(&state));
}

#[test]
fn the_tables_show_the_figures_of_a_span() {
    for (word, size) in [("80x24", (80, 24)), ("200x50", (200, 50))] {
        let mut state = replay(size, 310);
        assert_eq!(update(&mut state, Event::Key(Key::Char('v'))), Effect::BeginSpan);
        extend(&mut state, 310, 310);
        assert_eq!(update(&mut state, Event::Key(Key::Right)), Effect::Step(1));
        extend(&mut state, 310, 400);
        let head = text(&state).lines().next().unwrap().to_owned();
        assert!(head.contains("SPAN 12:05:10–12:06:41 (91 s)"), "{head}");
        insta::assert_snapshot!(format!("time-span-{word}"), text(&state));
        assert_eq!(update(&mut state, Event::Key(Key::Char('w'))), Effect::SaveSpan);
        assert_eq!(update(&mut state, Event::Key(Key::Escape)), Effect::EndSpan);
        assert_eq!(state.shown_at(), Some(instant(401)), "the interval at the cursor");
        assert!(!text(&state).contains("SPAN"), "{}", text(&state));
    }
}

/// Before the exact findings of a jump are known, those of its time are shown; never an all-clear.
#[test]
fn a_jump_is_never_an_all_clear() {
    let quiet = scenes::quiet().intervals(10, 20)[5].clone();
    let mut state = State::new(setup((80, 24), Source::Replay { name: "x".to_owned() }));
    update(&mut state, Event::SeekStarted(quiet));
    assert!(text(&state).contains("evaluating …") && !text(&state).contains("nothing found wrong"), "{}", text(&state));
    let mut state = replay((80, 24), 10);
    let mut jump = TEN_MINUTES[450].clone();
    jump.active = Arc::from([]);
    update(&mut state, Event::SeekStarted(jump));
    assert!(text(&state).contains("✖ postgres: 61 threads wait"), "{}", text(&state));
}

#[test]
fn a_slow_terminal_gets_no_graphs() {
    let mut state = live(&scenes::lock_convoy(), (200, 50));
    update(&mut state, Event::TerminalIsSlow);
    let frame = text(&state);
    assert!(frame.contains("slow terminal") && !frame.contains("CPU, last"), "{frame}");
    press(&mut state, "3");
    assert!(!text(&state).contains('▇'), "{}", text(&state));
}
