//! `check`: watches for a while (or reads a recording), says what is wrong, and exits as a monitoring plugin does.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::app::config::Settings;
use crate::app::judging::{Judging, Lessons};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::Ending;
use crate::app::program::stdout::{self, Reader};
use crate::app::program::zone;
use crate::app::recording::recorded::Recorded;
use crate::app::recording::{self, Session};
use crate::app::sampling::{Order, Sampling};
use crate::cli::check::Format;
use crate::cli::{Check, Configuration};
use crate::findings::{Judged, Severity};
use crate::kernel::Root;
use crate::recording::{Redaction, Replayer};
use crate::report::changes::{self, Log};
use crate::report::window::{Chosen, Window};
use crate::report::{json, nagios, text};
use crate::sample::Instant;

/// How long is looked unless it is said.
const SPAN: Duration = Duration::from_secs(5);

/// What is done with each judged interval.
type Each<'a> = &'a mut dyn FnMut(&Judged) -> Result<Reader, Failure>;

pub fn check(root: Root, configuration: &Configuration, check: &Check) -> Result<Exit, Failure> {
    if check.watch && check.format() == Format::Nagios {
        let why = "a plugin's status is one line, once";
        return Err(Failure::new(Exit::Usage, "cannot --watch with --format nagios", why, "use --format text or json"));
    }
    run(root, configuration, check).map_err(cannot_tell)
}

fn run(root: Root, configuration: &Configuration, check: &Check) -> Result<Exit, Failure> {
    // What was learned in hours is kept when somebody ends them.
    let ending = (check.watch && check.file.is_none()).then(Ending::hold).transpose();
    let ending = ending.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let mut settings = Settings::load_or_complain(&root, configuration)?;
    settings.set(&check.threshold);
    let source = Source { root, settings: &settings, check, ending };
    if check.watch { watch(source) } else { once(source) }
}

/// A monitoring system takes any other code than 3 for a verdict.
fn cannot_tell(mut failure: Failure) -> Failure {
    failure.exit = Exit::CannotTell;
    failure
}

/// Where judged intervals come from, and what is asked of them.
struct Source<'a> {
    root: Root,
    settings: &'a Settings,
    check: &'a Check,
    /// Held back for a watch, which somebody ends
    ending: Option<Ending>,
}

fn once(source: Source) -> Result<Exit, Failure> {
    let Source { settings, check, .. } = source;
    let mut window = Window::of(chosen(check));
    source.judge(&mut |judged| {
        window.add(judged);
        Ok(Reader::Listening)
    })?;
    let fail_on = check.fail_on.severity();
    match check.format() {
        Format::Text => stdout::say(&text::check(&window)),
        Format::Json => stdout::print(&json::check(&window)),
        Format::Nagios => stdout::say(&nagios::line(&window, fail_on, &settings.criteria().thresholds)),
    }?;
    Ok(exit(window.is_empty(), window.worst(), fail_on))
}

/// A line for each change, until the span or the recording ends (with the verdict on all of it), or somebody has enough.
fn watch(source: Source) -> Result<Exit, Failure> {
    let check = source.check;
    let mut log = Log::of(chosen(check));
    let ended = source.judge(&mut |judged| {
        let entries = log.take(judged);
        let host = &judged.interval.host;
        match check.format() {
            _ if entries.is_empty() => Ok(Reader::Listening),
            Format::Json => stdout::print(&entries.iter().map(|entry| changes::json(host, entry)).collect::<String>()),
            _ => stdout::say(&entries.iter().map(|entry| changes::text(host, entry)).collect::<String>()),
        }
    })?;
    match ended {
        Ended::Itself => Ok(exit(log.is_empty(), log.worst(), check.fail_on.severity())),
        Ended::Stopped => Ok(Exit::Fine),
    }
}

fn chosen(check: &Check) -> Chosen {
    Chosen { only: check.only.clone(), ignore: check.ignore.clone() }
}

fn exit(empty: bool, worst: Option<Severity>, fail_on: Severity) -> Exit {
    match worst.filter(|&worst| worst >= fail_on) {
        _ if empty => Exit::CannotTell,
        Some(worst) => Exit::Found(worst),
        None => Exit::Fine,
    }
}

/// Whether all was judged that was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Itself,
    /// By a signal, or because nobody reads any more
    Stopped,
}

impl Source<'_> {
    fn judge(self, each: Each) -> Result<Ended, Failure> {
        match &self.check.file {
            Some(file) => recorded(file, self.settings, self.check, each),
            None => self.live(each),
        }
    }

    fn live(self, each: Each) -> Result<Ended, Failure> {
        let Source { root, settings, check, ending } = self;
        let span = check.span.or((!check.watch).then_some(SPAN));
        let most = span.unwrap_or(Duration::MAX);
        let interval = check.interval.unwrap_or_else(|| interval_for(most)).min(most);
        let mut lessons = if root.is_host() { Lessons::load_or_complain() } else { Lessons::none() };
        let mut sampling = Sampling::start(root, interval, span)?;
        let stopped = Arc::new(AtomicBool::new(false));
        if let Some(ending) = ending {
            let (orders, stopped) = (sampling.orders(), Arc::clone(&stopped));
            ending.then(move || {
                stopped.store(true, Ordering::SeqCst);
                orders.send(Order::End);
            });
        }
        let criteria = settings.criteria_for(&sampling.host);
        let mut judging = Judging::new(sampling.host.clone(), lessons.judge(criteria));
        let mut session = None;
        while let Some(taken) = sampling.samples.blocking_recv() {
            let judged = judging.take(taken.sample.clone());
            if let Some(path) = &check.save {
                let session = match &mut session {
                    Some(session) => session,
                    None => {
                        let meta = recording::meta(&sampling.host, interval, Redaction::Nothing);
                        session.insert(Session::create(path, &meta, lessons.baselines()).map_err(recording::failure)?)
                    }
                };
                session.offer(taken, recording::digest(judged.as_ref()));
            }
            let Some(judged) = judged else { continue };
            lessons.hear(&judged);
            if each(&judged)? == Reader::Gone {
                stopped.store(true, Ordering::SeqCst);
                break;
            }
            if let Some(line) = lessons.keep_now_and_then() {
                stdout::complain(&format!("what was learned of disks is not kept: {line}"));
            }
        }
        if let Some(line) = session.and_then(|session| session.finish().failure()) {
            return Err(Failure::new(Exit::CannotTell, line, "", ""));
        }
        if let Some(line) = lessons.keep_in_time() {
            stdout::complain(&line);
        }
        match stopped.load(Ordering::SeqCst) {
            _ if crate::app::program::panics::happened() => Err(Failure::told(Exit::Failed)),
            true => Ok(Ended::Stopped),
            false => Ok(Ended::Itself),
        }
    }
}

/// Judged from its beginning in any case: what was learned and what had begun before is known.
fn recorded(file: &Path, settings: &Settings, check: &Check, each: Each) -> Result<Ended, Failure> {
    let mut recorded = Recorded::open(file, settings)?;
    let stretch = Stretch::of(recorded.replayer(), check);
    let mut ended = Ended::Itself;
    for judged in recorded.by_ref() {
        let at = judged.interval.at();
        if stretch.is_over(at) {
            break;
        }
        if stretch.has_begun(at) && each(&judged)? == Reader::Gone {
            ended = Ended::Stopped;
            break;
        }
    }
    recorded.complain();
    Ok(ended)
}

/// What of a recording is judged: intervals that end after `from` and not after `to`.
struct Stretch {
    /// Nanoseconds after 1970, as `at` names it
    from: i64,
    /// Nanoseconds after boot, where its length counts
    from_boottime: u64,
    to_boottime: u64,
}

impl Stretch {
    fn of(replayer: &Replayer, check: &Check) -> Stretch {
        let (first, last) = (replayer.instant(0), replayer.len().checked_sub(1).and_then(|last| replayer.instant(last)));
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let length = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let all = Stretch { from: i64::MIN, from_boottime: 0, to_boottime: u64::MAX };
        let Some(at) = check.at else {
            let from = check.span.map_or(0, |span| last.boottime_ns.saturating_sub(length(span)));
            return Stretch { from_boottime: from, ..all };
        };
        let zone = zone::here();
        let from = at.resolve(first.realtime_ns, last.realtime_ns, &zone).unwrap_or(i64::MAX);
        // The clock may have been set while it was recorded: by the last sample before it.
        let behind =
            (0..replayer.len()).map_while(|index| replayer.instant(index)).take_while(|at| at.realtime_ns <= from).last();
        let behind = behind.unwrap_or(first);
        // Negative where it lies before all of it.
        let since = from.saturating_sub(behind.realtime_ns);
        let to = behind.boottime_ns.saturating_add_signed(since).saturating_add(length(check.span.unwrap_or(SPAN)));
        Stretch { from, to_boottime: to, ..all }
    }

    fn has_begun(&self, at: Instant) -> bool {
        at.realtime_ns > self.from && at.boottime_ns > self.from_boottime
    }

    fn is_over(&self, at: Instant) -> bool {
        at.boottime_ns > self.to_boottime
    }
}

/// A second, or less where that would be too few intervals to tell a state from a moment.
fn interval_for(span: Duration) -> Duration {
    const ENOUGH: u32 = 4;
    (span / ENOUGH).clamp(Duration::from_millis(100), Duration::from_secs(1))
}
