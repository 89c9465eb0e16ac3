//! Samples as they come, from the running machine or down a pipe: each is recorded, kept for a while, and judged.
//! The last minutes can be walked through.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::course::{Course, Samples};
use super::errands::{Done, Errands};
use super::spring::{Drop, Spring};
use super::survey::begins;
use crate::app::allocation;
use crate::app::door::Door;
use crate::app::judging::{Judging, Lessons};
use crate::app::recording::{self, Session};
use crate::app::sampling::Taken;
use crate::app::stdout;
use crate::baseline::Baselines;
use crate::findings::{Judge, Judged, Verdict};
use crate::kernel;
use crate::recording::{Digest, Meta, Moment, RecorderStatus, Tape};
use crate::sample::{Instant, Sample};
use crate::state::{self, Effect, Event, Notice, Position};

/// How much is kept in memory at most, however long it is to go back.
const KEPT_BYTES: usize = 16 << 20;
/// Samples and marks that wait for a recording to begin; its disk may be slow.
const MOST_WAITING: usize = 64;
/// Marks of other shells that wait to be seen.
const MOST_LEFT: usize = 16;

/// Samples after which free memory is given back, for the first time when all is known that takes a while to be read.
const GIVE_BACK_EVERY: u64 = 64;
const GIVE_BACK_FIRST: u64 = 8;

/// Intervals that lead to one that was gone to, for the graphs.
const LEADING: u64 = 60;

pub struct Live {
    spring: Spring,
    meta: Meta,
    lessons: Lessons,
    judging: Judging,
    course: Course,
    kept: Kept,
    /// The interval that is shown where it is not the newest
    shown: Option<u64>,
    session: Option<Session>,
    /// What came since a recording was asked for, while it is about to begin
    beginning: Option<Vec<Waiting>>,
    /// Where other shells leave marks; closed when this ends
    _door: Option<Door>,
    left: mpsc::Receiver<(Moment, String)>,
    errands: Errands,
    /// What was last said of the recorder
    told: state::Recorder,
    /// Notices that nobody has seen yet
    notices: Vec<Notice>,
    /// When the last sample was taken
    last_at: Option<Instant>,
}

/// The shortest time without a sample that is told.
const WORTH_A_WORD_SECONDS: f64 = 2.0;

impl Live {
    /// `history`: how long what came is kept.
    pub fn new(spring: Spring, meta: Meta, judge: Judge, lessons: Lessons, notices: Vec<String>, history: Duration) -> Live {
        let host = Arc::new(meta.host.clone());
        let samples = history.as_nanos().div_ceil(meta.interval.as_nanos().max(1));
        let samples = usize::try_from(samples).unwrap_or(usize::MAX).max(2);
        let (sender, left) = mpsc::channel(MOST_LEFT);
        let take_in = move |at, text| sender.try_send((at, text)).map_err(|_| "too many marks are waiting");
        // Without one, whoever knocks is told that nobody is there.
        let door = matches!(spring, Spring::Machine(_)).then(|| Door::open(take_in).ok()).flatten();
        Live {
            spring,
            judging: Judging::new(Arc::clone(&host), judge),
            lessons,
            course: Course::new(host),
            kept: Kept { tape: Tape::new(samples, KEPT_BYTES, meta.redaction) },
            meta,
            shown: None,
            session: None,
            beginning: None,
            _door: door,
            left,
            errands: Errands::default(),
            told: state::Recorder::Off,
            notices: notices.into_iter().map(Notice::failure).collect(),
            last_at: None,
        }
    }

    pub async fn next(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.notices.drain(..).map(Event::Notice).collect();
        if !events.is_empty() {
            return events;
        }
        let drop = tokio::select! {
            Some((at, text)) = self.left.recv() => Drop::Mark(at, text),
            drop = self.spring.next() => drop,
        };
        match drop {
            Drop::Sample(taken) => self.take(taken, &mut events),
            Drop::Mark(at, text) => events.extend(self.mark(at, &text)),
            Drop::Word(text) => events.push(Event::Notice(Notice::new(text))),
            Drop::Ended(why) => events.push(Event::Ended(why)),
        }
        events
    }

    fn take(&mut self, taken: Taken, events: &mut Vec<Event>) {
        self.hear(events);
        if let Some(baselines) = self.lessons.news() {
            self.judging.adopt(baselines);
        }
        let judged = self.judging.take(Arc::clone(&taken.sample));
        let digest = recording::digest(judged.as_ref());
        if let Some(session) = &mut self.session {
            session.offer(taken.clone(), digest);
        }
        self.wait_for_session(|| Waiting::Sample(taken.clone(), digest));
        let Taken { sample, missed } = taken;
        events.extend(self.missed(missed, sample.at).map(Event::Notice));
        let kept = self.kept.tape.push_judged(&sample, digest);
        if kept && let Some(number) = self.kept.numbers().end.checked_sub(1) {
            self.course.remember(number, &self.judging);
            self.course.forget_before(self.kept.numbers().start);
            if number % GIVE_BACK_EVERY == GIVE_BACK_FIRST {
                allocation::give_back();
            }
        }
        if let Some(judged) = &judged {
            self.lessons.hear(judged);
        }
        events.extend(judged.map(Event::Judged));
        if self.shown.is_some() {
            events.extend(self.position().map(Event::Position));
        }
        self.tell_recorder(events);
        let failed = self.lessons.keep_now_and_then();
        let words = failed.map(|why| Notice::failure(format!("what was learned of disks is not kept: {why}")));
        events.extend(words.map(Event::Notice));
    }

    /// What is said of samples that should have been there before this one; a short hiccup is not worth a word.
    fn missed(&mut self, missed: u64, at: Instant) -> Option<Notice> {
        let seconds = at.seconds_since(self.last_at.replace(at)?);
        (missed > 0 && seconds >= WORTH_A_WORD_SECONDS).then(|| {
            let many = if missed == 1 { "1 sample" } else { &format!("{missed} samples") };
            Notice::failure(format!("{many} missed in {seconds:.0} s: stalltop was stopped, or got no CPU"))
        })
    }

    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::ChangeInterval(milliseconds) => {
                self.spring.change_interval(Duration::from_millis(milliseconds));
                Vec::new()
            }
            Effect::Pause(true) => {
                self.shown = self.newest();
                Vec::new()
            }
            Effect::Pause(false) => {
                self.shown = None;
                Vec::new()
            }
            Effect::Step(by) => self.go(|at, _| Some(at.saturating_add_signed(by))),
            Effect::StepTime(seconds) => self.go(|at, kept| {
                let from = kept.realtime_ns(at)?;
                let to = kept.at_time(from.saturating_add(seconds.saturating_mul(1_000_000_000)))?;
                Some(if seconds > 0 { to.max(at + 1) } else { to.min(at.saturating_sub(1)) })
            }),
            // The interval that holds a moment ends with the first sample after it.
            Effect::JumpTo(realtime_ns) => self.go(|_, kept| kept.at_time(realtime_ns).map(|number| number + 1)),
            Effect::NextFinding => self.go_to_finding(true),
            Effect::PreviousFinding => self.go_to_finding(false),
            Effect::Save => self.save(),
            Effect::ToggleRecord => self.toggle_recording(),
            Effect::Mark(text) => self.mark(kernel::now().into(), &text),
            Effect::Nothing | Effect::Redraw | Effect::Quit | Effect::Suspend | Effect::Speed(_) => Vec::new(),
        }
    }

    /// What must be kept is kept; with a line where that did not succeed.
    pub fn close(mut self) -> Option<String> {
        if let Some(line) = self.lessons.keep_in_time() {
            stdout::complain(&line);
        }
        self.session.take().and_then(|session| session.finish().failure())
    }

    fn newest(&self) -> Option<u64> {
        self.kept.numbers().end.checked_sub(1)
    }

    /// Shows the interval that `to` names, given the one that is shown; as near to it as there is one.
    fn go(&mut self, to: impl FnOnce(u64, &Kept) -> Option<u64>) -> Vec<Event> {
        let Range { start, end } = self.kept.numbers();
        let Some(newest) = end.checked_sub(1).filter(|&newest| newest > start) else { return Vec::new() };
        let at = self.shown.unwrap_or(newest);
        let Some(to) = to(at, &self.kept) else { return Vec::new() };
        let to = to.clamp(start + 1, newest);
        self.shown = Some(to);
        self.moved(to)
    }

    fn moved(&mut self, to: u64) -> Vec<Event> {
        let first = to.saturating_sub(LEADING).max(self.kept.numbers().start + 1);
        let before: Vec<Judged> = (first..to).filter_map(|number| self.course.judged(&mut self.kept, number)).collect();
        let Some(shown) = self.course.judged(&mut self.kept, to) else { return Vec::new() };
        let mut events = vec![Event::Moved { shown, before }];
        events.extend(self.position().map(Event::Position));
        events
    }

    fn position(&self) -> Option<Position> {
        let Range { start, end } = self.kept.numbers();
        let at = self.shown.or(self.newest())?;
        let when = |number: u64| {
            let moment = self.kept.tape.instant(usize::try_from(number.checked_sub(start)?).ok()?)?;
            Some(Instant { boottime_ns: moment.boottime_ns, monotonic_ns: moment.boottime_ns, realtime_ns: moment.realtime_ns })
        };
        Some(Position {
            index: usize::try_from(at.saturating_sub(start + 1)).ok()?,
            length: usize::try_from(end.saturating_sub(start + 1)).ok()?,
            first: when(start + 1)?,
            last: when(end - 1)?,
        })
    }

    /// To the beginning of the next or the previous finding among the minutes that are kept.
    fn go_to_finding(&mut self, forward: bool) -> Vec<Event> {
        let numbers = self.kept.numbers();
        let mut places: Vec<u64> = Vec::new();
        let mut before: Verdict = Arc::from([]);
        for number in numbers.start + 1..numbers.end {
            let Some(judged) = self.course.judged(&mut self.kept, number) else { continue };
            if begins(&judged.verdict, &before) {
                places.push(number);
            }
            before = judged.verdict;
        }
        let Some(at) = self.shown.or(self.newest()) else { return Vec::new() };
        let to = if forward {
            places.into_iter().find(|&place| place > at)
        } else {
            places.into_iter().rev().find(|&place| place < at)
        };
        match to {
            Some(to) => self.go(|_, _| Some(to)),
            None => vec![Event::Notice(Notice::new(if forward { "no later finding" } else { "no earlier finding in memory" }))],
        }
    }

    /// Those that were known when what is in memory began: a replay learns again what was learned since.
    fn baselines_of_then(&self) -> &Baselines {
        self.course.oldest().map_or(self.lessons.baselines(), |judge| judge.baselines())
    }

    fn save(&mut self) -> Vec<Event> {
        let mut bytes = Vec::new();
        let sections = recording::sections(self.baselines_of_then());
        match self.kept.tape.write_to(&mut bytes, &self.meta, &sections) {
            Ok(_) => {
                let path = PathBuf::from(recording::saved_name(&self.meta.host));
                self.errands.save(path, bytes, self.kept.tape.len());
                Vec::new()
            }
            Err(error) => vec![Event::Notice(Notice::failure(error.to_string()))],
        }
    }

    /// Into memory, and into the recording that is being made.
    fn mark(&mut self, at: Moment, text: &str) -> Vec<Event> {
        self.kept.tape.mark(at, text);
        let recorded = self.session.as_mut().is_none_or(|session| session.mark(at, text));
        self.wait_for_session(|| Waiting::Mark(at, text.to_owned()));
        let marks =
            self.kept.tape.marks().map(|mark| state::Mark { realtime_ns: mark.at.realtime_ns, text: mark.text.clone() });
        let notice = match recorded {
            true => Notice::new(format!("marked: {text}")),
            false => Notice::failure("marked in memory, and not in the recording: its disk does not keep up"),
        };
        vec![Event::Marks(marks.collect()), Event::Notice(notice)]
    }

    /// Keeps it for a recording that is about to begin.
    fn wait_for_session(&mut self, what: impl FnOnce() -> Waiting) {
        if let Some(waiting) = self.beginning.as_mut().filter(|waiting| waiting.len() < MOST_WAITING) {
            waiting.push(what());
        }
    }

    fn toggle_recording(&mut self) -> Vec<Event> {
        if let Some(session) = self.session.take() {
            self.errands.end_recording(session);
            self.told = state::Recorder::Off;
            return vec![Event::Recorder(state::Recorder::Off)];
        }
        if self.beginning.is_none() {
            self.beginning = Some(Vec::new());
            let path = PathBuf::from(recording::default_name(&self.meta.host));
            let baselines = self.baselines_of_then().clone();
            self.errands.begin_recording(self.kept.tape.history(), path, self.meta.clone(), baselines);
        }
        Vec::new()
    }

    /// What threads of their own have done meanwhile.
    fn hear(&mut self, events: &mut Vec<Event>) {
        for done in self.errands.done() {
            match done {
                Done::Recording(session) => {
                    let mut session = *session;
                    for waiting in self.beginning.take().unwrap_or_default() {
                        match waiting {
                            Waiting::Sample(taken, digest) => session.offer(taken, digest),
                            Waiting::Mark(at, text) => drop(session.mark(at, &text)),
                        }
                    }
                    self.session = Some(session);
                }
                Done::NotRecording(notice) => {
                    self.beginning = None;
                    events.push(Event::Notice(notice));
                }
                Done::Said(notice) => events.push(Event::Notice(notice)),
            }
        }
    }

    fn tell_recorder(&mut self, events: &mut Vec<Event>) {
        let Some(session) = &mut self.session else { return };
        events.extend(session.news().map(|news| Event::Notice(Notice::failure(news))));
        let now = match session.status() {
            RecorderStatus::Failed { why, .. } => state::Recorder::Failed(why),
            RecorderStatus::Paused { why, kept } => {
                state::Recorder::Failed(format!("paused: {why}; {} samples are safe", kept.samples))
            }
            RecorderStatus::Recording(kept) | RecorderStatus::Full(kept) | RecorderStatus::Finished(kept) => {
                state::Recorder::On { file: session.place(), bytes: kept.bytes }
            }
        };
        if now != self.told {
            self.told = now.clone();
            events.push(Event::Recorder(now));
        }
    }
}

/// What came while a recording was about to begin.
enum Waiting {
    Sample(Taken, Digest),
    Mark(Moment, String),
}

/// The minutes in memory.
struct Kept {
    tape: Tape,
}

impl Kept {
    fn realtime_ns(&self, number: u64) -> Option<i64> {
        let index = number.checked_sub(self.tape.forgotten())?;
        self.tape.instant(usize::try_from(index).ok()?).map(|moment| moment.realtime_ns)
    }

    /// The last sample at that time or before; the first where there is none.
    fn at_time(&self, realtime_ns: i64) -> Option<u64> {
        let numbers = self.numbers();
        let before = numbers.clone().rev().find(|&number| self.realtime_ns(number).is_some_and(|at| at <= realtime_ns));
        before.or((!numbers.is_empty()).then_some(numbers.start))
    }
}

impl Samples for Kept {
    fn numbers(&self) -> Range<u64> {
        self.tape.forgotten()..self.tape.forgotten() + self.tape.len() as u64
    }

    fn sample(&mut self, number: u64) -> Option<Arc<Sample>> {
        let index = number.checked_sub(self.tape.forgotten())?;
        self.tape.sample(usize::try_from(index).ok()?).ok()
    }
}
