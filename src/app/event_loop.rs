//! The event loop of the screen: select (wait for one event), update (change the state), act (carry out the effect). There is no
//! logic in the arms of `select!`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::app::console::{self, Console, Left};
use crate::app::demo_playlist::Playlist;
use crate::app::disk_jobs::{self, ClosingReport, DiskJobs};
use crate::app::frame_schedule::{FrameSchedule, sleep_until_some};
use crate::app::process_signal;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::{self, SignalEvent};
use crate::app::saved_choices::ChoicesWriter;
use crate::app::saved_screen;
use crate::app::terminal;
use crate::app::terminal::keyboard::Input;
use crate::app::terminal::line_speed::LineSpeed;
use crate::app::timeline::Timeline;
use crate::kernel;
use crate::state::{ClickTarget, Effect, Event, Key, Notice, State, TerminalCapabilities, update};
use crate::view;
use crate::view::hit_area::{self, HitArea};

/// The shortest time between two frames.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(60);

/// Shows the timeline until the user quits or a signal arrives, then the rest of the playlist.
pub fn run_screens(state: State, timeline: Timeline, playlist: Option<Playlist>) -> Result<Exit, Failure> {
    console::runtime()?.block_on(async {
        let mut event_loop = EventLoop::new(Console::open(Arc::default())?, state, timeline, playlist);
        let left = event_loop.run().await;
        let (console, closing) = event_loop.into_parts();
        drop(console.terminal);
        let failure = closing.close().print();
        disk_jobs::end_with(left.map(|_| Exit::Success), failure)
    })
}

/// What must be completed at the loop's end: screens that are being saved, recordings.
pub struct Closing {
    saved_screens: DiskJobs<Notice>,
    timeline: Timeline,
    report: ClosingReport,
}

impl Closing {
    /// Waits for the files.
    pub fn close(self) -> ClosingReport {
        let mut report = self.report;
        self.saved_screens.close(&mut report);
        self.timeline.close(&mut report);
        report
    }
}

/// The screens of one timeline, or of a playlist.
pub struct EventLoop {
    state: State,
    timeline: Timeline,
    console: Console,
    /// In the demo
    playlist: Option<Playlist>,
    schedule: FrameSchedule,
    line_speed: LineSpeed,
    /// What a click on the last frame does
    hit_areas: Vec<HitArea>,
    /// The graph or timeline on which the button was pressed
    dragged: Option<HitArea>,
    /// An input that was read ahead
    next_input: Option<Input>,
    saved_screens: DiskJobs<Notice>,
    choices_writer: ChoicesWriter,
    /// Of the recordings before, in the demo
    report: ClosingReport,
}

/// What the loop waits for.
enum LoopEvent {
    Signal(SignalEvent),
    Input(Input),
    Timeline(Vec<Event>),
    /// A screen was saved, or why not
    ScreenSaved(Notice),
    /// A frame is due, or bytes of the last one are pending
    Draw,
    /// Time has passed
    Tick,
}

/// Whether the loop continues.
enum LoopControl {
    Continue,
    Quit,
    /// To the fleet
    Leave,
}

impl EventLoop {
    pub fn new(console: Console, state: State, timeline: Timeline, playlist: Option<Playlist>) -> EventLoop {
        EventLoop {
            choices_writer: ChoicesWriter::new(&state),
            state,
            timeline,
            console,
            playlist,
            schedule: FrameSchedule::new(),
            line_speed: LineSpeed::default(),
            hit_areas: Vec::new(),
            dragged: None,
            next_input: None,
            saved_screens: DiskJobs::default(),
            report: ClosingReport::default(),
        }
    }

    pub fn into_parts(self) -> (Console, Closing) {
        let EventLoop { console, saved_screens, timeline, report, .. } = self;
        (console, Closing { saved_screens, timeline, report })
    }

    /// Runs until the user quits, goes back to the fleet, or a signal arrives.
    pub async fn run(&mut self) -> Result<Left, Failure> {
        let mut tick = Instant::now() + self.tick_interval();
        loop {
            self.timeline.show_stretch(self.state.stretch_of_intervals());
            self.timeline.follow_task(self.state.followed_task(), |task| self.state.graphs.history.lacks_task(task));
            let event = {
                let draw = self.next_draw();
                let EventLoop { console, next_input, timeline, saved_screens, .. } = self;
                let Console { signals, keys, .. } = console;
                tokio::select! {
                    signal = signals.next() => LoopEvent::Signal(signal),
                    input = receive(next_input, keys) => LoopEvent::Input(input),
                    notice = saved_screens.next() => LoopEvent::ScreenSaved(notice),
                    () = sleep_until_some(draw) => LoopEvent::Draw,
                    events = timeline.next() => LoopEvent::Timeline(events),
                    () = sleep_until(tick) => LoopEvent::Tick,
                }
            };
            if matches!(event, LoopEvent::Timeline(_) | LoopEvent::Tick) {
                tick = Instant::now() + self.tick_interval();
            }
            let outcome = self.dispatch(event).and_then(|next| {
                // A frame that is due is drawn at once: another turn of the loop costs two polls of the runtime.
                let now = matches!(next, LoopControl::Continue) && self.next_draw().is_some_and(|due| due <= Instant::now());
                if now { self.draw().map(|()| next) } else { Ok(next) }
            });
            match outcome {
                Ok(LoopControl::Continue) if crate::app::program::panics::has_panicked() => {
                    return Err(Failure::already_reported(Exit::Failed));
                }
                Ok(LoopControl::Continue) => {}
                Ok(LoopControl::Quit) if self.open_next()? => {}
                Ok(LoopControl::Quit) => return Ok(Left::Quit),
                Ok(LoopControl::Leave) => return Ok(Left::Back),
                // The terminal cannot be written to: it has hung up.
                Err(_) => return Ok(Left::Quit),
            }
        }
    }

    /// Theme and characters as they are now.
    pub fn terminal_capabilities(&self) -> TerminalCapabilities {
        self.state.setup.terminal
    }

    /// Opens the next recording of the demo, if there is one.
    fn open_next(&mut self) -> Result<bool, Failure> {
        let Some((state, timeline)) = self.playlist.as_mut().map(Playlist::open_next).transpose()?.flatten() else {
            return Ok(false);
        };
        let shown = std::mem::replace(&mut self.state, state);
        self.state.keep_appearance_of(&shown);
        let ended = std::mem::replace(&mut self.timeline, timeline);
        self.schedule.request_frame();
        ended.close(&mut self.report);
        Ok(true)
    }

    fn dispatch(&mut self, event: LoopEvent) -> io::Result<LoopControl> {
        if matches!(event, LoopEvent::Input(_)) {
            self.schedule.answer_input();
        }
        let ends = matches!(
            event,
            LoopEvent::Signal(SignalEvent::Terminate) | LoopEvent::Input(Input::Hangup | Input::Key(Key::Control('c')))
        );
        if ends {
            self.playlist = None;
        }
        match event {
            LoopEvent::Signal(SignalEvent::Terminate) | LoopEvent::Input(Input::Hangup) => return Ok(LoopControl::Quit),
            LoopEvent::Signal(SignalEvent::Suspend) => self.suspend()?,
            // `suspend` has initialized the terminal already.
            LoopEvent::Signal(SignalEvent::Continue) if self.schedule.was_reinitialized() => {}
            LoopEvent::Signal(SignalEvent::Continue) => self.resume()?,
            LoopEvent::Signal(SignalEvent::Resize) => {
                self.console.terminal.resize()?;
                let (width, height) = terminal::size();
                return self.apply(Event::Resize { width, height });
            }
            LoopEvent::Input(Input::Key(key)) => return self.apply_input(Event::Key(key)),
            LoopEvent::Input(Input::Wheel(rows)) => return self.apply_input(Event::Wheel(rows)),
            LoopEvent::Input(Input::Click { column, row }) => {
                let hit = hit_area::area_at(&self.hit_areas, column, row);
                self.dragged = hit.filter(|hit| hit.time_at(column).is_some()).cloned();
                return self.apply_input(Event::Click(hit_area::target_at(&self.hit_areas, column, row)));
            }
            LoopEvent::Input(Input::Drag { column }) => return self.drag(column),
            LoopEvent::ScreenSaved(notice) => return self.apply(Event::Notice(notice)),
            LoopEvent::Timeline(events) => {
                for event in events {
                    match self.apply(event)? {
                        LoopControl::Continue => {}
                        end => return Ok(end),
                    }
                }
            }
            LoopEvent::Draw => self.draw()?,
            LoopEvent::Tick => return self.apply(Event::Now(kernel::now())),
        }
        Ok(LoopControl::Continue)
    }

    /// Moves the time displayed. Of several motions that wait, only the last one counts: a jump may take longer than a motion.
    fn drag(&mut self, mut column: u16) -> io::Result<LoopControl> {
        while let Ok(input) = self.console.keys.try_recv() {
            let Input::Drag { column: later } = input else {
                self.next_input = Some(input);
                break;
            };
            column = later;
        }
        match self.dragged.as_ref().and_then(|hit| hit.time_at(column)) {
            Some(at) => self.apply(Event::Click(ClickTarget::Time(at))),
            None => Ok(LoopControl::Continue),
        }
    }

    /// A key, a click or the wheel: what the frame has comes first.
    fn apply_input(&mut self, event: Event) -> io::Result<LoopControl> {
        for known in view::frame_events(&self.state, &self.hit_areas) {
            update(&mut self.state, known);
        }
        self.apply(event)
    }

    /// Updates the state and carries out the effect, which may return more events.
    fn apply(&mut self, event: Event) -> io::Result<LoopControl> {
        let effect = update(&mut self.state, event);
        if effect == Effect::Nothing {
            return Ok(LoopControl::Continue);
        }
        self.schedule.request_frame();
        match effect {
            Effect::Nothing | Effect::Redraw => {}
            Effect::Quit => return Ok(LoopControl::Quit),
            Effect::Leave => return Ok(LoopControl::Leave),
            Effect::Suspend => self.suspend()?,
            Effect::CopySelection => return self.copy(view::copied_text(&self.state), "nothing is selected: ↑ ↓ select a row"),
            Effect::CopyCommand => {
                return self.copy(view::command_text(&self.state), "no command line: select a task or a finding");
            }
            Effect::SaveScreen => {
                let host = self.state.current().map(|evaluation| Arc::clone(&evaluation.interval.host));
                saved_screen::save(&mut self.saved_screens, host.as_deref(), view::drawn_frame(&self.state).0);
            }
            Effect::ChooseColumns => {
                let columns = self.hit_areas.iter().find(|hit| matches!(hit.target, ClickTarget::Columns(_)));
                let event = columns.map_or_else(
                    || Event::Notice(Notice::new("there are no columns to choose here")),
                    |hit| Event::Click(hit.target.clone()),
                );
                return self.apply(event);
            }
            Effect::SaveChoices => self.choices_writer.save(&self.state),
            Effect::SendSignal { process, signal } => {
                return self.apply(Event::Notice(process_signal::send_and_report(process, signal)));
            }
            effect => {
                for event in self.timeline.act(effect) {
                    match self.apply(event)? {
                        LoopControl::Continue => {}
                        end => return Ok(end),
                    }
                }
            }
        }
        Ok(LoopControl::Continue)
    }

    /// Copies a text to the clipboard of the terminal, and says what; `missing` is said without a text.
    fn copy(&mut self, text: Option<String>, missing: &str) -> io::Result<LoopControl> {
        let notice = match text {
            Some(text) => {
                let copied = self.console.terminal.copy(&text)?;
                let first = copied.lines().next().unwrap_or_default();
                let cut = if copied.len() < text.len() { ", cut" } else { "" };
                Notice::new(format!("copied {} characters{cut}: {first}", copied.chars().count()))
            }
            None => Notice::new(missing),
        };
        self.apply(Event::Notice(notice))
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.console.terminal.has_pending() {
            self.console.terminal.write_pending()?;
            self.measure_speed();
            if self.console.terminal.has_pending() || !self.schedule.is_due() {
                self.schedule.bytes_written();
                return Ok(());
            }
        }
        let (state, hit_areas) = (&self.state, &mut self.hit_areas);
        if self.console.terminal.draw(|frame| *hit_areas = view::render(state, frame))? {
            crate::app::program::panics::panic_if_requested("screen");
            self.schedule.frame_drawn();
            self.line_speed.frame_begins(self.console.terminal.accepted(), Instant::now());
            self.measure_speed();
        }
        self.schedule.bytes_written();
        Ok(())
    }

    /// After each write.
    fn measure_speed(&mut self) {
        let is_slow =
            self.line_speed.is_slow(self.console.terminal.accepted(), self.console.terminal.has_pending(), Instant::now());
        if is_slow && !self.state.setup.terminal.is_slow {
            update(&mut self.state, Event::TerminalIsSlow);
            self.schedule.request_frame();
        }
    }

    /// When to draw a frame or write pending bytes; `None` if neither is needed.
    fn next_draw(&self) -> Option<Instant> {
        let frame_interval = match self.state.setup.terminal.is_slow {
            true => self.line_speed.slow_frame_interval(),
            false => MIN_FRAME_INTERVAL,
        };
        self.schedule.next_draw(self.console.terminal.has_pending(), frame_interval)
    }

    fn suspend(&mut self) -> io::Result<()> {
        terminal::restore();
        signals::suspend_self()?;
        self.resume()
    }

    fn resume(&mut self) -> io::Result<()> {
        self.console.terminal.reinit()?;
        self.schedule.terminal_reinitialized();
        let (width, height) = terminal::size();
        self.apply(Event::Resize { width, height })?;
        self.apply(Event::Redraw)?;
        self.schedule.request_frame();
        Ok(())
    }

    /// After this time without a sample the header shows how late it is.
    fn tick_interval(&self) -> Duration {
        let nominal = Duration::from_millis(self.state.setup.interval_ms);
        (nominal + nominal / 2).clamp(Duration::from_millis(1200), Duration::from_secs(2))
    }
}

/// The next input: the one that was read ahead, if there is one. Cancel-safe.
async fn receive(next_input: &mut Option<Input>, keys: &mut mpsc::Receiver<Input>) -> Input {
    match next_input.take() {
        Some(input) => input,
        None => keys.recv().await.unwrap_or(Input::Hangup),
    }
}
