//! Timelines of the same samples from a pipe, a growing file and a complete file are equal.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::checkpoints::IndexedSamples;
use super::synthetic::{SyntheticSamples, host};
use super::*;
use crate::app::baseline_learner::BaselineLearner;
use crate::app::sampling::TimedSample;
use crate::findings::RuleConfig;
use crate::recording::{FrameSummary, Recorder, RecorderOptions, Redaction, SummarySeverity};
use crate::state::TimelineTick;
use crate::state::history::FollowedTask;
use crate::until::until;

const TIMEOUT: Duration = Duration::from_secs(60);

fn open(path: &Path) -> Timeline {
    let options = cli::Replay {
        file: path.to_owned(),
        at: None,
        range: cli::time_range::TimeRange::default(),
        speed: 1.0,
        appearance: cli::Appearance::default(),
    };
    Timeline::open(&options, &TimeZone::UTC, &Settings::default()).unwrap()
}

/// A recording that is being written, one second a sample.
struct Growing {
    path: std::path::PathBuf,
    recorder: Recorder,
    samples: SyntheticSamples,
}

impl Growing {
    fn create(directory: &Path) -> Growing {
        let path = directory.join("growing.stalltop");
        let options = RecorderOptions { queue_capacity: 400, ..RecorderOptions::default() };
        let recorder = Recorder::create(&path, &meta(), options).unwrap();
        Growing { path, recorder, samples: SyntheticSamples::new(None, 400) }
    }

    /// Records these samples and waits until they can be read.
    fn record(&mut self, indices: std::ops::Range<u64>) {
        let end = indices.end;
        for index in indices {
            // The first sample ends no interval.
            let worst_severity = if index == 0 { SummarySeverity::NotEvaluated } else { SummarySeverity::NoFinding };
            let summary = FrameSummary { worst_severity, ..FrameSummary::default() };
            self.recorder.offer_with_summary(self.samples.sample(index).unwrap(), summary);
        }
        let written = || Replayer::open(&self.path).map_or(0, |replayer| replayer.len() as u64);
        until("the samples are written", || written() >= end);
    }
}

fn meta() -> Meta {
    recorder::meta(&host("first"), Duration::from_secs(1), Redaction::Nothing)
}

/// The first timeline that ends with the tick of that second.
async fn ticks_until(timeline: &mut Timeline, second: i64) -> Vec<TimelineTick> {
    loop {
        for event in timeline.next().await {
            if let Event::Timeline(ticks) = event
                && ticks.last().is_some_and(|tick| tick.realtime_ns == second * 1_000_000_000)
            {
                return ticks.to_vec();
            }
        }
    }
}

/// The recorder writes summaries a key group behind: of the last 60 of these 300 samples none.
#[tokio::test]
async fn the_timeline_comes_from_summaries_and_the_rest_from_the_analysis() {
    let directory = tempfile::tempdir().unwrap();
    let killed = directory.path().join("killed.stalltop");
    let mut growing = Growing::create(directory.path());
    growing.record(0..300);
    fs::copy(&growing.path, &killed).unwrap();
    for path in [&killed, &growing.path] {
        let mut timeline = open(path);
        let opening = timeline.next().await;
        let summarized = opening.iter().find_map(|event| match event {
            Event::Timeline(ticks) => Some(ticks.len()),
            _ => None,
        });
        assert_eq!(summarized, Some(239), "two key groups have summaries");
        assert_eq!(ticks_until(&mut timeline, 300).await.len(), 299);
    }
    let mut timeline = open(&growing.path);
    growing.record(300..310);
    assert_eq!(ticks_until(&mut timeline, 310).await.len(), 309);
    growing.recorder.finish(TIMEOUT);
}

/// What is shown in the end: with little CPU time a first answer comes before the exact one.
fn shown(events: &[Event]) -> Option<String> {
    events.iter().rev().find_map(|event| match event {
        Event::SeekCompleted { evaluation: shown, preceding: before } => {
            let (at, findings) = (shown.interval.at().realtime_ns, &shown.active);
            Some(format!("{at}: {findings:?}, behind {}", before.len()))
        }
        _ => None,
    })
}

/// The exact interval to which a move leads.
async fn settled(timeline: &mut Timeline, effect: Effect) -> Vec<Event> {
    let mut events = timeline.act(effect);
    let started = events.iter().filter(|event| matches!(event, Event::SeekStarted(_))).count();
    while events.iter().filter(|event| matches!(event, Event::SeekCompleted { .. })).count() < started {
        events.extend(timeline.next().await);
    }
    events
}

/// A step, a jump and the next finding lead to the same intervals, whatever the store.
#[tokio::test]
async fn a_pipe_and_a_file_show_the_same_intervals() {
    let directory = tempfile::tempdir().unwrap();
    let mut growing = Growing::create(directory.path());
    growing.record(0..150);
    growing.recorder.finish(TIMEOUT);
    let mut file = open(&growing.path);
    let mut analyzed = 0;
    while analyzed < 149 {
        for event in file.next().await {
            analyzed += if let Event::Summaries(summaries) = event { summaries.len() } else { 0 };
        }
    }

    let (sender, events) = mpsc::channel(200);
    for index in 0..150 {
        let sample = growing.samples.sample(index).unwrap();
        sender.try_send(SourceEvent::Sample(TimedSample::new(sample, 0))).unwrap();
    }
    drop(sender);
    let learner = BaselineLearner::without_store(Default::default());
    let pipeline = LivePipeline::new(host("first"), Arc::new(RuleConfig::default()), learner);
    let mut pipe = Timeline::live(SampleSource::Pipe(events), meta(), pipeline, TIMEOUT * 10);
    while !pipe.next().await.iter().any(|event| matches!(event, Event::SourceEnded(_))) {}

    let second = |second: i64| Effect::JumpTo(second * 1_000_000_000);
    let effects =
        [second(100), Effect::PreviousFinding, Effect::Step(-3), Effect::NextFinding, Effect::StepTime(60), second(40)];
    for effect in effects {
        let (from_file, from_pipe) = (settled(&mut file, effect.clone()).await, settled(&mut pipe, effect.clone()).await);
        assert!(shown(&from_file).is_some(), "{effect:?}: {from_file:?}");
        assert_eq!(shown(&from_file), shown(&from_pipe), "{effect:?}");
    }
    for timeline in [&mut file, &mut pipe] {
        settled(timeline, second(40)).await;
        settled(timeline, Effect::BeginSpan).await;
        let events = settled(timeline, Effect::StepTime(-9)).await;
        let span = events.iter().rev().find_map(|event| match event {
            Event::Span { interval, intervals } => Some((interval.seconds, interval.at().realtime_ns, *intervals)),
            _ => None,
        });
        assert_eq!(span, Some((10.0, 41_000_000_000, 10)));
        timeline.act(Effect::EndSpan);
    }
    let positions = [&file, &pipe].map(|timeline| timeline.position_event());
    assert_eq!(format!("{:?}", positions[0]), format!("{:?}", positions[1]));
}

/// The intervals of a short stretch are evaluated one by one, each once, and the displayed one stays.
#[tokio::test]
async fn the_intervals_of_the_displayed_stretch_are_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let mut growing = Growing::create(directory.path());
    growing.record(0..150);
    growing.recorder.finish(TIMEOUT);
    let mut timeline = open(&growing.path);
    timeline.act(Effect::JumpTo(70_000_000_000));
    timeline.show_stretch(Some(20_000_000_000..120_000_000_000));
    let mut evaluated = Vec::new();
    while evaluated.len() < 40 || timeline.pending_work().is_some() {
        for event in timeline.next().await {
            if let Event::GraphIntervals(summaries) = event {
                evaluated.extend(summaries.iter().map(|summary| summary.at.realtime_ns / 1_000_000_000));
            }
        }
    }
    evaluated.sort_unstable();
    // Those before the displayed one came with it.
    assert_eq!(evaluated, (72..=120).collect::<Vec<_>>());
    assert_eq!(timeline.shown_index(), Some(70));
}

const CONVOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/lab/15-lock-convoy.stalltop");

/// A span says which threads are blocked as its last interval does, also after it was shown before.
#[tokio::test]
async fn a_span_has_the_blocked_groups_of_its_end() {
    let mut timeline = open(Path::new(CONVOY));
    while !timeline.next().await.iter().any(|event| matches!(event, Event::SeekCompleted { .. })) {}
    let mut blocked = async |effect| {
        let mut events = settled(&mut timeline, effect).await;
        while timeline.pending_work().is_some() {
            events.extend(timeline.run_slice());
        }
        let span = events.into_iter().rev().find_map(|event| match event {
            Event::Span { interval, intervals } => Some((intervals, interval.idle_blocked.clone()?)),
            _ => None,
        });
        let (intervals, blocked) = span.unwrap();
        let first = blocked.groups.first().unwrap();
        assert!(blocked.ratio > 0.9 && first.name.as_bytes() == b"convoy", "{blocked:?}");
        intervals
    };
    assert_eq!(blocked(Effect::BeginSpan).await, 1);
    assert_eq!(blocked(Effect::Step(4)).await, 5);
    assert_eq!(blocked(Effect::Step(-2)).await, 3);
    // The end of the recording: once more the same span.
    let all = blocked(Effect::Step(1000)).await;
    assert_eq!(blocked(Effect::Step(1)).await, all);
}

/// The page of a task has its figures in the whole stretch that it shows, also after the displayed interval.
#[test]
fn the_page_of_a_task_knows_the_intervals_after_the_displayed_one() {
    let mut timeline = open(Path::new(CONVOY));
    timeline.act(Effect::JumpTo(0));
    timeline.show_stretch(Some(0..i64::MAX));
    while timeline.pending_work().is_some() {
        timeline.run_slice();
    }
    let mut recording = Replayer::open(Path::new(CONVOY)).unwrap();
    let first = recording.sample(usize::try_from(timeline.shown_index().unwrap()).unwrap()).unwrap();
    let process = first.tasks.as_ref().unwrap().processes.iter().find(|process| process.threads.len() > 60).unwrap();
    let task = FollowedTask::Thread(process.task_id(&process.threads[1]));
    let mut points = Vec::new();
    timeline.follow_task(Some(task), |_| true);
    while timeline.pending_work().is_some() {
        for event in timeline.run_slice() {
            if let Event::TaskPast(added) = event {
                points.extend(added.iter().map(|point| point.at.boottime_ns));
            }
        }
    }
    let after = |at: &&u64| **at > first.at.boottime_ns;
    assert_eq!(points.len(), recording.len() - 1);
    assert!(points.iter().filter(after).count() + 1 >= points.len(), "the first interval is displayed");
    // The same page of the same stretch asks for nothing more.
    timeline.follow_task(Some(task), |_| true);
    assert!(timeline.pending_work().is_none());
}
