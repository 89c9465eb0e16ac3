//! Clock steps. Displayed times use CLOCK_REALTIME, which may be set to anything; rates never do.

use std::sync::Arc;

use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator};
use stalltop::interval::Interval;
use stalltop::sample::{Instant, Sample};
use stalltop::state::{Event, Source, State, update};

use crate::scenes;
use crate::screen::{buffer, live_intervals, press, setup, text};

const SECOND: i64 = 1_000_000_000;

/// The evaluation of 90 intervals whose clocks are changed by `change`.
fn evaluations(change: impl Fn(usize, Instant) -> Instant) -> Vec<Evaluation> {
    let machine = scenes::hot_core();
    let host = Arc::new(machine.host());
    let plain = live_intervals(&machine);
    let mut samples: Vec<Arc<Sample>> = vec![Arc::clone(&plain[0].interval.older)];
    samples.extend(plain.iter().map(|evaluation| Arc::clone(&evaluation.interval.newer)));
    for (number, sample) in samples.iter_mut().enumerate() {
        let sample = Arc::make_mut(sample);
        sample.at = change(number, sample.at);
    }
    let mut evaluator = Evaluator::new(Baselines::default());
    let between = |pair: &[Arc<Sample>]| Interval::between(&host, &pair[0], &pair[1]);
    samples.windows(2).filter_map(between).map(|interval| evaluator.evaluate(interval)).collect()
}

/// All computed values, without times.
fn computed(evaluations: &[Evaluation]) -> Vec<String> {
    let told = |evaluation: &Evaluation| {
        let interval = &evaluation.interval;
        let findings: Vec<_> =
            evaluation.active.iter().map(|finding| (finding.kind, finding.value, finding.severity)).collect();
        format!("{} {:?} {:?} {:?} {findings:?}", interval.seconds, interval.cpu, interval.disks, interval.tasks)
    };
    evaluations.iter().map(told).collect()
}

/// Draws every screen and details page.
fn is_drawn(evaluations: &[Evaluation]) {
    let mut state = State::new(setup((100, 30), Source::Live));
    for evaluation in evaluations {
        update(&mut state, Event::Evaluation(evaluation.clone()));
        update(&mut state, Event::Now(evaluation.interval.at()));
    }
    for keys in ["1", "2", "3", "\n", "\x1b4", "5", "\n", "\x1b6", "\n", "\x1b["] {
        press(&mut state, keys);
        buffer(&state);
    }
}

#[test]
fn a_realtime_step_changes_no_value() {
    let steady = evaluations(|_, at| at);
    let expected = computed(&steady);
    assert!(expected.iter().any(|told| told.contains("SaturatedCore")), "there is a finding");
    let jumps: [fn(i64) -> i64; 12] = [
        |now| now - 3600 * SECOND,
        |now| now + 10 * 365 * 86_400 * SECOND,
        |_| 0,
        |_| -1,
        |_| SECOND * 2_147_483_648,
        |_| SECOND * 4_294_967_296,
        |_| i64::MAX,
        |_| i64::MIN,
        // A repeated leap second.
        |now| now - SECOND,
        // A change of daylight saving time: UTC is continuous.
        |now| now + 29 * 86_400 * SECOND,
        // Before 1970, and a clock that stands still.
        |now| -now,
        |_| 1_772_366_400 * SECOND,
    ];
    for (number, jump) in jumps.into_iter().enumerate() {
        let jumped = evaluations(|sample, at| match sample {
            // Steps away in the middle and back.
            45..70 => Instant { realtime_ns: jump(at.realtime_ns), ..at },
            _ => at,
        });
        assert_eq!(computed(&jumped), expected, "jump {number}");
        is_drawn(&jumped);
    }
}

#[test]
fn suspend_is_a_gap_without_findings() {
    let night = 8 * 3600 * SECOND as u64;
    let slept = evaluations(|sample, at| match sample {
        60.. => Instant { boottime_ns: at.boottime_ns + night, realtime_ns: at.realtime_ns + night as i64, ..at },
        _ => at,
    });
    let asleep: Vec<&Evaluation> = slept.iter().filter(|evaluation| evaluation.interval.suspended_seconds > 1.0).collect();
    assert_eq!(asleep.len(), 1);
    assert!((asleep[0].interval.suspended_seconds - 8.0 * 3600.0).abs() < 0.1);
    assert!(asleep[0].active.is_empty(), "no findings across a suspend");
    assert!(slept[58].active.len() > asleep[0].active.len(), "the earlier findings ended");
    let mut state = State::new(setup((100, 30), Source::Live));
    for evaluation in &slept[..60] {
        update(&mut state, Event::Evaluation(evaluation.clone()));
    }
    assert!(text(&state).contains("suspended for 8h00m"), "{}", text(&state));
    update(&mut state, Event::Evaluation(slept[60].clone()));
    assert!(!text(&state).contains("suspended"));
    is_drawn(&slept);
}

#[test]
fn two_samples_at_the_same_time_are_no_interval() {
    for backwards in [0, 1, SECOND as u64, 3600 * SECOND as u64] {
        let stopped = evaluations(|sample, at| match sample {
            50.. => Instant { boottime_ns: at.boottime_ns - SECOND as u64 - backwards, ..at },
            _ => at,
        });
        assert_eq!(stopped.len(), 89, "one interval less: {backwards}");
        is_drawn(&stopped);
        for evaluation in &stopped {
            assert!(evaluation.interval.seconds >= 0.001);
            let cpu = evaluation.interval.cpu.as_ref().unwrap();
            assert!(cpu.total.busy().is_finite() && (0.0..=1.0).contains(&cpu.total.busy()), "{cpu:?}");
        }
    }
}
