//! Lines of tables: figures that are bounds, because a part of the threads is hidden.

use std::sync::Arc;

use super::*;
use crate::figures::{Cell, FigureInput, Table, find_table};
use crate::interval::Interval;
use crate::interval::idle_blocked::IdleBlocked;
use crate::synthetic;

/// An interval of a second in which one of `cpus` CPUs was busy.
fn one_busy_cpu(cpus: u32) -> Interval {
    let [older, newer] = [1, 2].map(|second| synthetic::one_busy_cpu(cpus, second).shared());
    Interval::between(&Arc::new(synthetic::host()), &older, &newer).unwrap()
}

fn column(table: &dyn Table, name: &str) -> usize {
    table.columns().iter().position(|column| column.title == name).expect(name)
}

#[test]
fn bounds_have_a_sign_in_text_only() {
    let mut interval = one_busy_cpu(2);
    let mut text = |lower_bound: bool| {
        let blocked = IdleBlocked { ratio: 0.25, free: 0.25, blocked_threads: 0.5, lower_bound, ..IdleBlocked::default() };
        interval.idle_blocked = Some(blocked);
        let input = FigureInput { interval: &interval, latency_statuses: &[] };
        let lines = |table: &str, names: &[&str], format: Format| {
            let table = find_table(table).unwrap();
            let indices: Vec<usize> = names.iter().map(|name| column(table, name)).collect();
            let columns: Vec<_> = indices.iter().map(|&index| table.columns()[index]).collect();
            let rows: Vec<Vec<Cell>> = table.rows(&input, &indices).into_iter().map(|row| row.cells).collect();
            let time = RowTime { clock: "12:00:00".into(), at: interval.newer.at, seconds: 1.0 };
            let text = Printer::new(table, &columns, format, Headings::Once).lines(&time, &rows).unwrap();
            text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let of = |format| [lines("load", &["blkd"], format), lines("cpu", &["%blocked", "%free"], format)];
        (of(Format::Text), of(Format::Csv { safe_formulas: true }))
    };
    let (seen, numbers) = text(false);
    assert_eq!(seen, ["12:00:00 0.50", "12:00:00 25.00 25.00"]);
    let (hidden, same) = text(true);
    assert_eq!(hidden, ["12:00:00 ≥0.50", "12:00:00 ≥25.00 ≤25.00"]);
    assert_eq!(numbers, same);
}
