//! The catalogue: names that are found, digits that fit, one CPU of 256.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::ids::CpuId;
use crate::sample::cpu::{Cpu, CpuTimes};
use crate::sample::host::Privilege;
use crate::sample::{Absent, Host, Instant, Name, Sample};
use crate::units::Counter;

fn host() -> Arc<Host> {
    let privilege =
        Privilege { effective_uid: 0, has_cap_sys_ptrace: true, delay_accounting: Err(Absent::NotRead), hidepid: false };
    Arc::new(Host {
        hostname: Name::from("db1"),
        kernel: Name::from("6.18"),
        machine: Name::from("x86_64"),
        boot_id: Name::from("b"),
        boot_time_s: None,
        page_size: 4096,
        ticks_per_second: 100,
        topology: Vec::new(),
        privilege,
    })
}

/// `cpus` CPUs of which the first is busy all the time.
fn one_busy(cpus: u32, second: u64) -> Sample {
    let ns = second * 1_000_000_000;
    let mut sample = Sample::empty(Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: 0 });
    let times = |user: u64, idle: u64| CpuTimes {
        user_ticks: Counter(user),
        idle_ticks: Counter(idle),
        steal_ticks: Some(Counter(0)),
        ..CpuTimes::default()
    };
    let ticks = second * 100;
    let each = |id: u32| (CpuId(id), if id == 0 { times(ticks, 0) } else { times(0, ticks) });
    let total = times(ticks, ticks * u64::from(cpus - 1));
    sample.cpu = Ok(Cpu { total, cpus: (0..cpus).map(each).collect(), ..Cpu::default() });
    sample
}

fn column(table: &dyn Table, name: &str) -> usize {
    table.columns().iter().position(|head| head.title == name).expect(name)
}

#[test]
fn one_cpu_of_256_never_rounds_to_nothing() {
    let interval = Interval::between(&host(), &Arc::new(one_busy(256, 1)), &Arc::new(one_busy(256, 2))).unwrap();
    let look = FigureInput { interval: &interval, latency_statuses: &[] };
    let (cpu, core) = (find_table("cpu").unwrap(), find_table("core").unwrap());
    let at = column(cpu, "%usr");
    let share = cpu.rows(&look, &[at])[0].cells[0].number().unwrap();
    assert_eq!(cpu.columns()[at].precision.format(share / cpu.columns()[at].unit.divisor()), "0.39");
    let rows = core.rows(&look, &[column(core, "CPU"), column(core, "%busy")]);
    let busy: Vec<&Row> = rows.iter().filter(|row| !row.idle).collect();
    assert_eq!((rows.len(), busy.len()), (256, 1));
    assert_eq!(busy[0].cells, [Cell::Number(0.0), Cell::Number(1.0)]);
}

#[test]
fn names_are_found_by_people_and_by_programs() {
    for table in TABLES {
        let heads = table.columns();
        let (mut names, mut usual): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
        for head in &heads {
            assert!(names.insert(head.title), "{}: {} twice", table.name(), head.title);
            assert!(!head.shown_by_default || usual.insert(head.key), "{}: {} twice", table.name(), head.key);
            assert!(!head.description.is_empty() && !head.title.contains([',', ' ', ':']), "{}: {}", table.name(), head.title);
            let suffix = match head.unit {
                Unit::Percent | Unit::PercentOfCpu => "_ratio",
                Unit::PerSecond => "_per_second",
                Unit::KilobytesPerSecond | Unit::MegabytesPerSecond => "_bytes_per_second",
                Unit::Milliseconds => "_seconds",
                Unit::Kilobytes => "_bytes",
                Unit::Name | Unit::Id | Unit::Count => "",
            };
            assert!(head.key.ends_with(suffix), "{}: {} is in {}", table.name(), head.key, head.unit.label());
        }
        let sets = table.column_sets().iter().flat_map(|(_, names)| names.iter());
        for name in sets.chain(table.key_columns()).chain([&table.default_sort()]) {
            assert!(names.contains(name), "{}: no column {name}", table.name());
        }
        assert_eq!(table.is_single_row(), table.key_columns().is_empty(), "{}", table.name());
        assert!(find_table(table.name()).is_some());
    }
}

#[test]
fn digits_follow_the_size_and_six_fit() {
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
fn a_total_has_no_time_in_its_names() {
    let total = |table: &str, name: &str| {
        let table = find_table(table).unwrap();
        let head = table.columns()[column(table, name)];
        (head.total_title(), head.total_key())
    };
    let pair = |name: &str, json: &str| (name.to_owned(), json.to_owned());
    assert_eq!(total("disk", "r/s"), pair("r", "reads"));
    assert_eq!(total("disk", "rkB/s"), pair("rkB", "read_bytes"));
    assert_eq!(total("disk", "r_await"), pair("r_await", "read_await_seconds"));
    assert_eq!(total("cpu", "%usr"), pair("usr_s", "user_seconds"));
    assert_eq!(total("task", "%CPU"), pair("CPU_s", "cpu_seconds"));
}
