//! Lines of tables: what is known only in part.

use std::sync::Arc;

use super::*;
use crate::figures::{Cell, FigureInput, Table, find_table};
use crate::ids::CpuId;
use crate::interval::Interval;
use crate::interval::idle_blocked::IdleBlocked;
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
fn what_rests_on_a_part_of_the_tasks_says_so() {
    let mut interval = Interval::between(&host(), &Arc::new(one_busy(2, 1)), &Arc::new(one_busy(2, 2))).unwrap();
    let mut text = |lower_bound: bool| {
        let blocked = IdleBlocked { ratio: 0.25, free: 0.25, blocked_threads: 0.5, lower_bound, ..IdleBlocked::default() };
        interval.idle_blocked = Some(blocked);
        let look = FigureInput { interval: &interval, latency_statuses: &[] };
        let lines = |table: &str, names: &[&str], format: Format| {
            let table = find_table(table).unwrap();
            let heads = table.columns();
            let places: Vec<usize> = names.iter().map(|name| column(table, name)).collect();
            let heads: Vec<_> = places.iter().map(|&at| heads[at]).collect();
            let rows: Vec<Vec<Cell>> = table.rows(&look, &places).into_iter().map(|row| row.cells).collect();
            let stamp = RowTime { clock: "12:00:00".into(), at: interval.newer.at, seconds: 1.0 };
            let text = Printer::new(table, &heads, format, Headings::Once).lines(&stamp, &rows);
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
