//! Enter on the fleet screen: the full screens of one host, on its samples in memory and those that follow; of a recording from the time
//! that the fleet shows.

use std::io::Cursor;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::host_link::HostLink;
use super::host_samples::SampleSubscription;
use super::source::FleetSource;
use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::live_pipeline::LivePipeline;
use crate::app::program::threads;
use crate::app::screen_setup::{initial_state, setup};
use crate::app::timeline::Timeline;
use crate::app::timeline::sample_source::{SampleSource, SourceEvent, source_event};
use crate::cli::{self, value_parsers};
use crate::recording::StreamReader;
use crate::state::fleet::FleetState;
use crate::state::{SessionOptions, Source, State};

/// Events that may wait for the screens.
const QUEUE_CAPACITY: usize = 64;

/// Opens the screens of hosts.
pub struct HostScreens<'a> {
    pub settings: &'a Settings,
    pub appearance: &'a cli::Appearance,
}

impl HostScreens<'_> {
    /// The screens of a host; the error says why there are none.
    pub fn open(&self, link: &HostLink, fleet: &FleetState, source: &FleetSource) -> Result<(State, Timeline), String> {
        let (timeline, source, interval) = match source {
            FleetSource::Replay(control) => {
                let timeline = control.open(&link.name, fleet.realtime_ns, self.settings, self.appearance)?;
                let interval = timeline.interval();
                (timeline, Source::Replay { name: link.name.clone() }, interval)
            }
            FleetSource::Live => {
                let subscription = match link.samples().as_mut() {
                    Some(samples) => samples.subscribe().map_err(|error| error.to_string())?,
                    None => return Err(format!("{} has sent no sample yet", link.name)),
                };
                let interval = subscription.meta.interval;
                (self.live(subscription)?, Source::Host { name: link.name.clone() }, interval)
            }
        };
        let options = SessionOptions { leads_back: true, ..SessionOptions::default() };
        let setup = setup(self.appearance, source, interval);
        let state = initial_state(setup, options, self.settings, self.appearance);
        let (state, _) = state.map_err(|failure| failure.to_string())?;
        Ok((state, timeline))
    }

    fn live(&self, subscription: SampleSubscription) -> Result<Timeline, String> {
        let SampleSubscription { meta, baselines, kept, following } = subscription;
        let host = Arc::new(meta.host.clone());
        let rule_config = self.settings.rule_config_for(&host);
        let pipeline = LivePipeline::new(host, rule_config, BaselineLearner::without_store(baselines));
        let source = stream(kept, following)?;
        Ok(Timeline::live(source, meta, pipeline, value_parsers::DEFAULT_HISTORY))
    }
}

/// The samples in memory, which are decoded on a thread, then those that follow.
fn stream(kept: Vec<u8>, mut following: mpsc::Receiver<SourceEvent>) -> Result<SampleSource, String> {
    let (sender, events) = mpsc::channel(QUEUE_CAPACITY);
    let body = move || {
        let mut reader = StreamReader::open(Cursor::new(kept)).ok();
        let recorded = std::iter::from_fn(|| reader.as_mut()?.next_event().ok().flatten());
        let recorded = recorded.filter_map(source_event).filter(|event| !matches!(event, SourceEvent::Ended(_)));
        for event in recorded.chain(std::iter::from_fn(|| following.blocking_recv())) {
            // The screens are closed.
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    };
    threads::spawn("host screens", body).map_err(|failure| failure.to_string())?;
    Ok(SampleSource::Pipe(events))
}
