//! The screen: select (everything into events), update (the state changes), act. The only place that waits for several
//! things at once; no logic in an arm.

use std::future::pending;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::app::config::Settings;
use crate::app::feed::Feed;
use crate::app::feed::live::Live;
use crate::app::feed::replay::Replay;
use crate::app::feed::spring::{self, Beginning, Spring};
use crate::app::judging::Lessons;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::{self, Call, Calls};
use crate::app::program::zone;
use crate::app::recording;
use crate::app::sampling::Sampling;
use crate::app::terminal::keyboard::{self, Input};
use crate::app::terminal::{self, Terminal};
use crate::cli;
use crate::kernel::{self, Root};
use crate::recording::Redaction;
use crate::state::{Effect, Event, Look, Setup, Source, State, update};
use crate::view;

/// Frames follow each other no faster, whatever happens.
const BETWEEN_FRAMES: Duration = Duration::from_millis(60);

/// How soon a terminal that did not take all of a frame is tried again.
const BEHIND: Duration = Duration::from_millis(20);

/// The live screen.
pub fn live(root: Root, configuration: &cli::Configuration, options: &cli::Live) -> Result<Exit, Failure> {
    let (settings, mut notices) = Settings::load(&root, configuration)?;
    let (lessons, told) = if root.is_host() { Lessons::load() } else { (Lessons::none(), None) };
    let sampling = Sampling::start(root, options.interval, None)?;
    let meta = recording::meta(&sampling.host, options.interval, Redaction::Nothing);
    let setup = setup(&options.appearance, Source::Live, options.interval);
    let state = State::new(setup);
    notices.extend(told);
    let judge = lessons.judge(settings.criteria_for(&sampling.host));
    show(state, Feed::Live(Box::new(Live::new(Spring::Machine(sampling), meta, judge, lessons, notices, options.history))))
}

/// The same screens on a recording.
pub fn replay(configuration: &cli::Configuration, options: &cli::Replay) -> Result<Exit, Failure> {
    let (settings, notices) = Settings::load(&Root::host(), configuration)?;
    let (feed, interval) = if options.file == Path::new("-") {
        let (Beginning { meta, sections }, spring) = spring::pipe()?;
        let section = sections.iter().find(|section| section.0 == recording::baselines_section());
        let lessons = Lessons::of(recording::baselines(section.map(|section| section.1.as_slice())));
        let interval = meta.interval;
        let judge = lessons.judge(settings.criteria_for(&meta.host));
        (Feed::Live(Box::new(Live::new(spring, meta, judge, lessons, notices, cli::values::HISTORY))), interval)
    } else {
        let mut replay = Replay::open(options, &zone::here(), &settings)?;
        replay.notice(notices);
        let interval = replay.interval();
        (Feed::Replay(Box::new(replay)), interval)
    };
    let name = options.file.file_name().unwrap_or(options.file.as_os_str()).to_string_lossy().into_owned();
    let mut state = State::new(setup(&options.appearance, Source::Replay { name }, interval));
    state.speed = options.speed;
    show(state, feed)
}

fn setup(appearance: &cli::Appearance, source: Source, interval: Duration) -> Setup {
    let variable = |name: &str| match name {
        "NO_COLOR" if appearance.no_color => Some("1".to_owned()),
        _ => std::env::var(name).ok(),
    };
    Setup {
        look: Look::from_variables(variable, appearance.glyphs()),
        source,
        zone: zone::here(),
        size: terminal::size(),
        interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Shows a feed until somebody ends it.
fn show(state: State, feed: Feed) -> Result<Exit, Failure> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Failure::new(Exit::Failed, what, error, "")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed("cannot start"))?;
    runtime.block_on(async {
        let calls = Calls::listen().map_err(failed("cannot wait for signals"))?;
        let terminal = Terminal::take().map_err(failed("cannot use the terminal"))?;
        let keys = keyboard::listen().map_err(failed("cannot read keys"))?;
        let mut show = Show { state, feed, terminal, calls, keys, due: Some(Instant::now()), drawn: None, retaken: false };
        let ended = show.run().await;
        let Show { feed, terminal, .. } = show;
        drop(terminal);
        let end = feed.close();
        ended.and_then(|exit| end.map_or(Ok(exit), Err))
    })
}

struct Show {
    state: State,
    feed: Feed,
    terminal: Terminal,
    calls: Calls,
    keys: mpsc::Receiver<Input>,
    /// When the next frame is to be drawn; `None` while nothing has changed
    due: Option<Instant>,
    drawn: Option<Instant>,
    /// The terminal was taken again, and no frame drawn since
    retaken: bool,
}

/// What was waited for.
enum Happening {
    Call(Call),
    Input(Input),
    Fed(Vec<Event>),
    /// A frame is due, or bytes of the last one wait
    Draw,
    /// Time has passed
    Tick,
}

/// Whether to go on.
enum Next {
    Go,
    End,
}

impl Show {
    async fn run(&mut self) -> Result<Exit, Failure> {
        let mut tick = Instant::now() + self.tick();
        loop {
            let happening = {
                let draw = self.draw_at();
                let Show { calls, keys, feed, .. } = self;
                tokio::select! {
                    call = calls.next() => Happening::Call(call),
                    input = keys.recv() => Happening::Input(input.unwrap_or(Input::HungUp)),
                    () = at(draw) => Happening::Draw,
                    events = feed.next() => Happening::Fed(events),
                    () = sleep_until(tick) => Happening::Tick,
                }
            };
            if matches!(happening, Happening::Fed(_) | Happening::Tick) {
                tick = Instant::now() + self.tick();
            }
            let answered = self.respond(happening).and_then(|next| {
                // What may be drawn at once is: to wait for a moment that is now costs two more turns through the runtime.
                let now = matches!(next, Next::Go) && self.draw_at().is_some_and(|due| due <= Instant::now());
                if now { self.draw().map(|()| next) } else { Ok(next) }
            });
            match answered {
                Ok(Next::Go) if crate::app::program::panics::happened() => return Err(Failure::told(Exit::Failed)),
                Ok(Next::Go) => {}
                Ok(Next::End) => return Ok(Exit::Fine),
                // A terminal that cannot be written to is one that is gone.
                Err(_) => return Ok(Exit::Fine),
            }
        }
    }

    fn respond(&mut self, happening: Happening) -> io::Result<Next> {
        match happening {
            Happening::Call(Call::End) | Happening::Input(Input::HungUp) => return Ok(Next::End),
            Happening::Call(Call::Stop) => self.stop()?,
            // Our own stop has taken the terminal again already.
            Happening::Call(Call::GoOn) if self.retaken => {}
            Happening::Call(Call::GoOn) => self.retake()?,
            Happening::Call(Call::Resize) => {
                self.terminal.resize()?;
                let (width, height) = terminal::size();
                return self.take(Event::Resize { width, height });
            }
            Happening::Input(Input::Key(key)) => return self.scroll(Event::Key(key)),
            Happening::Input(Input::Wheel(rows)) => return self.scroll(Event::Wheel(rows)),
            Happening::Input(Input::Press { column, row }) => {
                let click = view::hit(&self.state, column, row);
                return self.take(Event::Click(click));
            }
            Happening::Fed(events) => {
                for event in events {
                    if let Next::End = self.take(event)? {
                        return Ok(Next::End);
                    }
                }
            }
            Happening::Draw => self.draw()?,
            Happening::Tick => return self.take(Event::Now(kernel::now())),
        }
        Ok(Next::Go)
    }

    /// An event that may scroll the page that is open, from a place where that page is.
    fn scroll(&mut self, event: Event) -> io::Result<Next> {
        if let Some(most) = view::furthest(&self.state) {
            update(&mut self.state, Event::Furthest(most));
        }
        self.take(event)
    }

    /// One event into the state, and what it asks for; what comes of that is an event again.
    fn take(&mut self, event: Event) -> io::Result<Next> {
        let effect = update(&mut self.state, event);
        if effect == Effect::Nothing {
            return Ok(Next::Go);
        }
        self.due.get_or_insert_with(Instant::now);
        match effect {
            Effect::Nothing | Effect::Redraw => {}
            Effect::Quit => return Ok(Next::End),
            Effect::Suspend => self.stop()?,
            effect => {
                for event in self.feed.act(effect) {
                    if let Next::End = self.take(event)? {
                        return Ok(Next::End);
                    }
                }
            }
        }
        Ok(Next::Go)
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.terminal.is_behind() {
            self.terminal.send()?;
            if self.terminal.is_behind() || self.due.is_none() {
                self.drawn = Some(Instant::now());
                return Ok(());
            }
        }
        let state = &self.state;
        if self.terminal.draw(|frame| view::render(state, frame))? {
            crate::app::program::panics::rehearse("screen");
            self.due = None;
            self.retaken = false;
        }
        self.drawn = Some(Instant::now());
        Ok(())
    }

    /// When to draw, or to go on sending; `None` while there is nothing to do.
    fn draw_at(&self) -> Option<Instant> {
        let wait = if self.terminal.is_behind() { BEHIND } else { BETWEEN_FRAMES };
        let earliest = self.drawn.map(|drawn| drawn + wait);
        let due = if self.terminal.is_behind() { Some(self.due.unwrap_or_else(Instant::now)) } else { self.due };
        due.map(|due| earliest.map_or(due, |earliest| earliest.max(due)))
    }

    fn stop(&mut self) -> io::Result<()> {
        terminal::give_back();
        signals::stop_here()?;
        self.retake()
    }

    fn retake(&mut self) -> io::Result<()> {
        self.terminal.retake()?;
        self.retaken = true;
        let (width, height) = terminal::size();
        self.take(Event::Resize { width, height })?;
        self.take(Event::Redraw)?;
        self.due.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// After so long without a sample it is said how late it is.
    fn tick(&self) -> Duration {
        let nominal = Duration::from_millis(self.state.setup.interval_ms);
        (nominal + nominal / 2).clamp(Duration::from_millis(1200), Duration::from_secs(2))
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}
