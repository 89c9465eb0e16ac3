//! The palette, the clipboard and clicks, by what a frame shows.

use stalltop::state::keys::{Action, BINDINGS};
use stalltop::state::{
    ChoosableColumn, ClickTarget, Effect, Event, Item, Key, Overlay, Row, Screen, SortColumn, State, TaskRows, update,
};
use stalltop::view::hit_area::target_at;
use stalltop::view::{click_target, command_text, copied_text, drawn_frame};

use crate::scenes;
use crate::screen::{live, press, text};

fn state() -> State {
    live(&scenes::lock_convoy(), (80, 24))
}

/// The column and row of a text on the frame.
fn place(state: &State, wanted: &str) -> (u16, u16) {
    let text = text(state);
    let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(wanted)).expect("the text is on the screen");
    let x = line.split_once(wanted).unwrap().0.chars().count();
    (u16::try_from(x).unwrap(), u16::try_from(y).unwrap())
}

fn click(state: &mut State, wanted: &str) -> Effect {
    let (x, y) = place(state, wanted);
    let target = click_target(state, x, y);
    update(state, Event::Click(target))
}

#[test]
fn the_palette_finds_actions_screens_and_findings() {
    let mut state = state();
    press(&mut state, ":");
    assert!(text(&state).contains("Actions, screens, findings"), "{}", text(&state));
    press(&mut state, "tree\n");
    assert!(state.palette().is_none());
    assert_eq!(state.screen, Screen::Tasks, "the action is of another screen");
    assert!(state.lists.task_rows.is_tree() && state.lists.task_rows != TaskRows::default());
    press(&mut state, ":screen disk\n");
    assert_eq!(state.screen, Screen::Disk);
    press(&mut state, ":fsync\n");
    assert!(matches!(&state.details, Some(details) if matches!(details.item, Item::Finding { .. })), "{:?}", state.details);
    press(&mut state, ":quit");
    assert_eq!(update(&mut state, Event::Key(Key::Enter)), Effect::Quit);
}

#[test]
fn the_palette_closes_without_an_effect() {
    let mut state = state();
    press(&mut state, ":qq\x1b");
    assert!(state.palette().is_none() && state.screen == Screen::Overview);
    press(&mut state, ":zzqqxx");
    assert!(text(&state).contains("nothing matches"));
    assert_eq!(update(&mut state, Event::Key(Key::Enter)), Effect::Redraw);
    press(&mut state, ":");
    assert_eq!(update(&mut state, Event::Key(Key::Control('c'))), Effect::Quit);
}

#[test]
fn entries_are_selected_by_arrows_wheel_and_click() {
    let mut state = state();
    press(&mut state, ":");
    update(&mut state, Event::Key(Key::Down));
    update(&mut state, Event::Wheel(3));
    update(&mut state, Event::Wheel(-3));
    update(&mut state, Event::Key(Key::Down));
    assert_eq!(state.palette().map(|palette| palette.selected), Some(2));
    update(&mut state, Event::Key(Key::Enter));
    assert_eq!(state.screen, Screen::Disk);
    press(&mut state, ":");
    click(&mut state, "show the screen tasks");
    assert_eq!((state.screen, state.palette().is_none()), (Screen::Tasks, true));
    press(&mut state, ":");
    click(&mut state, "LIVE");
    assert!(state.palette().is_none(), "a click beside it closes it");
}

#[test]
fn each_entry_of_the_palette_closes_it_on_the_screen() {
    let mut open = state();
    press(&mut open, ":");
    for entry in 0..open.palette().unwrap().entries.len() {
        let mut state = open.clone();
        let effect = update(&mut state, Event::Click(ClickTarget::PaletteEntry(entry)));
        let label = &open.palette().unwrap().entries[entry].label;
        assert_ne!(effect, Effect::Nothing, "without a frame the palette stays drawn: {label}");
    }
}

#[test]
fn a_click_beside_an_overlay_closes_it_and_one_on_its_frame_does_not() {
    let mut state = live(&scenes::lock_convoy(), (160, 50));
    update(&mut state, Event::Key(Key::Function(2)));
    click(&mut state, "Settings");
    assert!(state.overlay.is_some(), "{}", text(&state));
    update(&mut state, Event::Click(ClickTarget::Nothing));
    assert!(state.overlay.is_none());
}

#[test]
fn the_palette_fits_every_size() {
    for size in [(40, 10), (80, 24), (200, 50)] {
        let mut state = live(&scenes::lock_convoy(), size);
        press(&mut state, ":");
        for _ in 0..100 {
            update(&mut state, Event::Key(Key::Down));
        }
        let last = state.palette().and_then(|palette| palette.entries.last()).unwrap().label.clone();
        let shown: String = last.chars().take(20).collect();
        assert!(text(&state).contains(&shown), "the selected entry is visible:\n{}", text(&state));
    }
}

#[test]
fn each_action_has_a_label_of_its_own() {
    let mut labels: Vec<&str> = Vec::new();
    let mut actions: Vec<Action> = Vec::new();
    for action in BINDINGS.iter().flat_map(|binding| binding.keys.iter().map(|key| key.1)) {
        if matches!(action, Action::Show(_)) || actions.contains(&action) {
            continue;
        }
        actions.push(action);
        let Some(label) = action.label() else { continue };
        assert!(!labels.contains(&label), "{label} twice");
        labels.push(label);
    }
}

#[test]
fn rows_of_the_overview_are_selected_and_opened() {
    for size in [(80, 24), (200, 50)] {
        let mut state = live(&scenes::lock_convoy(), size);
        let mut seen: Vec<Item> = Vec::new();
        for _ in 0..30 {
            press(&mut state, "j");
            let item = state.cursor().item.clone().unwrap();
            assert!(state.is_selected(&item));
            if seen.last() != Some(&item) {
                assert!(!seen.contains(&item), "each once: {item:?}");
                seen.push(item);
            }
            let (_, areas) = drawn_frame(&state);
            let drawn = areas.iter().any(|hit| hit.target == ClickTarget::Item(state.cursor().item.clone().unwrap()));
            assert!(drawn, "the selected item is on the screen: {:?}", state.cursor().item);
        }
        assert!(matches!(seen[0], Item::Finding { .. }));
        for wanted in [
            |item: &Item| matches!(item, Item::Disk(_)),
            |item: &Item| matches!(item, Item::Nic(_)),
            |item: &Item| matches!(item, Item::Process(_)),
        ] {
            assert!(seen.iter().any(wanted), "{seen:?}");
        }
        press(&mut state, "\n");
        assert_eq!(state.details.as_ref().map(|details| &details.item), seen.last());
        press(&mut state, "\x1b");
        assert_eq!(state.cursor().item.as_ref(), seen.last(), "the selection stays");
    }
}

#[test]
fn clicks_hit_what_the_frame_shows() {
    let mut state = state();
    click(&mut state, "5 task");
    assert_eq!(state.screen, Screen::Tasks);
    click(&mut state, "%CPU");
    assert_eq!(state.sort().column, SortColumn::TASK_CPU);
    click(&mut state, "sshd");
    let Row::Process { .. } = state.rows()[state.cursor().selected] else { panic!("a process") };
    assert!(state.cursor().item.is_some() && state.details.is_none());
    click(&mut state, "sshd");
    assert!(state.details.is_some(), "a second click opens");
    click(&mut state, "1 over");
    click(&mut state, "sdb  ");
    assert!(matches!(state.cursor().item, Some(Item::Disk(_))), "{:?}", state.cursor().item);
    click(&mut state, "sdb  ");
    assert!(state.details.is_some());
    let mut large = live(&scenes::lock_convoy(), (200, 50));
    click(&mut large, "Network");
    assert_eq!(large.pane_focus().focused, Some(5));
    press(&mut large, "z");
    assert!(
        large.pane_focus().zoomed && !text(&large).contains("Who waits for whom"),
        "z zooms the focused pane:\n{}",
        text(&large)
    );
}

#[test]
fn columns_are_chosen_per_screen() {
    let mut state = live(&scenes::lock_convoy(), (120, 40));
    press(&mut state, "3");
    assert!(text(&state).contains("infl"));
    assert_eq!(update(&mut state, Event::Key(Key::Char('C'))), Effect::ChooseColumns);
    let (_, areas) = drawn_frame(&state);
    let target = areas.into_iter().map(|hit| hit.target).find(|target| matches!(target, ClickTarget::Columns(_))).unwrap();
    update(&mut state, Event::Click(target.clone()));
    assert!(text(&state).contains("[x] infl"), "{}", text(&state));
    click(&mut state, "[x] infl");
    assert!(text(&state).contains("[ ] infl"));
    assert_eq!(update(&mut state, Event::Key(Key::Escape)), Effect::SaveChoices);
    assert!(!text(&state).contains("infl") && text(&state).contains("queue"), "{}", text(&state));
    press(&mut state, "4");
    let infl = ChoosableColumn { key: "in_flight", heading: "infl", hidden_by_default: false };
    assert!(!state.hides_column(infl), "of the disk screen alone");
    press(&mut state, "3");
    update(&mut state, Event::Click(target));
    while !state.hides_column(state.column_chooser().map(|open| open.columns[open.selected]).unwrap()) {
        press(&mut state, "j");
    }
    press(&mut state, " ");
    assert_eq!(update(&mut state, Event::Key(Key::Escape)), Effect::SaveChoices);
    assert!(state.lists.chosen_columns.hidden.is_empty() && text(&state).contains("infl"));
}

#[test]
fn added_columns_take_the_place_of_less_important_ones() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    press(&mut state, "5");
    assert!(!text(&state).contains("PRI") && text(&state).contains("runq") && text(&state).contains("mem"));
    let (_, areas) = drawn_frame(&state);
    let target = areas.into_iter().map(|hit| hit.target).find(|target| matches!(target, ClickTarget::Columns(_))).unwrap();
    update(&mut state, Event::Click(target));
    for heading in ["S", "PRI", "NI", "VIRT", "growth/s"] {
        let Some(Overlay::ColumnChooser(chooser)) = &mut state.overlay else { panic!("no column chooser") };
        chooser.selected = chooser.columns.iter().position(|column| column.heading == heading).unwrap();
        press(&mut state, " ");
    }
    assert_eq!(update(&mut state, Event::Key(Key::Escape)), Effect::SaveChoices);
    let shown = text(&state);
    for heading in ["PRI", "NI", "VIRT", "growth/s", "%CPU", "disk", "lock", "command"] {
        assert!(shown.contains(heading), "{heading} of\n{shown}");
    }
    assert!(!shown.contains("I/O/s"), "{shown}");
    assert_eq!(state.lists.chosen_columns.shown.len(), 1);
}

#[test]
fn the_columns_of_a_screen_have_keys_of_their_own() {
    for size in [(80, 24), (200, 50)] {
        let mut state = live(&scenes::lock_convoy(), size);
        for screen in "123456789".chars() {
            press(&mut state, &screen.to_string());
            for hit in drawn_frame(&state).1 {
                let ClickTarget::Columns(columns) = hit.target else { continue };
                let keys: std::collections::BTreeSet<_> = columns.iter().map(|column| column.key).collect();
                assert_eq!(keys.len(), columns.len(), "screen {screen}: {columns:?}");
            }
        }
    }
}

#[test]
fn added_columns_leave_the_command_line_where_it_is_shown_by_default() {
    let mut state = live(&scenes::lock_convoy(), (165, 24));
    let columns = ["state", "priority", "nice", "virtual_bytes", "resident_growth_bytes_per_second"].map(str::to_owned);
    state.lists.chosen_columns.shown.insert("tasks".to_owned(), columns.into());
    press(&mut state, "5");
    let shown = text(&state);
    assert!(shown.contains("growth/s") && shown.contains("/usr/bin/postgres"), "{shown}");
}

#[test]
fn the_timeline_returns_the_time_of_a_cell() {
    let state = state();
    let (_, areas) = drawn_frame(&state);
    let times: Vec<i64> = (0..80)
        .filter_map(|x| match target_at(&areas, x, 22) {
            ClickTarget::Time(at) => Some(at),
            _ => None,
        })
        .collect();
    assert!(times.len() > 50 && times.is_sorted(), "{times:?}");
}

#[test]
fn y_copies_the_sentence_the_row_or_the_command() {
    let mut state = state();
    assert_eq!(copied_text(&state), Some(state.current().unwrap().active[0].sentence.clone()));
    press(&mut state, "5j");
    let row = copied_text(&state).unwrap();
    assert!(!row.contains('\n') && row.trim_start().starts_with(|first: char| first.is_ascii_digit()), "{row:?}");
    press(&mut state, "g");
    assert!(copied_text(&state).unwrap().contains("postgres"));
    press(&mut state, "\x1b5tg");
    let row = copied_text(&state).unwrap();
    assert!(row.contains("postgres") && !row.ends_with(['█', '│']), "without the scroll bar: {row}");
    assert_eq!(command_text(&state).as_deref(), Some("/usr/bin/postgres -D /var/lib/pg"));
    press(&mut state, "6");
    assert_eq!(command_text(&state).as_deref(), Some("the device's await against its baseline"), "the next steps");
    assert_eq!(update(&mut state, Event::Key(Key::Char('y'))), Effect::CopySelection);
    assert_eq!(update(&mut state, Event::Key(Key::Char('P'))), Effect::SaveScreen);
}
