//! The screen of pressure and cgroups, and the page of a cgroup.

use std::sync::Arc;

use stalltop::findings::{Evaluation, Kind, Severity, Subject};
use stalltop::ids::DiskId;
use stalltop::interval::cgroup::{CgroupPressureSpan, CgroupSpan, IoLimitKind, IoLimitSpan, IoLimitUsage};
use stalltop::interval::pressure::PressureSpan;
use stalltop::sample::cgroup::{CgroupPressureAverages, StallAverages};
use stalltop::sample::pressure::{Pressure, Stall, StallLine};
use stalltop::sample::{Absent, Sample};
use stalltop::state::{Event, Source, State, update};
use stalltop::units::{Bytes, PerSecond, Ratio};

use crate::machine::finding;
use crate::scenes;
use crate::screen::{press, setup, text};
use crate::synthetic::{cgroup_id, docker_name};

const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";

fn group(path: &str) -> CgroupSpan {
    CgroupSpan {
        id: cgroup_id(path),
        quota_cpus: None,
        used_cpus: Some(0.2),
        throttled_periods: None,
        throttled: None,
        memory_limit: None,
        memory_used: None,
        refaults: None,
        major_faults: None,
        memory_limit_hits: None,
        oom_kills: None,
        limit_ooms: None,
        cpus: None,
        pressure: CgroupPressureSpan::default(),
        pressure_averages: CgroupPressureAverages::default(),
    }
}

/// A throttled container, a unit at its memory limit, a pod that reads as much as it may, and a group whose name is hostile.
fn groups() -> Vec<CgroupSpan> {
    let throttled = CgroupSpan {
        quota_cpus: Some(0.5),
        used_cpus: Some(0.5),
        throttled_periods: Some(Ratio(1.0)),
        throttled: Some(Ratio(0.61)),
        pressure: CgroupPressureSpan { cpu_some: Some(Ratio(0.72)), ..CgroupPressureSpan::default() },
        pressure_averages: CgroupPressureAverages {
            cpu_some: Some(StallAverages { avg10: 7012, avg60: 4410, avg300: 1250 }),
            ..CgroupPressureAverages::default()
        },
        ..group(&format!("/system.slice/docker-{ID}.scope"))
    };
    let short = CgroupSpan {
        memory_limit: Some(Bytes(512 << 20)),
        memory_used: Some(Bytes(510 << 20)),
        memory_limit_hits: Some(PerSecond(840.0)),
        refaults: Some(PerSecond(1200.0)),
        major_faults: Some(PerSecond(90.0)),
        pressure: CgroupPressureSpan { memory_some: Some(Ratio(0.34)), ..CgroupPressureSpan::default() },
        ..group("/system.slice/batch.service")
    };
    let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podb8701d38_3791_422d_ad15_890ad1a0844b.slice";
    vec![group(pod), throttled, short, CgroupSpan { quota_cpus: Some(2.0), ..group("/a\x1b[2Jb\u{202e}c") }]
}

fn with_groups(mut evaluation: Evaluation) -> Evaluation {
    let interval = Arc::make_mut(&mut evaluation.interval);
    interval.cgroups = groups();
    let usage = IoLimitUsage { kind: IoLimitKind::ReadBytes, limit: PerSecond(1e7), used: Some(PerSecond(9.8e6)) };
    let disk = DiskId { major: 8, minor: 16 };
    let pod = interval.cgroups[0].id.clone();
    interval.io_limits = vec![IoLimitSpan { cgroup: pod, disk, usages: vec![usage] }];
    let shares = (Some(Ratio(0.62)), Some(Ratio(0.08)), Some(Ratio(0.0)));
    interval.pressure =
        PressureSpan { cpu_some: shares.0, io_some: shares.1, memory_some: shares.2, ..PressureSpan::default() };
    let line = |avg10, avg60, avg300| Some(StallLine { avg10, avg60, avg300, ..StallLine::default() });
    let stall = |some| Ok(Stall { some, full: line(0.0, 0.0, 0.0) });
    interval.newer = Arc::new(Sample {
        pressure: Pressure {
            cpu: stall(line(61.2, 40.25, 12.5)),
            io: stall(line(7.9, 8.1, 2.0)),
            memory: stall(line(0.0, 0.0, 0.0)),
            irq: Err(Absent::NoSuchFile),
        },
        container_names: vec![docker_name(ID, "web-1")],
        ..Sample::clone(&interval.newer)
    });
    let sentence = "container web-1 (docker) used 0.50 CPU of its quota of 0.50 CPU: throttled 61.0 % of the time";
    let subject = Subject::Cgroup(interval.cgroups[1].id.clone());
    evaluation.active = vec![finding(Kind::CpuThrottled, Severity::Warning, subject, sentence)].into();
    evaluation
}

fn state(size: (u16, u16)) -> State {
    let mut state = State::new(setup(size, Source::Live));
    for evaluation in scenes::quiet().intervals(90, 50) {
        update(&mut state, Event::Evaluation(with_groups(evaluation)));
    }
    press(&mut state, "7");
    state
}

#[test]
fn golden_frames() {
    for (word, size) in [("80x24", (80, 24)), ("200x50", (200, 50)), ("40x10", (40, 10))] {
        let mut state = state(size);
        insta::assert_snapshot!(format!("pressure-{word}"), text(&state));
        press(&mut state, "\n");
        insta::assert_snapshot!(format!("pressure-cgroup-{word}"), text(&state));
    }
}

#[test]
fn the_group_that_is_held_back_most_is_first_and_hostile_names_are_escaped() {
    let mut state = state((80, 24));
    let frame = text(&state);
    let place = |name: &str| frame.lines().position(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {frame}"));
    assert!(place("web-1") < place("batch.service"), "{frame}");
    assert!(place("batch.service") < place("b8701d38"), "98 % of its I/O limit");
    assert!(!frame.contains('\x1b') && !frame.contains('\u{202e}'));
    press(&mut state, "/web-1\n");
    let filtered = text(&state);
    assert!(filtered.contains("web-1") && !filtered.contains("batch.service"), "{filtered}");
}

#[test]
fn every_page_at_odd_sizes() {
    for size in [(40, 10), (41, 13), (79, 24), (99, 40), (100, 32), (120, 40), (255, 60), (500, 150)] {
        let mut state = state(size);
        for keys in ["\n", "\x1b", "j\n", "\x1b", "jj\n", "\x1b", "s", "S"] {
            press(&mut state, keys);
            text(&state);
        }
    }
}

#[test]
fn without_a_limited_group() {
    let mut state = State::new(setup((80, 24), Source::Live));
    for evaluation in scenes::quiet().intervals(3, 2) {
        update(&mut state, Event::Evaluation(evaluation));
    }
    press(&mut state, "7");
    assert!(text(&state).contains("cgroups: not read"), "{}", text(&state));
}
