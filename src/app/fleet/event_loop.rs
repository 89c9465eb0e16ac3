//! The loop of the fleet screen: waits for keys, signals and hosts, updates the state, draws.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::host_link::{self, HostLink};
use super::host_screens::HostScreens;
use super::saving;
use super::source::FleetSource;
use crate::app::console::{Console, Left, Shown};
use crate::app::disk_jobs::{ClosingReport, DiskJobs};
use crate::app::frame_schedule::{FrameSchedule, sleep_until_some};
use crate::app::program::allocator;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::{self, SignalEvent};
use crate::app::terminal;
use crate::app::terminal::keyboard::Input;
use crate::state::fleet::{FleetEffect, FleetEvent, FleetState, update};
use crate::state::{ClickTarget, Notice};
use crate::view;
use crate::view::hit_area::{self, HitArea};

/// The shortest time between two frames. Samples of all hosts within it are one frame.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
/// On a slow terminal.
const SLOW_FRAME_INTERVAL: Duration = Duration::from_secs(2);
/// The longest time between two readings of the clock: silent hosts, and the time of day.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// The first samples of each host are large.
const TRIM_INTERVAL: Duration = Duration::from_secs(15);

/// The fleet screen.
pub struct FleetLoop<'a> {
    pub state: FleetState,
    pub links: &'a [Arc<HostLink>],
    pub notify: Arc<Notify>,
    pub source: FleetSource,
    pub host_screens: HostScreens<'a>,
    pub saved: DiskJobs<Notice>,
    /// Of the host whose screens the user has quit
    pub report: ClosingReport,
    hit_areas: Vec<HitArea>,
    schedule: FrameSchedule,
    /// When free memory was returned last
    trimmed: Instant,
}

enum LoopEvent {
    Signal(SignalEvent),
    Input(Input),
    /// A host has a new state
    Hosts,
    Saved(Notice),
    Draw,
    Tick,
}

/// What follows an event.
enum Next {
    Continue,
    Quit,
    Open(usize),
}

impl<'a> FleetLoop<'a> {
    pub fn new(
        state: FleetState,
        links: &'a [Arc<HostLink>],
        notify: Arc<Notify>,
        source: FleetSource,
        host_screens: HostScreens<'a>,
    ) -> FleetLoop<'a> {
        FleetLoop {
            state,
            links,
            notify,
            source,
            host_screens,
            saved: DiskJobs::default(),
            report: ClosingReport::default(),
            hit_areas: Vec::new(),
            schedule: FrameSchedule::new(),
            trimmed: Instant::now(),
        }
    }

    /// Runs until the user quits; returns the console to be closed.
    pub async fn run(&mut self, mut console: Console) -> (Console, Result<Exit, Failure>) {
        let mut tick = Instant::now();
        loop {
            let draw = self.next_draw(&console);
            let event = {
                let Console { signals, keys, .. } = &mut console;
                let (notify, saved, is_due) = (&self.notify, &mut self.saved, self.schedule.is_due());
                tokio::select! {
                    signal = signals.next() => LoopEvent::Signal(signal),
                    input = keys.recv() => LoopEvent::Input(input.unwrap_or(Input::Hangup)),
                    notice = saved.next() => LoopEvent::Saved(notice),
                    () = sleep_until_some(draw) => LoopEvent::Draw,
                    // The states are taken when the frame is drawn.
                    () = notify.notified(), if !is_due => LoopEvent::Hosts,
                    () = sleep_until(tick) => LoopEvent::Tick,
                }
            };
            if matches!(event, LoopEvent::Tick | LoopEvent::Draw) {
                tick = Instant::now() + TICK_INTERVAL;
                self.trim();
            }
            match self.dispatch(event, &mut console) {
                Ok(Next::Continue) if crate::app::program::panics::has_panicked() => {
                    return (console, Err(Failure::already_reported(Exit::Failed)));
                }
                Ok(Next::Continue) => {}
                Ok(Next::Quit) => return (console, Ok(Exit::Success)),
                Ok(Next::Open(host)) => match self.open(host, console).await {
                    (back, Ok(Left::Back)) => console = back,
                    (back, Ok(Left::Quit)) => return (back, Ok(Exit::Success)),
                    (back, Err(failure)) => return (back, Err(failure)),
                },
                // The terminal cannot be written to: it has hung up.
                Err(_) => return (console, Ok(Exit::Success)),
            }
        }
    }

    /// Returns free memory: samples of many hosts come and go in one heap.
    fn trim(&mut self) {
        if self.trimmed.elapsed() >= TRIM_INTERVAL {
            self.trimmed = Instant::now();
            allocator::trim();
        }
    }

    /// Shows the screens of a host until the user comes back or quits.
    async fn open(&mut self, host: usize, console: Console) -> (Console, Result<Left, Failure>) {
        let opened = match self.links.get(host) {
            Some(link) => self.host_screens.open(link, &self.state, &self.source),
            None => return (console, Ok(Left::Back)),
        };
        let (mut console, left) = match opened {
            Ok((mut state, timeline)) => {
                state.setup.terminal = self.state.setup().terminal;
                let Shown { console, terminal, left, report } = console.show(state, timeline).await;
                self.apply(FleetEvent::Terminal(terminal));
                match left {
                    Ok(Left::Back) => report.into_notice().into_iter().for_each(|notice| {
                        self.apply(FleetEvent::Notice(notice));
                    }),
                    Ok(Left::Quit) | Err(_) => self.report.append(report),
                }
                (console, left)
            }
            Err(why) => {
                self.apply(FleetEvent::Notice(Notice::failure(why)));
                (console, Ok(Left::Back))
            }
        };
        // The size may have changed meanwhile.
        let _ = console.terminal.resize();
        let (width, height) = terminal::size();
        self.apply(FleetEvent::Resize { width, height });
        (console, left)
    }

    fn dispatch(&mut self, event: LoopEvent, console: &mut Console) -> io::Result<Next> {
        if matches!(event, LoopEvent::Input(_)) {
            self.schedule.answer_input();
            if let Some(known) = view::fleet_frame_event(&self.state) {
                update(&mut self.state, known);
            }
        }
        let effect = match event {
            LoopEvent::Signal(SignalEvent::Terminate) | LoopEvent::Input(Input::Hangup) => return Ok(Next::Quit),
            LoopEvent::Signal(SignalEvent::Suspend) => return self.suspend(console),
            // `suspend` has initialized the terminal already.
            LoopEvent::Signal(SignalEvent::Continue) if self.schedule.was_reinitialized() => FleetEffect::Nothing,
            LoopEvent::Signal(SignalEvent::Continue) => return self.resume(console),
            LoopEvent::Signal(SignalEvent::Resize) => {
                console.terminal.resize()?;
                let (width, height) = terminal::size();
                self.apply(FleetEvent::Resize { width, height })
            }
            LoopEvent::Input(Input::Key(key)) => self.apply(FleetEvent::Key(key)),
            LoopEvent::Input(Input::Wheel(rows)) => self.apply(FleetEvent::Wheel(i64::from(rows))),
            LoopEvent::Input(Input::Click { column, row }) => match hit_area::target_at(&self.hit_areas, column, row) {
                ClickTarget::FleetHost(host) => self.apply(FleetEvent::ClickHost(host)),
                _ => self.apply(FleetEvent::ClickElsewhere),
            },
            LoopEvent::Input(Input::Drag { .. }) => FleetEffect::Nothing,
            LoopEvent::Saved(notice) => self.apply(FleetEvent::Notice(notice)),
            LoopEvent::Hosts | LoopEvent::Tick => {
                self.schedule.request_frame();
                FleetEffect::Nothing
            }
            LoopEvent::Draw => {
                self.draw(console)?;
                FleetEffect::Nothing
            }
        };
        match effect {
            FleetEffect::Nothing | FleetEffect::Redraw => {}
            FleetEffect::Quit => return Ok(Next::Quit),
            FleetEffect::Open(host) => return Ok(Next::Open(host)),
            FleetEffect::Suspend => return self.suspend(console),
            FleetEffect::Repaint => console.terminal.resize()?,
            FleetEffect::Save => {
                let notice = saving::save(&mut self.saved, self.links);
                self.apply(FleetEvent::Notice(notice));
            }
            FleetEffect::Pause(_) | FleetEffect::Speed(_) | FleetEffect::Step(_) => self.source.control(effect),
        }
        Ok(Next::Continue)
    }

    fn apply(&mut self, event: FleetEvent) -> FleetEffect {
        let effect = update(&mut self.state, event);
        if effect != FleetEffect::Nothing {
            self.schedule.request_frame();
        }
        effect
    }

    /// Takes the newest states of the hosts, and draws.
    fn draw(&mut self, console: &mut Console) -> io::Result<()> {
        if console.terminal.has_pending() {
            console.terminal.write_pending()?;
            if console.terminal.has_pending() || !self.schedule.is_due() {
                self.schedule.bytes_written();
                return Ok(());
            }
        }
        let changed = host_link::changes(self.links);
        if !changed.is_empty() {
            update(&mut self.state, FleetEvent::Hosts(changed));
        }
        for event in self.source.time_events() {
            update(&mut self.state, event);
        }
        let (state, hit_areas) = (&self.state, &mut self.hit_areas);
        if console.terminal.draw(|frame| *hit_areas = view::render_fleet(state, frame))? {
            self.schedule.frame_drawn();
        }
        self.schedule.bytes_written();
        Ok(())
    }

    /// When to draw a frame or write pending bytes.
    fn next_draw(&self, console: &Console) -> Option<Instant> {
        let frame_interval = if self.state.setup().terminal.is_slow { SLOW_FRAME_INTERVAL } else { FRAME_INTERVAL };
        self.schedule.next_draw(console.terminal.has_pending(), frame_interval)
    }

    fn suspend(&mut self, console: &mut Console) -> io::Result<Next> {
        terminal::restore();
        signals::suspend_self()?;
        self.resume(console)
    }

    fn resume(&mut self, console: &mut Console) -> io::Result<Next> {
        console.terminal.reinit()?;
        self.schedule.terminal_reinitialized();
        let (width, height) = terminal::size();
        self.apply(FleetEvent::Resize { width, height });
        Ok(Next::Continue)
    }
}
