//! `fleet --replay DIR`: the recordings of a directory, a host each, played together in the order of time. A thread plays them; the
//! screen sends it pauses, speeds and moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;

use super::host_link::HostLink;
use super::recorded_hosts::{RecordedHost, RecordedHosts};
use crate::app::config::Settings;
use crate::app::program::exit::Failure;
use crate::app::program::threads;
use crate::app::timeline::Timeline;
use crate::cli;
use crate::kernel;
use crate::state::fleet::host::FleetHost;
use crate::state::fleet::{FleetEffect, FleetEvent};
use crate::units::time::rfc3339;
use crate::units::time_spec::TimeSpec;

/// How often the time on the screen advances.
const STEP: Duration = Duration::from_millis(250);

/// A longer time without samples of any host is played as this long.
const MAX_GAP_NS: i64 = 3_000_000_000;

/// The replay, as the screen sees it.
pub struct ReplayControl {
    commands: Sender<FleetEffect>,
    clock: Arc<ReplayClock>,
    files: RecordedHosts,
}

/// What the thread tells the screen.
#[derive(Default)]
struct ReplayClock {
    /// The time that is shown
    realtime_ns: AtomicI64,
    ended: AtomicBool,
}

impl ReplayControl {
    /// Starts to play.
    pub fn start(
        files: RecordedHosts,
        hosts: Vec<RecordedHost>,
        links: Vec<Arc<HostLink>>,
        speed: f64,
    ) -> Result<ReplayControl, Failure> {
        let (commands, received) = channel();
        let clock = Arc::new(ReplayClock::default());
        let first = hosts.iter().filter_map(RecordedHost::next_ns).min().unwrap_or(0);
        let mut player = Player {
            hosts,
            links,
            clock: Arc::clone(&clock),
            commands: received,
            speed,
            paused: false,
            since: Instant::now(),
            position_ns: first,
        };
        threads::spawn("fleet replay", move || player.run())?;
        Ok(ReplayControl { commands, clock, files })
    }

    /// The time that is shown.
    pub fn time_events(&self) -> Vec<FleetEvent> {
        let realtime_ns = self.clock.realtime_ns.load(Ordering::SeqCst);
        let now_ns = u64::try_from(realtime_ns).unwrap_or(0);
        let clock_ns = kernel::now().boottime_ns;
        vec![
            FleetEvent::Now { clock_ns, now_ns, realtime_ns },
            FleetEvent::PlaybackEnded(self.clock.ended.load(Ordering::SeqCst)),
        ]
    }

    pub fn send(&self, effect: FleetEffect) {
        // The thread has ended only with the program.
        let _ = self.commands.send(effect);
    }

    /// The recording of a host, at that time.
    pub fn open(
        &self,
        name: &str,
        realtime_ns: i64,
        settings: &Settings,
        appearance: &cli::Appearance,
    ) -> Result<Timeline, String> {
        let file = self.files.path(name).ok_or_else(|| format!("{name} has no recording"))?.to_owned();
        let at = TimeSpec::parse(&rfc3339(realtime_ns)).map(cli::time_range::RecordingTime::Time);
        let range = cli::time_range::TimeRange::default();
        let options = cli::Replay { file, at, range, speed: 1.0, appearance: appearance.clone() };
        Timeline::open(&options, &TimeZone::system(), settings).map_err(|failure| failure.to_string())
    }
}

/// What the thread owns.
struct Player {
    hosts: Vec<RecordedHost>,
    links: Vec<Arc<HostLink>>,
    clock: Arc<ReplayClock>,
    commands: Receiver<FleetEffect>,
    speed: f64,
    paused: bool,
    /// When `position_ns` was reached
    since: Instant,
    position_ns: i64,
}

impl Player {
    fn run(&mut self) {
        loop {
            self.advance();
            let ended = self.hosts.iter().all(|host| host.next_ns().is_none());
            self.clock.realtime_ns.store(self.position_ns, Ordering::SeqCst);
            self.clock.ended.store(ended, Ordering::SeqCst);
            let command = match ended || self.paused {
                true => self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.commands.recv_timeout(STEP),
            };
            match command {
                Ok(FleetEffect::Pause(paused)) => {
                    self.advance();
                    self.paused = paused;
                    self.since = Instant::now();
                }
                Ok(FleetEffect::Speed(speed)) => {
                    self.advance();
                    self.speed = speed;
                }
                Ok(FleetEffect::Step(seconds)) => self.seek(seconds),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Shows all samples up to the present time.
    fn advance(&mut self) {
        if self.paused {
            return;
        }
        let now = Instant::now();
        let played = now.duration_since(self.since).as_secs_f64() * self.speed * 1e9;
        self.since = now;
        let Some(next_ns) = self.hosts.iter().filter_map(RecordedHost::next_ns).min() else { return };
        let last_ns = self.hosts.iter().filter_map(RecordedHost::last_ns).max().unwrap_or(self.position_ns);
        // A host whose clock is behind is not the only one.
        let skipped_to = next_ns.saturating_sub(MAX_GAP_NS).max(self.position_ns);
        self.position_ns = skipped_to.saturating_add(played as i64).min(last_ns);
        for (host, link) in self.hosts.iter_mut().zip(&self.links) {
            if let Some(state) = host.play_to(self.position_ns) {
                publish(link, state);
            }
        }
    }

    fn seek(&mut self, seconds: i64) {
        let ends = self.hosts.iter().filter_map(|host| Some((host.first_ns()?, host.last_ns()?)));
        let (first, last) = ends.fold((i64::MAX, i64::MIN), |(first, last), (from, to)| (first.min(from), last.max(to)));
        if first > last {
            return;
        }
        self.position_ns = self.position_ns.saturating_add(seconds.saturating_mul(1_000_000_000)).clamp(first, last);
        self.since = Instant::now();
        for (host, link) in self.hosts.iter_mut().zip(&self.links) {
            publish(link, host.seek(self.position_ns));
        }
    }
}

fn publish(link: &HostLink, state: FleetHost) {
    link.update(|host| *host = state);
}
