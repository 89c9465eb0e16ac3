//! The overview of a terminal without panes: which lines have graphs, and what they may displace.

use stalltop::state::demo::DemoNote;
use stalltop::state::{Event, State, update};

use crate::scenes;
use crate::screen::{live, text};

const DISK_SCALE: &str = "await, full ≥ 8× base";

fn line_with<'a>(frame: &'a str, word: &str) -> Option<&'a str> {
    frame.lines().find(|line| line.contains(word))
}

fn is_nic_graph(line: &str) -> bool {
    line.contains(" in ") && line.contains(" out ") && line.contains(" ≤ ")
}

/// The rows of the body below the headings of the tasks.
fn task_rows(frame: &str) -> usize {
    let below = frame.lines().skip_while(|line| !line.starts_with("TASKS")).skip(1);
    below.take_while(|line| !line.starts_with("DEMO") && !line.starts_with("11:") && !line.starts_with("1 ")).count()
}

#[test]
fn disks_and_network_have_a_graph_of_one_line() {
    let frame = text(&live(&scenes::lock_convoy(), (80, 24)));
    let lines: Vec<&str> = frame.lines().collect();
    let at = lines.iter().position(|line| line.contains(DISK_SCALE)).expect("a graph of the disk");
    assert!(lines[at].starts_with("sdb      writes ") && lines[at].matches('▇').count() > 20, "{frame}");
    assert!(lines[at - 1].starts_with("nvme0n1 "), "{frame}");
    let nic = lines[at + 3];
    assert!(nic.starts_with("eth0     in ") && nic.ends_with(" ≤ 500K/s = 0.41% of speed"), "{frame}");
    assert!(task_rows(&frame) >= 3, "{frame}");
}

/// The graphs fall away before the first tasks do, that of the network first.
#[test]
fn graphs_leave_room_for_the_first_tasks() {
    let mut seen = (0, 0);
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    for height in 10..=60 {
        update(&mut state, Event::Resize { width: 80, height });
        for has_note in [false, true] {
            let notice = "The CPUs are idle.";
            let note = DemoNote { number: 1, count: 6, title: "a blocked database", notice, has_next: true };
            state.options.demo = has_note.then_some(note);
            let frame = text(&state);
            let (disk, nic) = (line_with(&frame, DISK_SCALE).is_some(), frame.lines().any(is_nic_graph));
            seen = (seen.0 + usize::from(disk), seen.1 + usize::from(nic));
            assert!(disk || !nic, "{height}: {frame}");
            assert!(!disk || task_rows(&frame) >= 3, "{height}: {frame}");
        }
    }
    assert!(seen.0 >= seen.1 && seen.1 > 60, "{seen:?}");
}

#[test]
fn a_slow_terminal_and_a_quiet_disk_have_no_graph() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    update(&mut state, Event::TerminalIsSlow);
    let frame = text(&state);
    assert!(line_with(&frame, DISK_SCALE).is_none() && !frame.lines().any(is_nic_graph), "{frame}");
    let frame = text(&live(&scenes::quiet(), (80, 24)));
    assert!(!frame.contains("await, full") && frame.lines().any(is_nic_graph), "{frame}");
}

/// What a shaper lets pass fills the graph: it is the limit, not the speed.
#[test]
fn a_shaped_interface_is_drawn_against_what_its_shaper_lets_pass() {
    let frame = text(&live(&scenes::shaped_network(), (80, 24)));
    let line = frame.lines().find(|line| is_nic_graph(line)).unwrap();
    assert!(line.ends_with(" ≤ 96.6Mbit/s tbf") && line.matches('▇').count() > 10, "{line}");
}

/// A new interval overwrites the oldest column of a graph.
#[test]
fn a_new_interval_changes_two_columns_of_each_graph() {
    let machine = scenes::lock_convoy();
    let mut state = live(&machine, (80, 24));
    let rows = |state: &State| {
        let frame = text(state);
        [line_with(&frame, DISK_SCALE).unwrap().to_owned(), frame.lines().find(|line| is_nic_graph(line)).unwrap().to_owned()]
    };
    let before = rows(&state);
    update(&mut state, Event::Evaluation(machine.intervals(95, 50).swap_remove(90)));
    let changed = before
        .iter()
        .zip(rows(&state))
        .map(|(before, after)| before.chars().zip(after.chars()).filter(|(before, after)| before != after).count());
    assert_eq!(changed.collect::<Vec<_>>(), [2, 4]);
}
