//! The question before a signal is sent, by what a frame shows and by its effect.

use stalltop::ids::ProcessId;
use stalltop::state::process_signal::ProcessSignal;
use stalltop::state::{Effect, Event, Item, Key, Screen, Source, State, update};
use stalltop::view::click_target;

use crate::scenes;
use crate::screen::{live, press, text};

/// The tasks, the first process selected.
fn state(size: (u16, u16)) -> (State, ProcessId) {
    let mut state = live(&scenes::lock_convoy(), size);
    state.options.allows_signals = true;
    press(&mut state, "5g");
    let Some(Item::Process(id)) = state.selected_item() else { panic!("no process is selected") };
    (state, id)
}

#[test]
fn only_y_sends_the_chosen_signal() {
    let (mut state, process) = state((80, 24));
    press(&mut state, "K");
    assert!(text(&state).contains(&format!("Send SIGTERM to pid {}?", process.pid)), "{}", text(&state));
    for key in [Key::Enter, Key::Char(' '), Key::Char('Y'), Key::Char('5')] {
        assert_eq!(update(&mut state, Event::Key(key)), Effect::Nothing);
    }
    press(&mut state, "jjjjj");
    assert!(text(&state).contains("Send SIGKILL"), "{}", text(&state));
    let send = Effect::SendSignal { process, signal: ProcessSignal::Kill };
    assert_eq!(update(&mut state, Event::Key(Key::Char('y'))), send);
    assert!(state.signal_question().is_none());
    for key in [Key::Escape, Key::Char('n'), Key::Char('q')] {
        press(&mut state, "K");
        assert_eq!(update(&mut state, Event::Key(key)), Effect::Redraw);
        assert!(state.signal_question().is_none());
    }
}

#[test]
fn the_question_fits_every_size_and_takes_clicks() {
    for size in [(40, 10), (80, 24), (200, 50)] {
        let (mut state, process) = state(size);
        press(&mut state, "K");
        let frame = text(&state);
        assert!(frame.contains(&format!("to pid {}?", process.pid)), "{frame}");
        let (y, line) = frame.lines().enumerate().find(|(_, line)| line.contains(" SIGHUP ")).unwrap();
        let x = line.split_once("SIGHUP").unwrap().0.chars().count();
        let target = click_target(&state, u16::try_from(x).unwrap(), u16::try_from(y).unwrap());
        update(&mut state, Event::Click(target));
        assert_eq!(state.signal_question().map(|open| open.signal()), Some(ProcessSignal::Hangup));
        update(&mut state, Event::Wheel(3));
        assert_eq!(state.signal_question().map(|open| open.signal()), Some(ProcessSignal::Quit));
        let beside = click_target(&state, 0, size.1 - 1);
        update(&mut state, Event::Click(beside));
        assert_eq!(state.signal_question().is_none(), size.0 > 40, "a click beside it closes it; it may fill the screen");
    }
}

#[test]
fn a_thread_stands_for_its_process_and_a_row_without_one_says_so() {
    let (mut state, _) = state((80, 24));
    press(&mut state, "tg");
    let Some(Item::Thread(thread)) = state.selected_item() else { panic!("no thread is selected") };
    press(&mut state, "K");
    assert_eq!(state.signal_question().map(|open| open.process.pid), Some(thread.pid));
    state.overlay = None;
    press(&mut state, "\nK");
    assert!(state.details.is_some() && state.signal_question().is_some(), "also on its page");
    press(&mut state, "n\x1b3jK");
    assert_eq!((state.screen, state.signal_question().is_some()), (Screen::Disk, false));
    assert!(text(&state).contains("no process is selected"));
}

#[test]
fn without_permission_and_in_a_replay_the_key_says_why() {
    let (mut state, _) = state((80, 24));
    state.options.allows_signals = false;
    press(&mut state, "K");
    assert!(text(&state).contains("start stalltop with --allow-signals"));
    state.options.allows_signals = true;
    state.setup.source = Source::Replay { name: "x".into() };
    press(&mut state, "K");
    assert!(state.signal_question().is_none() && text(&state).contains("no signals in a replay"));
}
