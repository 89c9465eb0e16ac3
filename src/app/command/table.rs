//! `table`: figures as lines, of the running machine or of a recording; and what the whole run came to.

mod command;
mod page;

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::config::Settings;
use crate::app::judging::{Judging, Lessons};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdout::{self, Reader};
use crate::app::program::{panics, signals, zone};
use crate::app::recording::recorded::Recorded;
use crate::app::sampling::{Order, Sampling, Taken};
use crate::cli::Configuration;
use crate::cli::table::{Format as Asked, Table};
use crate::findings::Judged;
use crate::kernel::Root;
use crate::recording::Replayer;
use crate::report::table::{Choice, Format, Look, Printer, Run, Stamp, Total, Whole, Wishes, named};
use page::Page;

/// Time between lines where none is asked for.
const INTERVAL: Duration = Duration::from_secs(1);

pub fn table(root: Root, configuration: &Configuration, options: &Table) -> Result<Exit, Failure> {
    let mut lines = Lines::of(options)?;
    let settings = Settings::load_or_complain(&root, configuration)?;
    match &options.from {
        Some(file) => recorded(file, &settings, options, &mut lines),
        None if options.command.is_empty() => live(root, &settings, options, &mut lines),
        None => command::measure(root, &settings, options, &mut lines),
    }
}

/// Lines as they were asked for, and what all of them come to.
struct Lines {
    choice: Choice,
    printer: Printer,
    page: Page,
    zone: TimeZone,
    /// All intervals, where a total is asked for
    run: Option<Run>,
    /// No line but the total
    silent: bool,
    printed: u32,
    most: u32,
}

impl Lines {
    fn of(options: &Table) -> Result<Lines, Failure> {
        let usage = |what: String| Failure::new(Exit::Usage, what, "", "try 'stalltop table --help'");
        let Some(table) = named(&options.what) else { return Err(usage(format!("there is no table '{}'", options.what))) };
        let wishes = Wishes {
            columns: options.columns.clone(),
            sort: options.sort.clone(),
            top: options.top.and_then(|top| usize::try_from(top).ok()),
            pids: options.pids.clone(),
            name: options.name.clone(),
            busy: options.busy,
            of_box: options.of_box,
        };
        let choice = Choice::of(table, wishes).map_err(usage)?;
        let format = match options.format {
            Asked::Text => Format::Text,
            Asked::Csv => Format::Csv { safe_formulas: options.safe_formulas },
            Asked::Json => Format::Json,
            Asked::Parseable => Format::Parseable,
        };
        let page = if options.command.is_empty() { Page::StandardOutput } else { Page::StandardError };
        let printer = Printer::new(table, &choice.heads, format, page.headings());
        // Of the running machine, nothing said is one line; of a recording it is all of it.
        let endless = options.interval.is_some() || options.span.is_some() || options.from.is_some();
        let total = options.total || !options.command.is_empty();
        Ok(Lines {
            choice,
            printer,
            page,
            zone: zone::here(),
            run: total.then(Run::default),
            silent: total && (options.format == Asked::Csv || !options.command.is_empty() && options.interval.is_none()),
            printed: 0,
            most: options.count.unwrap_or(if endless || !options.command.is_empty() { u32::MAX } else { 1 }),
        })
    }

    /// One interval more; whether another one is wanted.
    fn take(&mut self, judged: &Judged) -> Result<bool, Failure> {
        if let Some(run) = &mut self.run {
            run.add(judged);
        }
        self.show(judged.into(), false)
    }

    /// Several intervals as one line. What only a single one can tell is not known of them.
    fn take_all(&mut self, run: &Run) -> Result<bool, Failure> {
        match run.whole() {
            Some(whole) => self.show(whole.look(), run.is_several()),
            None => Ok(true),
        }
    }

    /// The line of the time since boot; it is in no total. What only a short time can tell is not known of it.
    fn take_since_boot(&mut self, judged: Option<Judged>) -> Result<bool, Failure> {
        judged.map_or(Ok(true), |judged| self.show((&judged).into(), true))
    }

    fn show(&mut self, look: Look, several: bool) -> Result<bool, Failure> {
        self.printed += 1;
        if !self.silent {
            let mut rows = self.choice.rows(&look);
            for (at, _) in self.choice.heads.iter().enumerate().filter(|(_, head)| several && head.total == Total::Unknown) {
                rows.iter_mut().filter_map(|row| row.get_mut(at)).for_each(|cell| *cell = Default::default());
            }
            let text = self.printer.lines(&stamp(&look, &self.zone), &rows);
            if self.page.print(self.printer.format(), &text)? == Reader::Gone {
                self.run = None;
                return Ok(false);
            }
        }
        Ok(self.printed < self.most)
    }

    /// The total, where it is asked for.
    fn end(&mut self) -> Result<Option<Whole>, Failure> {
        let Some(whole) = self.run.as_ref().and_then(Run::whole) else { return Ok(None) };
        let look = whole.look();
        let rows = self.choice.rows(&look);
        let text = self.printer.total(&stamp(&look, &self.zone), self.choice.table().whole(&look), &rows);
        self.page.print(self.printer.format(), &text)?;
        Ok(Some(whole))
    }
}

/// The time of an interval, on clocks of that zone.
pub(super) fn stamp(look: &Look, zone: &TimeZone) -> Stamp {
    let at = look.interval.at();
    let zoned = jiff::Timestamp::from_nanosecond(i128::from(at.realtime_ns)).map(|time| time.to_zoned(zone.clone()));
    let clock = zoned.map_or_else(|_| "--:--:--".to_owned(), |time| time.strftime("%H:%M:%S").to_string());
    Stamp { clock, at, seconds: look.interval.seconds }
}

/// Samples of the running machine on their way to lines.
struct Watch {
    sampling: Sampling,
    judging: Judging,
    lessons: Lessons,
}

impl Watch {
    /// Steady: a late line does not make the next one late. Baselines are for the table that shows them.
    fn start(root: Root, settings: &Settings, interval: Duration, asked: (&Table, &Choice)) -> Result<Watch, Failure> {
        let (options, choice) = asked;
        let lessons = if root.is_host() && options.what == "disk" { Lessons::load_or_complain() } else { Lessons::none() };
        let sampling = Sampling::steady(root, interval, options.span, choice.is_dear())?;
        let judging = Judging::new(sampling.host.clone(), lessons.judge(settings.criteria_for(&sampling.host)));
        Ok(Watch { sampling, judging, lessons })
    }

    fn judge(&mut self, taken: Taken) -> Option<Judged> {
        let judged = self.judging.take(taken.sample)?;
        self.lessons.hear(&judged);
        Some(judged)
    }

    fn end(mut self) -> Result<Exit, Failure> {
        if let Some(line) = self.lessons.keep_in_time() {
            stdout::complain(&line);
        }
        if panics::happened() { Err(Failure::told(Exit::Failed)) } else { Ok(Exit::Fine) }
    }
}

fn live(root: Root, settings: &Settings, options: &Table, lines: &mut Lines) -> Result<Exit, Failure> {
    // Whoever interrupts a run that is to be totalled wants the total.
    let stop = lines.run.is_some().then(signals::Ending::hold).transpose();
    let stop = stop.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let interval = options.interval.unwrap_or(INTERVAL).min(options.span.unwrap_or(Duration::MAX));
    let mut watch = Watch::start(root, settings, interval, (options, &lines.choice))?;
    if let Some(stop) = stop {
        let orders = watch.sampling.orders();
        stop.then(move || {
            orders.send(Order::Last);
        });
    }
    let mut since_boot = options.since_boot;
    while let Some(taken) = watch.sampling.samples.blocking_recv() {
        if std::mem::take(&mut since_boot) && !lines.take_since_boot(watch.judging.since_boot(&taken.sample))? {
            break;
        }
        let Some(judged) = watch.judge(taken) else { continue };
        if !lines.take(&judged)? {
            break;
        }
        if let Some(line) = watch.lessons.keep_now_and_then() {
            stdout::complain(&format!("what was learned of disks is not kept: {line}"));
        }
    }
    lines.end()?;
    watch.end()
}

/// Judged from its beginning, so that baselines are what they were by then.
fn recorded(file: &Path, settings: &Settings, options: &Table, lines: &mut Lines) -> Result<Exit, Failure> {
    let mut recorded = Recorded::open(file, settings)?;
    let span = span(recorded.replayer(), options, &lines.zone)?;
    let mut step = Run::default();
    let mut since_boot = options.since_boot;
    while let Some(judged) = recorded.next() {
        if recorded.place() > *span.end() {
            break;
        }
        if recorded.place() <= *span.start() {
            continue;
        }
        if std::mem::take(&mut since_boot) && !lines.take_since_boot(recorded.since_boot(&judged.interval.older))? {
            break;
        }
        let go_on = match options.interval {
            None => lines.take(&judged)?,
            Some(interval) => {
                if let Some(run) = &mut lines.run {
                    run.add(&judged);
                }
                let ends = !step.goes_on_in(&judged);
                if ends && !lines.take_all(&std::mem::take(&mut step))? {
                    break;
                }
                step.add(&judged);
                // A sample that was a little early belongs to the line all the same.
                let due = step.seconds() + judged.interval.seconds / 2.0 >= interval.as_secs_f64();
                let go_on = !due || lines.take_all(&step)?;
                if due {
                    step = Run::default();
                }
                go_on
            }
        };
        if !go_on {
            break;
        }
    }
    lines.end()?;
    recorded.complain();
    Ok(if recorded.replayer().damage().is_empty() { Exit::Fine } else { Exit::Damaged })
}

/// The samples in which lines begin and end; the first one only begins one.
fn span(replayer: &Replayer, options: &Table, zone: &TimeZone) -> Result<RangeInclusive<usize>, Failure> {
    let last = replayer.len().saturating_sub(1);
    // Within one run of the machine the clock counts that nobody sets.
    let apart = |from: usize, to: usize| {
        let (older, newer) = replayer.instant(from).zip(replayer.instant(to))?;
        let ns = match replayer.host(from).is_same_run(&replayer.host(to)) {
            true => newer.boottime_ns.saturating_sub(older.boottime_ns),
            false => u64::try_from(newer.realtime_ns.saturating_sub(older.realtime_ns)).unwrap_or(0),
        };
        Some(Duration::from_nanos(ns))
    };
    let within = |from: usize, to: usize| options.span.is_none_or(|span| apart(from, to).is_some_and(|apart| apart <= span));
    let Some(at) = options.at else {
        let before = (0..last).rev().take_while(|&from| within(from, last)).last();
        return Ok(before.unwrap_or(last)..=last);
    };
    let wrong = || Failure::new(Exit::Usage, "--at is no time of that recording", "", "try 'stalltop info FILE'");
    let realtime = |index: usize| replayer.instant(index).map(|at| at.realtime_ns).ok_or_else(wrong);
    let at = at.resolve(realtime(0)?, realtime(last)?, zone).ok_or_else(wrong)?;
    let from = replayer.at_time(at).unwrap_or(0);
    Ok(from..=(from..=last).take_while(|&to| within(from, to)).last().unwrap_or(from))
}
