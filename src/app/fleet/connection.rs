//! The thread of a host: connects, reads its recording as it arrives, and connects again after a loss.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::host_link::HostLink;
use super::host_samples::{HistoryLimits, HostSamples};
use super::recording::FleetRecorder;
use super::remote_output::{RemoteOutput, last_line};
use super::transport::Transport;
use crate::app::config::Settings;
use crate::app::program::exit::Failure;
use crate::app::program::threads;
use crate::app::recorder;
use crate::app::recording_stream::damage_line;
use crate::baseline::Baselines;
use crate::kernel;
use crate::recording::{Meta, RecordingError, StreamEvent, StreamReader};
use crate::sample::{Instant, Sample};
use crate::state::fleet::host::{Connection, FleetHost, HostSummary};
use crate::units::time::nanos;

/// The time before the first, the second, … new attempt, and before all that follow.
const RETRY_SECONDS: [u64; 6] = [1, 2, 5, 10, 30, 60];

/// Between the starts of two connections: each one computes keys.
const START_INTERVAL: Duration = Duration::from_millis(20);

/// A connection is ended after this time without a sample, and after this many sampling intervals, whichever is longer.
const MIN_SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
const SILENCE_TIMEOUT_INTERVALS: u32 = 5;

/// How much of a difference of the clocks is forgotten with each sample: a late one shows a smaller difference than there is.
const CLOCK_OFFSET_DECAY_SECONDS: f64 = 0.05;

/// What all hosts have in common.
pub struct FleetContext {
    pub settings: Settings,
    pub transport: Transport,
    /// Between samples
    pub interval: Duration,
    pub limits: HistoryLimits,
    pub recorder: Option<FleetRecorder>,
    /// For a result: no new attempts
    pub once: bool,
}

/// Starts the threads, one a host. `remote`: the command that records on each host.
pub fn start(links: &[Arc<HostLink>], remotes: Vec<String>, context: &Arc<FleetContext>) -> Result<(), Failure> {
    for (number, (link, remote)) in (0..).zip(links.iter().zip(remotes)) {
        let thread = HostThread { link: Arc::clone(link), remote, context: Arc::clone(context) };
        threads::spawn("fleet host", move || {
            thread::sleep(START_INTERVAL * number);
            thread.run();
        })?;
    }
    Ok(())
}

struct HostThread {
    link: Arc<HostLink>,
    remote: String,
    context: Arc<FleetContext>,
}

impl HostThread {
    fn run(&self) {
        let mut attempt = 0;
        loop {
            self.link.update(|host| host.connection = Connection::Connecting);
            let ended = self.connect();
            if self.context.once {
                let why = ended.why.filter(|_| ended.samples < 2);
                return self.link.update(|host| host.connection = Connection::Ended(why));
            }
            if ended.samples > 1 {
                attempt = 0;
            }
            let pause = RETRY_SECONDS.get(attempt).or(RETRY_SECONDS.last()).map_or(Duration::ZERO, |&s| Duration::from_secs(s));
            attempt += 1;
            let retry_at_ns = kernel::now().boottime_ns.saturating_add(nanos(pause));
            let why = ended.why.unwrap_or_else(|| "the recording on the host has ended".to_owned());
            self.link.update(|host| host.connection = Connection::Lost { why, retry_at_ns });
            thread::sleep(pause);
        }
    }

    /// Reads one connection to its end.
    fn connect(&self) -> Ended {
        let silence_timeout = MIN_SILENCE_TIMEOUT.max(self.context.interval * SILENCE_TIMEOUT_INTERVALS);
        let (process, output) = match self.context.transport.start(&self.link.name, &self.remote, silence_timeout) {
            Ok(started) => started,
            Err(error) => return Ended { samples: 0, why: Some(format!("cannot run the command that connects: {error}")) },
        };
        let words = output.words();
        let mut text = Vec::new();
        let mut stream = StreamState::default();
        let read = StreamReader::open_after_text(output, &mut text).and_then(|mut reader| {
            let read = self.read(&mut reader, &mut stream);
            reader.get_mut().read_last_words();
            read
        });
        // A command that hangs is killed; what it has written last says why it ended.
        let status = match &read {
            Err(RecordingError::Read { source, .. }) if source.kind() == io::ErrorKind::TimedOut => {
                drop(process);
                let silence = format!("no sample for {} s: the connection was ended", silence_timeout.as_secs());
                return Ended { samples: stream.samples, why: Some(silence) };
            }
            _ => process.end(),
        };
        let said = words.text().or_else(|| last_line(&text).filter(|_| stream.samples == 0));
        let why = match read {
            Ok(()) => said.or_else(|| exit_words(status)),
            Err(RecordingError::NotARecording { .. }) => {
                said.or_else(|| exit_words(status)).or_else(|| Some("it sends no recording".to_owned()))
            }
            Err(error) => Some(error.to_string()),
        };
        Ended { samples: stream.samples, why }
    }

    fn read(&self, reader: &mut StreamReader<RemoteOutput>, stream: &mut StreamState) -> Result<(), RecordingError> {
        while let Some(event) = reader.next_event()? {
            match event {
                StreamEvent::Meta(meta) => stream.meta = Some(*meta),
                StreamEvent::Section { name, bytes } if name == recorder::BASELINES_SECTION => {
                    stream.baselines = recorder::baselines(Some(&bytes));
                }
                StreamEvent::Section { .. } => {}
                StreamEvent::Sample(sample) => self.add(sample, reader, stream),
                StreamEvent::Gap(gap) => {
                    self.link.samples().iter_mut().for_each(|samples| samples.add_gap(gap.clone()));
                }
                StreamEvent::Mark(mark) => {
                    self.link.samples().iter_mut().for_each(|samples| samples.add_mark(mark.clone()));
                }
                StreamEvent::Damage(damage) => self.link.update(|host| host.note = Some(damage_line(&damage))),
                StreamEvent::End => return Ok(()),
            }
        }
        Ok(())
    }

    fn add(&self, sample: Arc<Sample>, reader: &mut StreamReader<RemoteOutput>, stream: &mut StreamState) {
        let arrived = kernel::now();
        let at = sample.at;
        let mut problem = None;
        if let Some(meta) = stream.meta.take() {
            // The recording of the host is created on a disk.
            reader.get_mut().release_work();
            let interval_ns = nanos(meta.interval);
            let other_version = Some(meta.version.clone()).filter(|version| version != env!("CARGO_PKG_VERSION"));
            problem = self.begin(meta, &stream.baselines);
            self.link.update(|host| {
                (host.interval_ns, host.other_version, host.clock_offset_seconds) = (interval_ns, other_version, None);
                host.note = None;
            });
        }
        let mut samples = self.link.samples();
        let Some(samples) = samples.as_mut() else { return };
        stream.samples += 1;
        let evaluation = samples.add(sample, |summary| reader.last_sample_frame(summary));
        if let Some(evaluation) = evaluation.as_ref().filter(|_| self.context.once) {
            samples.add_to_result(evaluation);
        }
        let summary = evaluation.as_ref().map(HostSummary::new);
        let problem = problem.or_else(|| samples.recording_change());
        self.link.update(|host| {
            host.connection = Connection::Connected;
            host.arrived_ns = Some(arrived.boottime_ns);
            add_clock_offset(host, at, arrived);
            host.summary = summary.or(host.summary.take());
            host.note = problem.or(host.note.take());
        });
    }

    /// The samples of a new connection: those of another boot begin anew. Returns why they are not recorded. They are not locked while
    /// recordings are closed and created: a disk may not answer.
    fn begin(&self, meta: Meta, baselines: &Baselines) -> Option<String> {
        if let Some(known) = self.link.samples().as_mut().filter(|known| known.continues_with(&meta)) {
            known.continue_with(meta);
            return None;
        }
        let _recording = self.link.lock_recording();
        let before = self.link.samples().take();
        if let Some(mut before) = before {
            before.end_subscription("the host has restarted: Esc, and Enter shows it again");
            if let Some(session) = before.take_session() {
                session.finish();
            }
        }
        let FleetContext { settings, limits, recorder, .. } = &*self.context;
        let (new, problem) = HostSamples::new(&self.link.name, meta, baselines, settings, *limits, recorder.as_ref());
        *self.link.samples() = Some(new);
        problem
    }
}

/// What has arrived in a connection so far.
#[derive(Default)]
struct StreamState {
    /// Until the first sample
    meta: Option<Meta>,
    baselines: Baselines,
    samples: u64,
}

/// The end of a connection.
struct Ended {
    samples: u64,
    /// `None`: in order
    why: Option<String>,
}

/// The largest difference of late: a sample that was on its way for long shows a smaller one.
fn add_clock_offset(host: &mut FleetHost, sampled: Instant, arrived: Instant) {
    let offset = sampled.realtime_ns.saturating_sub(arrived.realtime_ns) as f64 / 1e9;
    let before = host.clock_offset_seconds.map_or(f64::NEG_INFINITY, |known| known - CLOCK_OFFSET_DECAY_SECONDS);
    host.clock_offset_seconds = Some(offset.max(before));
}

fn exit_words(status: Option<ExitStatus>) -> Option<String> {
    match status?.code() {
        Some(0) => None,
        Some(code) => Some(format!("the command ended with exit code {code}")),
        None => Some("the command was killed".to_owned()),
    }
}
