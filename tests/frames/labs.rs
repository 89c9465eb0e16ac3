//! The overview of six loads of the lab: its first lines name the cause, at 80×24 without color too.

use ratatui::style::Color;
use stalltop::state::ColorSupport;
use stalltop::view::theme::colors::built_in_themes;

use crate::matrix::{styles, with_colors};
use crate::recorded::{evaluations, replay};
use crate::screen::{press, text};

/// A recording, what its first lines say, and how the row begins that has the figures of the cause.
const LABS: [(&str, &[&str], &str); 6] = [
    (
        "01-commit-serialised-db",
        &[
            "postgres: 58 threads wait (inferred) behind one of 4 in fdatasync, pg_wal",
            "loop1: flush 40.4 ms",
            "CPUs idle, blocked",
        ],
        "postgres ",
    ),
    ("03-fio-sync32", &["fio: 32 threads in pread64 on loop1: read 79.9 ms", "CPUs idle, blocked"], "fio "),
    ("07-one-hot-thread-pinned", &["spin (3906) uses 100 % of one CPU, on CPU 1: at its limit"], "spin "),
    ("10-full", &["labA: tx is limited by its queueing discipline (tbf)"], "labA "),
    (
        "13-cgroup-throttled",
        &["cgroup /lab-13-cgroup-throttled is limited to its quota of 0.20 CPU: throttled 80.0 %"],
        "spin ",
    ),
    (
        "15-lock-convoy",
        &["convoy: 63 threads wait behind 1 in fsync, f on loop0: flush 10.3 ms", "CPUs idle, blocked"],
        "convoy ",
    ),
];

#[test]
fn the_cause_is_in_the_first_lines() {
    let dark = built_in_themes().find(|theme| theme.name() == "dark").unwrap();
    for (name, words, row) in LABS {
        let evaluations = evaluations(name);
        let mut state = replay(name, &evaluations, (80, 24));
        let drawn = with_colors(&mut state, ColorSupport::None);
        assert!(drawn.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)), "{name}");
        let frame = text(&state);
        let first: String = frame.lines().skip(1).take(4).map(str::trim).collect::<Vec<_>>().join(" ");
        words.iter().for_each(|word| assert!(first.contains(word), "{name}: no {word:?}: {frame}"));
        assert!(frame.lines().any(|line| line.starts_with(row)), "{name}: {frame}");
        let lab = &name[..2];
        insta::assert_snapshot!(format!("lab-{lab}-80x24"), frame);
        let mut state = replay(name, &evaluations, (200, 50));
        state.setup.terminal.theme = dark;
        let drawn = with_colors(&mut state, ColorSupport::TrueColor);
        insta::assert_snapshot!(format!("lab-{lab}-200x50"), format!("{}styles {:016x}\n", text(&state), styles(&drawn)));
    }
}

/// The page of the first finding: the chain, the cross-checks, and what can be opened.
#[test]
fn the_page_of_a_finding_leads_from_its_tasks_to_the_limit() {
    let pages: [(&str, &[&str]); 3] = [
        (
            "13-cgroup-throttled",
            &[
                "└▶ cgroup /lab-13-cgroup-throttled: throttled",
                "└▶ its quota of 0.20 CPU",
                "all CPUs busy",
                "in it            spin/4585",
            ],
        ),
        (
            "07-one-hot-thread-pinned",
            &[
                "spin (3906) uses 100 % of one CPU",
                "└▶ CPU 1, which is 100 % busy",
                "busiest CPU",
                "thread           spin/3906",
            ],
        ),
        ("14-memory-thrash", &["└▶ its memory limit of 32.0 MiB", "host majflt/s", "in it            fio/"]),
    ];
    for (name, words) in pages {
        let mut state = replay(name, &evaluations(name), (120, 90));
        press(&mut state, "6\n");
        let frame = text(&state);
        let headings = ["FROM THE TASKS TO THE LIMIT", "CROSS-CHECKS", "PAGES"];
        headings.iter().chain(words).for_each(|word| assert!(frame.contains(word), "{name}: no {word:?}: {frame}"));
    }
}
