//! Consistency between the parts of a frame, and no text is cut where it fits.

use std::sync::Arc;

use stalltop::findings::{Evidence, Kind, RULES, RuleConfig, Severity, Subject, Value};
use stalltop::state::{Event, Item, Source, State, update};

use crate::machine::{Machine, RUNNER, Thread, Worker, finding};
use crate::scenes;
use crate::screen::{buffer, live, live_intervals, press, setup, text};

/// The row of the first device.
fn device(frame: &str) -> &str {
    frame.lines().find(|line| line.starts_with("sdb")).unwrap()
}

#[test]
fn a_device_row_has_the_symbol_of_its_finding() {
    for screen in ["1", "3"] {
        let mut machine = scenes::saturated_disk();
        for latency_status in &mut machine.latency_statuses {
            latency_status.provisional = false;
        }
        let mut state = live(&machine, (80, 24));
        press(&mut state, screen);
        assert!(device(&text(&state)).contains("28.8▲"), "symbol of the finding: {}", text(&state));
        machine.findings.clear();
        let mut state = live(&machine, (80, 24));
        press(&mut state, screen);
        assert!(device(&text(&state)).contains("28.8 "), "no symbol without a finding: {}", text(&state));
        assert!(text(&state).contains("nothing found wrong"), "{}", text(&state));
    }
}

/// What limits the blocked threads is in the headline, in the table and in the graph.
#[test]
fn the_latency_of_the_headline_is_in_the_table_and_in_the_graph() {
    let mut machine = scenes::lock_convoy();
    machine.devices[0].writes = (601, 41);
    for size in [(80, 24), (100, 40), (120, 40), (200, 50)] {
        let frame = text(&live(&machine, size));
        let line_with = |word: &str| frame.lines().find(|line| line.contains(word)).unwrap_or_default();
        assert!(line_with("postgres: 61 threads").contains("fsync") && frame.contains("flush 40.0"), "{frame}");
        let (heading, row) = (line_with("DISK   "), line_with("  41.0 "));
        let end = heading.find("f_await").map(|at| heading[..at].chars().count() + 7);
        let figure: Option<String> = end.map(|end| row.chars().skip(end - 4).take(4).collect());
        assert_eq!(figure.as_deref(), Some("40.0"), "{frame}");
        assert!(size.0 < 120 || frame.contains("sdb flushes"), "{frame}");
    }
}

/// The line of a graph of latencies is where their finding begins.
#[test]
fn the_line_of_a_slow_latency_is_at_the_configured_multiple() {
    let frames = |multiple: f64, keys: &str| {
        let mut state = State::new(setup((200, 50), Source::Live));
        for mut evaluation in live_intervals(&scenes::lock_convoy()).iter().cloned() {
            let mut config = RuleConfig::default();
            config.thresholds.latency_multiple = multiple;
            evaluation.rule_config = Arc::new(config);
            update(&mut state, Event::Evaluation(evaluation));
        }
        press(&mut state, keys);
        text(&state)
    };
    let line = |frame: &str| frame.lines().position(|line| line.contains("╌╌╌╌")).expect("a line");
    for keys in ["1", "3"] {
        let (usual, other) = (frames(3.0, keys), frames(9.0, keys));
        assert!(usual.contains("╌ 3×") && other.contains("╌ 9×") && !other.contains("3×,"), "{other}");
        assert!(line(&other) < line(&usual), "{usual}{other}");
    }
    let page = frames(5.0, "3\n");
    assert!(page.contains("39.0 ms"), "5 times 7.80 ms: {page}");
}

/// A number without its end is another number, and the words on a frame have a shorter form.
#[test]
fn no_figure_and_no_frame_is_cut() {
    let mut network = scenes::shaped_network();
    network.network.scans = Some((4, 38_000_000));
    for machine in [scenes::lock_convoy(), scenes::hot_core(), network] {
        for size in [(90, 30), (100, 40), (120, 40), (160, 45)] {
            let mut state = live(&machine, size);
            for keys in ["1", "2", "4"] {
                press(&mut state, keys);
                let frame = text(&state);
                // Addresses are cut.
                for (at, _) in frame.match_indices('…').filter(|_| keys != "4") {
                    let before = frame[..at].chars().next_back();
                    assert!(!before.is_some_and(|before| before.is_ascii_digit() || ".%".contains(before)), "{frame}");
                }
                let frames = frame.lines().filter(|line| line.starts_with(['┌', '├']));
                frames.for_each(|line| assert!(!line.contains('…'), "{size:?}: {line}"));
            }
        }
    }
}

/// In half of a terminal of 120 columns the queues are shown, and that there is more.
#[test]
fn queues_come_before_counters_that_are_seldom_used() {
    let mut state = live(&scenes::shaped_network(), (120, 40));
    press(&mut state, "4");
    let frame = text(&state);
    assert!(frame.contains("backlog q drop overlimits") && frame.contains("z: 4 more columns"), "{frame}");
}

#[test]
fn free_lines_are_used_before_a_sentence_is_cut() {
    let mut machine = scenes::quiet();
    let sentence = "spin (3906) uses 100 % of one CPU, on CPU 1: at its limit, more CPUs won't help; the host is 50.5 % busy";
    let of = |kind| finding(kind, Severity::Warning, Subject::Host, sentence);
    machine.findings = vec![of(Kind::SaturatedThread), of(Kind::SaturatedCore)];
    let frame = text(&live(&machine, (80, 24)));
    let verdict: String = frame.lines().skip(1).take(4).map(str::trim_start).collect::<Vec<_>>().join(" ");
    assert_eq!(verdict, format!("▲ {sentence} ▲ {sentence}"));
    machine.findings.extend([of(Kind::CpuSaturated), of(Kind::CpuStolen)]);
    let frame = text(&live(&machine, (80, 24)));
    assert!(frame.lines().nth(4).unwrap().ends_with("+1 (key 6)"), "{frame}");
}

/// The whole page, by scrolling through it. A high terminal needs fewer steps.
fn whole_page(machine: &crate::machine::Machine, keys: &str) -> String {
    let mut state = live(machine, (80, 60));
    press(&mut state, keys);
    let (mut all, mut last) = (String::new(), String::new());
    for _ in 0..200 {
        let frame = text(&state);
        if frame == last {
            break;
        }
        all += &frame;
        last = frame;
        press(&mut state, "j");
    }
    all
}

#[test]
fn the_text_of_a_rule_is_complete() {
    for rule in RULES {
        let mut machine = scenes::quiet();
        machine.findings = vec![finding(rule.kind, Severity::Warning, Subject::Host, "x")];
        let page = whole_page(&machine, "6\n");
        let last = rule.computed.split(' ').next_back().unwrap();
        assert!(page.contains(last), "{:?}: {page}", rule.kind);
        assert!(!page.contains('…'), "{:?}: {page}", rule.kind);
    }
}

#[test]
fn values_of_a_page_are_aligned() {
    let mut machine = scenes::quiet();
    machine.findings = vec![finding(Kind::CpuSaturated, Severity::Warning, Subject::Host, "x")];
    machine.findings[0].evidence.push(Evidence { name: "group_on_storage_threads", value: Value::Number(1.92) });
    let page = whole_page(&machine, "6\n");
    let column =
        |label: &str, figure: &str| page.lines().find(|line| line.starts_with(label) && line.contains(figure))?.find(figure);
    let first = column("  iowait ", "5.00 %");
    assert!(first.is_some() && first == column("  group on storage threads ", "1.92"), "{page}");
}

#[test]
fn help_is_complete_on_a_narrow_terminal() {
    let mut state = live(&scenes::quiet(), (80, 24));
    update(&mut state, Event::Resize { width: 40, height: 60 });
    press(&mut state, "?");
    let frame = text(&state);
    assert!(!frame.contains('…') && frame.contains("selects text)"), "{frame}");
}

/// Arrows select the threads of a process, in sight or not, and Esc returns to the page from which one was opened.
#[test]
fn a_thread_of_a_page_can_be_selected_and_opened() {
    for size in [(80, 24), (200, 50)] {
        let mut state = live(&scenes::lock_convoy(), (80, 24));
        update(&mut state, Event::Resize { width: size.0, height: size.1 });
        press(&mut state, "5\n");
        let page = state.details.as_ref().unwrap().item.clone();
        let mut opened = Vec::new();
        for _ in 0..200 {
            press(&mut state, "j");
            let Some(selected) = state.details.as_ref().unwrap().selected_in_sight().cloned() else { continue };
            if opened.last() == Some(&selected) {
                break;
            }
            let before = text(&state);
            assert!(before.contains("Enter open"), "{before}");
            press(&mut state, "\n");
            assert_eq!(state.details.as_ref().unwrap().item, selected);
            assert!(text(&state).contains(" thread "), "{}", text(&state));
            press(&mut state, "\x1b");
            assert_eq!(state.details.as_ref().unwrap().item, page);
            assert_eq!(text(&state), before);
            opened.push(selected);
        }
        assert!(opened.len() > 20, "{size:?}: {opened:?}");
        press(&mut state, "k");
        assert_eq!(state.details.as_ref().unwrap().selected_in_sight(), opened.iter().nth_back(1), "{size:?}");
        press(&mut state, "g");
        assert!(size.1 == 50 || !text(&state).contains("Enter open"), "out of sight");
        press(&mut state, "\x1b");
        assert_eq!(state.details, None);
    }
}

/// Findings, devices and CPUs lead to the threads and processes that they name.
#[test]
fn the_tasks_of_every_page_can_be_selected_and_opened() {
    for (keys, size) in [("6\n", (80, 24)), ("6\n", (200, 50)), ("3\n", (80, 24)), ("2\n", (80, 24))] {
        let mut state = live(&scenes::lock_convoy(), size);
        press(&mut state, keys);
        let page = state.details.as_ref().unwrap().item.clone();
        let is_task = |item: &Item| matches!(item, Item::Thread(_) | Item::Process(_));
        let selected = (0..200).find_map(|_| {
            press(&mut state, "j");
            state.details.as_ref().unwrap().selected_in_sight().filter(|item| is_task(item)).cloned()
        });
        let selected = selected.unwrap_or_else(|| panic!("no task on {keys:?}: {}", text(&state)));
        press(&mut state, "\n");
        assert_eq!(state.details.as_ref().unwrap().item, selected);
        assert!(text(&state).contains("TIME GOES TO") || text(&state).contains("asleep"), "{}", text(&state));
        press(&mut state, "\x1b");
        assert_eq!(state.details.as_ref().unwrap().item, page);
    }
}

/// A process that ended keeps its row until the order of the rows is renewed, or gives it to a new process; one that became idle
/// keeps it too, however many others are idle. The others do not move.
#[test]
fn rows_stay_where_they_are_until_the_order_is_renewed() {
    let with = |compiler: Option<Worker>| {
        let mut machine = scenes::lock_convoy();
        machine.workers.extend((1000..1140).map(|pid| scenes::idle(pid, b"worker")));
        machine.workers.extend(compiler);
        machine
    };
    let threads = || vec![Thread { user_ms: 200, ..RUNNER }];
    let busy = |pid| Some(Worker { pid, comm: b"cc1", cmdline: b"cc1\0", threads: threads() });
    let line_of = |frame: &str, word: &str| frame.lines().position(|line| line.contains(word));
    let next = |machine: &Machine, second: usize| Event::Evaluation(machine.intervals(95, 50).swap_remove(second - 1));
    let idle = Some(scenes::idle(9000, b"cc1"));
    for (second_machine, row) in
        [(with(None), "9000 <ended> cc1, at least "), (with(busy(9001)), " 9001 "), (with(idle), " 9000 ")]
    {
        let mut state = live(&with(busy(9000)), (80, 24));
        press(&mut state, "5");
        let before = text(&state);
        let (at, sshd) = (line_of(&before, " 9000 "), line_of(&before, "sshd"));
        assert!(at.is_some() && at < sshd, "{before}");
        update(&mut state, next(&second_machine, 91));
        let frame = text(&state);
        assert_eq!((line_of(&frame, row), line_of(&frame, "sshd")), (at, sshd), "{frame}");
        update(&mut state, next(&second_machine, 94));
        assert!(!text(&state).contains("<ended>"), "{}", text(&state));
    }
}

/// A graph that the edge of the page cuts is as high as a whole one: its rows are those beside its labels.
#[test]
fn a_graph_at_the_edge_of_a_page_is_cut_and_not_drawn_smaller() {
    let page = |height| {
        let mut state = live(&scenes::lock_convoy(), (80, 24));
        update(&mut state, Event::Resize { width: 80, height });
        press(&mut state, "3\n");
        state
    };
    let rows = |frame: &str, skipped: usize| -> Vec<String> {
        let body = frame.lines().skip(skipped).map(|line| line.chars().take(60).collect::<String>().trim_end().to_owned());
        body.collect()
    };
    let tall = text(&page(60));
    let begin = tall.lines().position(|line| line.starts_with("sdb   8:16")).unwrap();
    let whole = rows(&tall, begin);
    let mut state = page(24);
    let above = text(&state).lines().position(|line| line.starts_with("sdb   8:16")).unwrap();
    for _ in 0..16 {
        let frame = text(&state);
        let scrolled = state.details.as_ref().unwrap().scroll_offset;
        let seen = rows(&frame, above);
        assert_eq!(seen[..20], whole[scrolled..scrolled + 20], "{frame}");
        press(&mut state, "j");
    }
    assert!(state.details.as_ref().unwrap().scroll_offset > 8, "{}", text(&state));
}

#[test]
fn up_scrolls_from_the_end_of_a_page() {
    for (keys, size) in [("6\n", (80, 24)), ("5\n", (80, 24)), ("?", (40, 12))] {
        let mut state = live(&scenes::lock_convoy(), (80, 24));
        update(&mut state, Event::Resize { width: size.0, height: size.1 });
        press(&mut state, keys);
        let mut drawn = buffer(&state);
        for _ in 0..300 {
            press(&mut state, "j");
            let before = std::mem::replace(&mut drawn, buffer(&state));
            if drawn == before {
                break;
            }
        }
        let end = text(&state);
        let last = if keys == "?" { "/proc/pressure" } else { " end" };
        assert!(end.contains(last), "{end}");
        press(&mut state, "k");
        assert_ne!(buffer(&state), drawn, "{keys}");
        press(&mut state, "j");
        assert_eq!(buffer(&state), drawn, "{keys}");
    }
}
