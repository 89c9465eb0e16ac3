//! The catalogue: titles and keys are unique, numbers fit into their columns, one CPU of 256 is not rounded to 0.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
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
fn one_cpu_of_256_is_not_rounded_to_zero() {
    let interval = one_busy_cpu(256);
    let input = FigureInput { interval: &interval, latency_statuses: &[] };
    let (cpu, core) = (find_table("cpu").unwrap(), find_table("core").unwrap());
    let at = column(cpu, "%usr");
    let share = cpu.rows(&input, &[at])[0].cells[0].number().unwrap();
    assert_eq!(cpu.columns()[at].format(share), "0.39");
    let rows = core.rows(&input, &[column(core, "CPU"), column(core, "%busy")]);
    let busy: Vec<&Row> = rows.iter().filter(|row| !row.idle).collect();
    assert_eq!((rows.len(), busy.len()), (256, 1));
    assert_eq!(busy[0].cells, [Cell::Number(0.0), Cell::Number(1.0)]);
}

#[test]
fn titles_headings_and_keys_are_unique_and_keys_end_with_their_unit() {
    for table in TABLES {
        let columns = table.columns();
        let (mut names, mut usual, mut headings): (BTreeSet<&str>, BTreeSet<&str>, BTreeSet<&str>) = Default::default();
        for column in &columns {
            assert!(names.insert(column.title), "{}: {} twice", table.name(), column.title);
            assert!(headings.insert(column.heading), "{}: {} twice", table.name(), column.heading);
            assert!(!column.shown_by_default || usual.insert(column.key), "{}: {} twice", table.name(), column.key);
            assert!(
                !column.description.is_empty() && !column.title.contains([',', ' ', ':']),
                "{}: {}",
                table.name(),
                column.title
            );
            let suffix = match column.unit {
                Unit::Percent | Unit::PercentOfCpu => "_ratio",
                Unit::PerSecond => "_per_second",
                Unit::KilobytesPerSecond | Unit::MegabytesPerSecond => "_bytes_per_second",
                Unit::Milliseconds | Unit::Seconds => "_seconds",
                Unit::Kilobytes => "_bytes",
                Unit::Name | Unit::Id | Unit::Count => "",
            };
            assert!(column.key.ends_with(suffix), "{}: {} is in {}", table.name(), column.key, column.unit.label());
        }
        let sets = table.column_sets().into_iter().flat_map(|(_, columns)| columns);
        for column in sets.chain(table.key_columns()).chain(table.pid_column()).chain([table.default_sort()]) {
            assert!(table.column_index(column).is_some(), "{}: no column {}", table.name(), column.title);
        }
        assert!(find_table(table.name()).is_some());
    }
}

#[test]
fn numbers_have_fewer_decimals_the_larger_they_are() {
    let two = |number| Precision::TwoDecimals.format(number);
    assert_eq!(
        [two(0.0), two(0.39), two(9_999.99), two(9_999.996), two(99_999.96), two(123_456.7)],
        ["0.00", "0.39", "9999.99", "10000.0", "100000", "123457"]
    );
    let four = |number| Precision::FourSignificant.format(number);
    assert_eq!(
        [four(0.0), four(0.01234), four(0.99996), four(1.2345), four(12.345), four(123.45), four(123_456.0)],
        ["0.00", "0.0123", "1.000", "1.234", "12.35", "123.5", "123456"]
    );
    for digits in [Precision::Integer, Precision::TwoDecimals, Precision::FourSignificant] {
        for number in [0.0, 0.012_34, 1.0, 12.345, 123.456, 1_234.567, 12_345.678, 123_456.789, 999_999.0] {
            let text = digits.format(number);
            assert!(text.len() <= digits.width(), "{digits:?} {number}: {text}");
        }
    }
}

#[test]
fn titles_and_keys_of_totals_have_no_per_second() {
    let total = |table: &str, name: &str| {
        let table = find_table(table).unwrap();
        let definition = table.columns()[column(table, name)];
        (definition.total_title(), definition.total_key())
    };
    let pair = |name: &str, json: &str| (name.to_owned(), json.to_owned());
    assert_eq!(total("disk", "r/s"), pair("r", "reads"));
    assert_eq!(total("disk", "rkB/s"), pair("rkB", "read_bytes"));
    assert_eq!(total("disk", "r_await"), pair("r_await", "read_await_seconds"));
    assert_eq!(total("cpu", "%usr"), pair("usr_s", "user_seconds"));
    assert_eq!(total("task", "%CPU"), pair("CPU_s", "cpu_seconds"));
}
