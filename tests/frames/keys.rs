//! The effect of each key and click on the state, and the returned effect.

use stalltop::state::{
    ClickTarget, Effect, Event, Item, Key, Position, PromptKind, RecorderState, Row, Screen, SortColumn, Source, State, update,
};

use crate::machine::instant;
use crate::scenes;
use crate::screen::{buffer, live, press, setup, text};

fn effect(state: &mut State, key: char) -> Effect {
    update(state, Event::Key(Key::Char(key)))
}

fn state() -> State {
    live(&scenes::lock_convoy(), (80, 24))
}

#[test]
fn digits_and_tab_select_screens() {
    let mut state = state();
    for (key, screen) in ('1'..='7').zip(Screen::ALL) {
        assert_eq!(effect(&mut state, key), Effect::Redraw);
        assert_eq!(state.screen, screen);
    }
    update(&mut state, Event::Key(Key::Tab));
    assert_eq!(state.screen, Screen::Overview);
    update(&mut state, Event::Key(Key::BackTab));
    assert_eq!(state.screen, Screen::Pressure);
}

#[test]
fn quit_and_suspend() {
    let mut state = state();
    assert_eq!(effect(&mut state, 'q'), Effect::Quit);
    assert_eq!(update(&mut state, Event::Key(Key::Control('c'))), Effect::Quit);
    assert_eq!(update(&mut state, Event::Key(Key::Control('z'))), Effect::Suspend);
    press(&mut state, "5/");
    assert_eq!(effect(&mut state, 'q'), Effect::Redraw, "in a prompt it is text");
    assert_eq!(update(&mut state, Event::Key(Key::Control('c'))), Effect::Quit, "Ctrl-C always quits");
}

#[test]
fn time_keys_seek_and_pause() {
    let mut state = state();
    for later in [']', '}', 'n'] {
        assert_eq!(effect(&mut state, later), Effect::Redraw, "nothing is newer than now");
        assert!(!state.playback.paused && state.notice().is_some());
    }
    assert_eq!(effect(&mut state, 'N'), Effect::PreviousFinding);
    assert!(!state.playback.paused, "there may be no finding to go to");
    assert_eq!(effect(&mut state, '['), Effect::Step(-1));
    let earlier = scenes::lock_convoy().intervals(3, 1)[1].clone();
    update(&mut state, Event::SeekCompleted { evaluation: earlier, preceding: Vec::new() });
    assert!(state.playback.paused, "another interval than the newest pauses");
    assert_eq!(effect(&mut state, ']'), Effect::Step(1));
    assert_eq!(effect(&mut state, '{'), Effect::StepTime(-60));
    assert_eq!(effect(&mut state, '}'), Effect::StepTime(60));
    assert_eq!(effect(&mut state, 'n'), Effect::NextFinding);
    assert_eq!(effect(&mut state, 'N'), Effect::PreviousFinding);
    assert_eq!(effect(&mut state, ' '), Effect::Pause(false));
    assert_eq!(effect(&mut state, ' '), Effect::Pause(true));
}

#[test]
fn b_jumps_to_a_typed_time() {
    let mut state = state();
    let place = Position { index: 0, length: 90, first: instant(0), last: instant(90) };
    update(&mut state, Event::Position(place));
    press(&mut state, "b12:01");
    assert_eq!(state.prompt.as_ref().map(|prompt| prompt.kind), Some(PromptKind::Time));
    assert_eq!(update(&mut state, Event::Key(Key::Enter)), Effect::JumpTo(instant(60).realtime_ns));
    press(&mut state, "b-30s");
    assert_eq!(update(&mut state, Event::Key(Key::Enter)), Effect::JumpTo(instant(60).realtime_ns));
    press(&mut state, "bnoon\n");
    assert!(state.notice().is_some_and(|notice| notice.failure), "invalid time is reported");
    press(&mut state, "b12:01\x1b");
    assert!(state.prompt.is_none());
}

#[test]
fn a_paused_live_screen_keeps_its_interval_while_samples_arrive() {
    let mut state = state();
    let intervals = scenes::lock_convoy().intervals(100, 50);
    press(&mut state, " ");
    let shown = state.shown_at();
    update(&mut state, Event::Evaluation(intervals[95].clone()));
    assert_eq!(state.shown_at(), shown);
    assert!(text(&state).contains("PAUSED −6s"), "{}", text(&state));
    update(&mut state, Event::SeekCompleted { evaluation: intervals[10].clone(), preceding: Vec::new() });
    assert_eq!(state.shown_at(), Some(instant(11)));
    update(&mut state, Event::SeekStarted(intervals[9].clone()));
    assert!(state.playback.is_provisional);
    press(&mut state, " ");
    assert_eq!(state.shown_at(), Some(instant(96)), "resuming displays the newest");
    assert!(!state.playback.is_provisional, "it has been evaluated, though the seek was not completed");
}

#[test]
fn recording_and_marks() {
    let mut state = state();
    assert_eq!(effect(&mut state, 'w'), Effect::Save);
    assert_eq!(effect(&mut state, 'R'), Effect::ToggleRecord);
    assert_eq!(effect(&mut state, 'M'), Effect::Redraw, "there is no mark");
    let mark = |realtime_ns: i64| stalltop::state::Mark { realtime_ns, text: "deploy 6".to_owned() };
    let here = state.shown_at().unwrap().realtime_ns;
    update(&mut state, Event::Marks([mark(here - 5_500_000_000), mark(here + 1)].into()));
    assert_eq!(effect(&mut state, 'M'), Effect::JumpTo(here + 1));
    update(&mut state, Event::Marks([mark(here - 5_500_000_000)].into()));
    assert_eq!(effect(&mut state, 'M'), Effect::JumpTo(here - 5_500_000_000), "wraps to the first");
    assert!(text(&state).contains("mark: deploy 6") && text(&state).contains('◆'), "{}", text(&state));
    update(&mut state, Event::Recorder(RecorderState::On { file: "a".to_owned(), bytes: 0 }));
    assert!(text(&state).contains("●rec") && text(&state).contains("to a: R stops it"), "{}", text(&state));
    press(&mut state, "mdeploy 7");
    assert_eq!(update(&mut state, Event::Key(Key::Enter)), Effect::Mark("deploy 7".to_owned()));
    let mut replay = State::new(setup((80, 24), Source::Replay { name: "x".to_owned() }));
    assert_eq!(effect(&mut replay, 'w'), Effect::Redraw);
    assert_eq!(effect(&mut replay, 'R'), Effect::Redraw);
    assert!(replay.notice().is_some());
}

#[test]
fn plus_and_minus_change_interval_and_speed() {
    let mut state = state();
    assert_eq!(effect(&mut state, '+'), Effect::ChangeInterval(2000));
    assert_eq!(effect(&mut state, '-'), Effect::ChangeInterval(1000));
    assert_eq!(effect(&mut state, '-'), Effect::ChangeInterval(500));
    for _ in 0..5 {
        effect(&mut state, '-');
    }
    assert_eq!(state.setup.interval_ms, 100);
    let mut replay = State::new(setup((80, 24), Source::Replay { name: "x".to_owned() }));
    assert_eq!(effect(&mut replay, '+'), Effect::Speed(2.0));
    assert_eq!(effect(&mut replay, '-'), Effect::Speed(1.0));
}

#[test]
fn the_cursor_stays_on_its_item_when_rows_are_reordered() {
    let mut state = state();
    press(&mut state, "5jj");
    let item = state.cursor().item.clone();
    assert!(item.is_some());
    press(&mut state, "S");
    assert_eq!(state.cursor().item, item);
    let under = state.rows()[state.cursor().selected];
    assert_eq!(stalltop::state::rows::row_item(&state, under), item);
    update(&mut state, Event::Key(Key::End));
    assert_eq!(state.cursor().selected, state.rows().len() - 1);
    update(&mut state, Event::Key(Key::Home));
    assert_eq!(state.cursor().selected, 0);
}

#[test]
fn filter_sort_and_grouping() {
    let mut state = state();
    press(&mut state, "5/pgsq");
    assert!(state.rows().is_empty());
    press(&mut state, "\x1b");
    assert_eq!(state.rows().len(), 3);
    press(&mut state, "/libpg\n");
    assert_eq!(state.rows().len(), 1);
    press(&mut state, "t");
    assert_eq!(state.rows().len(), 64);
    press(&mut state, "\x1b");
    assert_eq!(state.rows().len(), 66, "Esc clears the filter");
    press(&mut state, "StT");
    assert!(matches!(state.rows()[1], Row::Process { depth: 1, .. }), "{:?}", state.rows());
    press(&mut state, "c");
    assert!(matches!(state.rows()[0], Row::WaitClass { .. }));
    assert!(!text(&state).contains("by what matters"), "wait classes have a fixed order: {}", text(&state));
    press(&mut state, "cT");
    assert_eq!(state.sort().column, SortColumn::TASK_ACTIVITY);
    press(&mut state, "s");
    assert_eq!(state.sort().column, SortColumn::TASK_CPU);
    update(&mut state, Event::Click(ClickTarget::Column(SortColumn::TASK_PID)));
    assert_eq!(state.sort().column, SortColumn::TASK_PID);
    assert!(matches!(state.rows()[0], Row::Process { index: 0, .. }));
    update(&mut state, Event::Click(ClickTarget::Column(SortColumn::TASK_PID)));
    assert!(state.sort().reversed);
}

#[test]
fn a_literal_match_excludes_fuzzy_matches() {
    let mut state = state();
    press(&mut state, "5/ss");
    assert_eq!(state.rows().len(), 1, "all have two s, only sshd has ss");
    press(&mut state, "\x1b1/");
    assert_eq!(state.screen, Screen::Tasks, "on the overview the filter applies to tasks");
    assert_eq!(state.prompt.as_ref().map(|prompt| prompt.kind), Some(PromptKind::Filter));
}

#[test]
fn keys_of_htop_work() {
    let mut state = state();
    press(&mut state, "5");
    let function = |state: &mut State, number| update(state, Event::Key(Key::Function(number)));
    function(&mut state, 6);
    assert_eq!(state.sort().column, SortColumn::TASK_CPU);
    update(&mut state, Event::Key(Key::Left));
    assert_eq!(state.sort().column, SortColumn::TASK_ACTIVITY);
    function(&mut state, 5);
    assert!(state.lists.task_rows.is_tree());
    press(&mut state, "s");
    assert_eq!(state.sort().column, SortColumn::TASK_ACTIVITY, "a tree has a fixed order");
    assert!(text(&state).contains("T returns"), "{}", text(&state));
    function(&mut state, 1);
    assert_eq!(state.help(), Some(0));
    press(&mut state, "?");
    assert_eq!(function(&mut state, 10), Effect::Quit);
}

#[test]
fn an_unbound_key_reports_its_screens() {
    let mut state = state();
    for (screen, key, words) in [
        ('1', 't', "t is for screen 5 (tasks): ? shows all keys"),
        ('6', 's', "s is for screens 2–5, 7: ? shows all keys"),
        ('2', 'e', "e does nothing: ? shows all keys"),
    ] {
        effect(&mut state, screen);
        effect(&mut state, key);
        assert!(text(&state).contains(words), "{}", text(&state));
    }
    update(&mut state, Event::Key(Key::Function(8)));
    assert!(text(&state).contains("F8 does nothing"), "{}", text(&state));
}

#[test]
fn the_sort_column_is_visible() {
    let mut state = state();
    press(&mut state, "5");
    for _ in state.screen.sort_columns() {
        let column = state.sort().column;
        let heading = match column.label() {
            "activity" => "where",
            "run queue" => "runq",
            "read" => "read/s",
            "write" => "write/s",
            "threads" => "thr",
            "name" => "command",
            "memory" => "mem",
            label => label,
        };
        let frame = text(&state);
        let headings = frame.lines().find(|line| line.contains("  pid")).unwrap();
        assert!(headings.contains(heading), "{column:?}: {headings}");
        press(&mut state, "s");
    }
}

#[test]
fn the_key_line_depends_on_the_state() {
    let mut state = state();
    let keys = |state: &State| text(state).lines().last().unwrap().to_owned();
    assert!(keys(&state).ends_with("Enter why [ ] time w save ? help q"), "{}", keys(&state));
    update(&mut state, Event::Resize { width: 100, height: 24 });
    assert!(keys(&state).contains("Enter why  [ ] time  w save  ? help  q"), "{}", keys(&state));
    press(&mut state, "\n");
    assert!(keys(&state).contains("Esc back"), "{}", keys(&state));
    press(&mut state, "\x1b5");
    assert!(keys(&state).contains("Enter more  sort"), "{}", keys(&state));
    press(&mut state, " ");
    assert!(keys(&state).contains("Space live"), "{}", keys(&state));
    // A replay displays quit too.
    let mut state = State::new(setup((100, 24), Source::Replay { name: "x".to_owned() }));
    assert!(keys(&state).contains("Space pause [ ] time"), "{}", keys(&state));
    press(&mut state, " ");
    assert!(keys(&state).contains("Space go on [ ] time"), "{}", keys(&state));
}

#[test]
fn wait_classes_and_trees_are_not_filtered() {
    let mut state = state();
    press(&mut state, "5/con\nc");
    let frame = text(&state);
    assert!(!frame.contains("/con") && frame.contains("WAIT"), "{frame}");
    press(&mut state, "/");
    assert!(text(&state).contains("wait classes cannot be filtered: c returns to tasks"), "{}", text(&state));
    press(&mut state, "c");
    assert!(text(&state).contains("/con"), "{}", text(&state));
    press(&mut state, "T");
    assert!(text(&state).contains("no tree while a filter is set: Esc clears it"), "{}", text(&state));
}

#[test]
fn a_paused_replay_displays_its_speed() {
    let mut state = State::new(setup((80, 24), Source::Replay { name: "x".to_owned() }));
    update(
        &mut state,
        Event::SeekCompleted { evaluation: scenes::lock_convoy().intervals(3, 1)[1].clone(), preceding: Vec::new() },
    );
    press(&mut state, " ++");
    let head = text(&state).lines().next().unwrap().to_owned();
    assert!(head.ends_with(&format!("REPLAY ‖ ×{}", state.playback.speed)) && state.playback.speed > 1.0, "{head}");
}

#[test]
fn details_open_and_close() {
    let mut state = state();
    press(&mut state, "5\n");
    assert!(matches!(&state.details, Some(open) if matches!(open.item, Item::Process(_))));
    assert!(text(&state).contains("TIME GOES TO"));
    press(&mut state, "\x1b");
    assert!(state.details.is_none());
    press(&mut state, "1\n");
    assert!(matches!(&state.details, Some(open) if matches!(open.item, Item::Finding { .. })));
    assert!(text(&state).contains("NEXT STEPS"), "next steps are on the first page: {}", text(&state));
}

#[test]
fn the_overview_keeps_its_selection_while_a_page_is_open() {
    let mut state = live(&scenes::lock_convoy(), (200, 50));
    let is_process = |state: &State| matches!(state.selected_item(), Some(Item::Process(_)));
    while !is_process(&state) {
        press(&mut state, "j");
    }
    let selected = state.selected_item();
    press(&mut state, "\njj\x1b");
    assert!(state.details.is_none());
    assert_eq!(state.selected_item(), selected);
}

#[test]
fn o_jumps_to_the_start_of_a_finding() {
    let mut state = state();
    press(&mut state, "6");
    assert_eq!(effect(&mut state, 'o'), Effect::GoToFinding(instant(50).realtime_ns));
}

#[test]
fn a_click_selects_and_a_second_click_opens() {
    let mut state = state();
    press(&mut state, "5");
    update(&mut state, Event::Click(ClickTarget::Row(1)));
    assert_eq!(state.cursor().selected, 1);
    assert!(state.details.is_none());
    update(&mut state, Event::Click(ClickTarget::Row(1)));
    assert!(state.details.is_some());
    update(&mut state, Event::Click(ClickTarget::Screen(Screen::Disk)));
    assert_eq!(state.screen, Screen::Disk);
    let moment = instant(42).realtime_ns;
    assert_eq!(update(&mut state, Event::Click(ClickTarget::Time(moment))), Effect::JumpTo(moment));
}

#[test]
fn help_opens_scrolls_and_closes() {
    let mut state = state();
    press(&mut state, "?");
    assert_eq!(state.help(), Some(0));
    press(&mut state, "j");
    assert_eq!(state.help(), Some(1));
    assert_eq!(update(&mut state, Event::Key(Key::Char('P'))), Effect::SaveScreen);
    assert_eq!(state.help(), Some(1), "the help can be saved");
    press(&mut state, "q");
    assert_eq!(state.help(), None, "any other key only closes it");
}

#[test]
fn an_overdue_sample_is_reported() {
    let mut state = state();
    assert_eq!(update(&mut state, Event::Now(instant(91))), Effect::Nothing);
    assert_eq!(update(&mut state, Event::Now(instant(97))), Effect::Redraw);
    assert!(text(&state).contains("no sample for 7 s"), "{}", text(&state));
    update(&mut state, Event::SourceEnded(Some("the pipe closed".to_owned())));
    assert!(text(&state).contains("no more samples: the pipe closed"));
}

/// State and view alone answer a key: no sample has to arrive, however many threads are listed.
#[test]
fn keys_are_answered_while_no_sample_arrives() {
    let mut machine = scenes::lock_convoy();
    let sleeper = machine.workers[1].threads[0].clone();
    machine.workers[1].threads = vec![sleeper; 10_000];
    let mut state = State::new(setup((200, 50), Source::Live));
    for evaluation in machine.intervals(3, 1) {
        update(&mut state, Event::Evaluation(evaluation));
    }
    press(&mut state, "5t");
    assert!(state.rows().len() > 10_000);
    update(&mut state, Event::Now(instant(60)));
    let mut before = buffer(&state);
    for key in ['j', 's', 'S', '7', '1', '?'] {
        assert_eq!(effect(&mut state, key), Effect::Redraw, "{key}");
        let frame = buffer(&state);
        assert_ne!(frame, before, "{key}");
        assert!(text(&state).contains("no sample for 57 s") || key == '?', "{key}: {}", text(&state));
        before = frame;
    }
}

/// Before the first interval the screen says which sample it waits for, and how long if that is overdue.
#[test]
fn what_the_first_interval_waits_for_is_reported() {
    let mut state = State::new(setup((80, 24), Source::Live));
    assert!(text(&state).contains("waiting for the first sample …"), "{}", text(&state));
    assert_eq!(update(&mut state, Event::Now(instant(1))), Effect::Nothing);
    assert_eq!(update(&mut state, Event::Now(instant(2))), Effect::Nothing);
    assert_eq!(update(&mut state, Event::Now(instant(8))), Effect::Redraw);
    assert!(text(&state).contains("waiting for the first sample for 7 s"), "{}", text(&state));
    update(&mut state, Event::FirstSample);
    assert!(text(&state).contains("first sample taken; rates need two samples …"), "{}", text(&state));
    assert_eq!(update(&mut state, Event::Now(instant(17))), Effect::Redraw);
    assert!(text(&state).contains("first sample taken; waiting for the second one for 9 s"), "{}", text(&state));
    let state = State::new(setup((80, 24), Source::Replay { name: "x".to_owned() }));
    assert!(text(&state).contains("reading the recording …"), "{}", text(&state));
}

#[test]
fn the_findings_screen_explains_the_selected_finding() {
    let mut state = live(&scenes::lock_convoy(), (200, 50));
    let explains = |state: &State, title: &str| {
        let frame = text(state);
        assert!(frame.contains(&format!("├ {title} ─")), "{frame}");
    };
    press(&mut state, "6");
    explains(&state, "Idle, but blocked");
    assert!(text(&state).contains("┬ Evidence"));
    update(&mut state, Event::Key(Key::Down));
    explains(&state, "Disk latency above baseline");
    update(&mut state, Event::Click(ClickTarget::Row(0)));
    explains(&state, "Idle, but blocked");
    let mut calm = live(&scenes::quiet(), (200, 50));
    press(&mut calm, "6");
    assert!(!text(&calm).contains("┬ Evidence"), "there is nothing to explain");
}

#[test]
fn keys_of_a_list_do_nothing_behind_a_page() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    press(&mut state, "5\n");
    let (rows, page) = (state.lists.task_rows, text(&state));
    assert!(page.contains("TIME GOES TO"), "{page}");
    for key in ["c", "u", "t", "T", "s", "/"] {
        press(&mut state, key);
        assert_eq!(state.lists.task_rows, rows, "{key}");
        assert!(text(&state).contains("Esc shows it") && state.prompt.is_none(), "{key}: {}", text(&state));
    }
    press(&mut state, "\x1b");
    assert!(text(&state).contains("TASKS"));
}
