//! The commands with a screen: on the running machine, on a recording, and the demo. Each opens its timeline and starts the event loop.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::demo_playlist::{DemoRecording, Playlist};
use crate::app::event_loop::run_screens;
use crate::app::live_pipeline::LivePipeline;
use crate::app::program::exit::{Exit, Failure};
use crate::app::recorder;
use crate::app::recording_stream::{RecordingStream, StreamPurpose};
use crate::app::sampling::{SamplerThread, SamplingPlan};
use crate::app::screen_setup::{initial_state, setup};
use crate::app::timeline::Timeline;
use crate::app::timeline::sample_source::{self, SampleSource};
use crate::cli;
use crate::kernel::Root;
use crate::recording::Redaction;
use crate::state::{SessionOptions, Source};

/// The screen on the running machine.
pub fn live(root: Root, configuration: &cli::Configuration, options: &cli::Live) -> Result<Exit, Failure> {
    let (settings, mut notices) = Settings::load(&root, configuration)?;
    let (learner, notice) = if root.is_host() { BaselineLearner::load() } else { (BaselineLearner::empty(), None) };
    notices.extend(notice);
    // The processes of a captured tree are not on this machine.
    let allows_signals = options.allow_signals && root.is_host();
    let sampler = SamplerThread::start(SamplingPlan::new(root, options.interval, None, settings.probes()))?;
    let meta = recorder::meta(&sampler.host, options.interval, Redaction::Nothing);
    let session = SessionOptions { allows_signals, ..SessionOptions::default() };
    let setup = setup(&options.appearance, Source::Live, options.interval);
    let pipeline = LivePipeline::new(Arc::clone(&sampler.host), settings.rule_config_for(&sampler.host), learner);
    let mut timeline = Timeline::live(SampleSource::Sampler(Box::new(sampler)), meta, pipeline, options.history);
    let (state, more) = initial_state(setup, session, &settings, &options.appearance)?;
    notices.extend(more);
    timeline.queue_notices(notices);
    run_screens(state, timeline, None)
}

const STREAM: StreamPurpose =
    StreamPurpose { what: "cannot replay standard input", example: "ssh HOST stalltop record - | stalltop replay -" };

/// The screen on a recording: a file, a directory of segments, or standard input.
pub fn replay(configuration: &cli::Configuration, options: &cli::Replay) -> Result<Exit, Failure> {
    let (settings, notices) = Settings::load(&Root::host(), configuration)?;
    let name = options.file.file_name().unwrap_or(options.file.as_os_str()).to_string_lossy().into_owned();
    let (mut timeline, source, interval) = if options.file == Path::new("-") {
        if options.at.is_some() || !options.range.is_unbounded() {
            let why = "a stream is shown as it arrives";
            let what = "cannot use --at, --from and --to with standard input";
            return Err(Failure::new(Exit::Usage, what, why, "save it to a file, and replay that"));
        }
        let stream = RecordingStream::open_stdin(STREAM)?;
        let (meta, baselines) = (stream.meta.clone(), stream.baselines());
        let (host, interval) = (Arc::new(meta.host.clone()), meta.interval);
        let rule_config = settings.rule_config_for(&host);
        let pipeline = LivePipeline::new(host, rule_config, BaselineLearner::without_store(baselines));
        let source = sample_source::from_stream(stream)?;
        (Timeline::live(source, meta, pipeline, cli::value_parsers::DEFAULT_HISTORY), Source::Pipe { name }, interval)
    } else {
        let timeline = Timeline::open(options, &TimeZone::system(), &settings)?;
        let interval = timeline.interval();
        (timeline, Source::Replay { name }, interval)
    };
    let setup = setup(&options.appearance, source, interval);
    let (mut state, more) = initial_state(setup, SessionOptions::default(), &settings, &options.appearance)?;
    state.playback.speed = options.speed;
    timeline.queue_notices(notices.into_iter().chain(more).collect());
    run_screens(state, timeline, None)
}

/// The screen on the recordings of the demo, one after the other: quitting goes to the next one, Ctrl-C ends.
pub fn demo(settings: Settings, appearance: cli::Appearance, mut recordings: VecDeque<DemoRecording>) -> Result<Exit, Failure> {
    let Some(first) = recordings.pop_front() else { return Ok(Exit::Success) };
    let (state, timeline) = first.open(&settings, &appearance)?;
    run_screens(state, timeline, Some(Playlist::new(settings, appearance, first, recordings)))
}
