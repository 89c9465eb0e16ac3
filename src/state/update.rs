//! The one function that changes a state.

use tui_input::{Input, InputRequest};

use super::event::{Click, Effect, Event, Key, Notice};
use super::history::Digest;
use super::keys::{self, Action};
use super::layout::{self, Plan};
use super::moment::Moment;
use super::rows::{self, Item, Row};
use super::screen::{Column, Screen};
use super::{Asks, Details, Prompt, Recorder, Search, State};
use crate::findings::Judged;

/// Takes in what happened; says what is to be done about it beyond drawing.
pub fn update(state: &mut State, event: Event) -> Effect {
    match event {
        Event::Key(key) => return state.key(key),
        Event::Click(click) => return state.click(click),
        Event::Wheel(rows) => state.move_by(i64::from(rows)),
        Event::Furthest(most) => {
            state.scroll_no_further(most);
            return Effect::Nothing;
        }
        Event::Resize { width, height } => {
            state.setup.size = (width, height);
            state.scroll();
        }
        Event::Judged(judged) => state.take(judged),
        Event::Moved { shown, before } => state.show(shown, &before),
        Event::Position(position) => state.position = Some(position),
        Event::Strip(strip) => state.strip = strip,
        Event::Marks(marks) => state.marks = marks,
        Event::Findings(findings) => {
            state.timeline.replace(findings);
            state.arrange();
        }
        Event::Recorder(recorder) => state.records(recorder),
        Event::Notice(notice) => state.say(notice),
        Event::Ended(why) => state.ended = Some(why),
        Event::Now(now) => {
            let was = state.late_seconds().map(|late| late as u64);
            state.now = Some(now);
            if state.late_seconds().map(|late| late as u64) == was {
                return Effect::Nothing;
            }
        }
        Event::Redraw => {}
    }
    Effect::Redraw
}

/// Intervals for which a notice stays.
const NOTICE_INTERVALS: u8 = 6;
/// What `+` and `-` go through, milliseconds.
const INTERVALS: [u64; 13] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000];
const SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];

impl State {
    /// The next interval in the order of time.
    fn take(&mut self, judged: Judged) {
        self.remember(&judged);
        self.notice_left = self.notice_left.saturating_sub(1);
        if self.notice_left == 0 {
            self.notice = None;
        }
        if self.capabilities().follows_newest && self.paused && self.current.is_some() {
            self.newest = Some(judged);
            return;
        }
        self.newest = None;
        self.current = Some(judged);
        self.arrange();
    }

    /// Another moment than the newest.
    fn show(&mut self, shown: Judged, before: &[Judged]) {
        before.iter().for_each(|judged| self.history.insert(Digest::of(judged)));
        if self.capabilities().follows_newest {
            let newest = self.newest.take().or_else(|| self.current.take());
            self.newest = newest.filter(|newest| newest.interval.at() > shown.interval.at());
        }
        self.ended = self.ended.take().filter(|_| self.capabilities().follows_newest);
        self.remember(&shown);
        self.current = Some(shown);
        self.arrange();
    }

    fn remember(&mut self, judged: &Judged) {
        let boot = |judged: &Judged| judged.interval.host.boot_id.clone();
        if self.current.as_ref().is_some_and(|current| boot(current) != boot(judged)) {
            self.history.clear();
        }
        self.history.insert(Digest::of(judged));
        self.timeline.observe(judged);
    }

    fn records(&mut self, recorder: Recorder) {
        if let (Recorder::Off, Recorder::On { file, .. }) = (&self.recorder, &recorder) {
            self.say(Notice::new(format!("recording, memory included, into {file}: R stops it")));
        }
        self.recorder = recorder;
    }

    fn say(&mut self, notice: Notice) {
        self.notice = Some(notice);
        self.notice_left = NOTICE_INTERVALS;
    }

    /// The rows anew, the cursor where it was.
    fn arrange(&mut self) {
        let rows = rows::rows(self);
        let mut cursor = std::mem::take(&mut self.cursors[self.screen as usize]);
        cursor.follow(&rows, |row| rows::item(self, row));
        self.cursors[self.screen as usize] = cursor;
        self.rows = rows;
        self.scroll();
    }

    fn scroll(&mut self) {
        let height = usize::from(Plan::of(self).list);
        let mut cursor = std::mem::take(&mut self.cursors[self.screen as usize]);
        cursor.scroll(self.rows.len(), height, |at| self.rows.get(at).map_or(1, |&row| layout::lines(self, row)));
        self.cursors[self.screen as usize] = cursor;
    }

    fn go(&mut self, row: usize) {
        let mut cursor = std::mem::take(&mut self.cursors[self.screen as usize]);
        cursor.go(row, &self.rows, |row| rows::item(self, row));
        self.cursors[self.screen as usize] = cursor;
        self.scroll();
    }

    fn move_by(&mut self, by: i64) {
        let moved = |from: usize| from.saturating_add_signed(isize::try_from(by).unwrap_or(0));
        if let Some(top) = &mut self.help {
            *top = moved(*top);
        } else if let Some(details) = &mut self.details {
            details.top = moved(details.top);
        } else {
            self.go(moved(self.cursor().selected));
        }
    }

    fn scroll_no_further(&mut self, most: usize) {
        if let Some(top) = self.help.as_mut().or(self.details.as_mut().map(|details| &mut details.top)) {
            *top = most.min(*top);
        }
    }

    fn key(&mut self, key: Key) -> Effect {
        if key == Key::Control('c') {
            return Effect::Quit;
        }
        if self.prompt.is_some() {
            return self.typed(key);
        }
        self.notice = None;
        let Some(action) = keys::action(self.screen, key) else {
            let open = self.help.take().is_some();
            return if open { Effect::Redraw } else { self.unbound(key) };
        };
        if self.help.is_some() && !matches!(action, Action::Up | Action::Down | Action::PageUp | Action::PageDown) {
            self.help = None;
            return Effect::Redraw;
        }
        self.act(action)
    }

    /// A key that does nothing here says so, and where it would do something.
    fn unbound(&mut self, key: Key) -> Effect {
        let name = match key {
            Key::Char(char) => char.to_string(),
            Key::Function(number) => format!("F{number}"),
            _ => return Effect::Nothing,
        };
        let place = match keys::elsewhere(key).unwrap_or_default() {
            [] => "does nothing".to_owned(),
            [only] => format!("is for screen {} ({})", only.digit(), only.word()),
            [first, .., last] => format!("is for screens {} to {}", first.digit(), last.digit()),
        };
        self.say(Notice::new(format!("{name} {place}: ? shows all keys")));
        Effect::Redraw
    }

    fn act(&mut self, action: Action) -> Effect {
        let page = i64::from(Plan::of(self).list.max(2)) - 1;
        match action {
            Action::Show(screen) => self.turn_to(screen),
            Action::NextScreen => self.turn_to(self.screen.next()),
            Action::PreviousScreen => self.turn_to(self.screen.previous()),
            Action::Up => self.move_by(-1),
            Action::Down => self.move_by(1),
            Action::PageUp => self.move_by(-page),
            Action::PageDown => self.move_by(page),
            Action::First => self.move_by(i64::from(i32::MIN)),
            Action::Last => self.move_by(i64::from(i32::MAX)),
            Action::Open => self.open(),
            Action::Back => self.back(),
            Action::Filter => {
                // The overview's own list is of findings; whoever looks for a name there looks for a task.
                if self.screen == Screen::Overview {
                    self.turn_to(Screen::Tasks);
                }
                if self.shows_classes() {
                    self.say(Notice::new("kinds of waiting are not filtered: c goes back to tasks"));
                } else {
                    self.ask(Asks::Filter);
                }
            }
            Action::Sort => self.reorder(|columns, sort, reversed| (*sort, *reversed) = ((*sort + 1) % columns, false)),
            Action::SortBack => {
                self.reorder(|columns, sort, reversed| (*sort, *reversed) = ((*sort + columns - 1) % columns, false));
            }
            Action::Reverse => self.reorder(|_, _, reversed| *reversed = !*reversed),
            Action::Threads => self.regroup(|state| state.threads = !state.threads, false),
            Action::Tree => {
                self.regroup(|state| state.tree = !state.tree, false);
                if self.tree && !self.search().text().is_empty() {
                    self.say(Notice::new("a filtered list is no tree: Esc clears the filter"));
                }
            }
            Action::ByClass => self.regroup(|_| (), true),
            Action::Peers => self.regroup(|state| state.peers = !state.peers, false),
            Action::AllCpus => {
                let at = self.screen as usize;
                let by_name = self.screen.columns().iter().position(|&column| column == Column::Name).unwrap_or(0);
                self.sorts[at] = if self.sorts[at] == by_name { 0 } else { by_name };
                self.reversed[at] = false;
                self.arrange();
            }
            Action::GoToMoment => return self.go_to_moment(),
            Action::Pause => return self.pause(),
            Action::SampleBack => return self.travel(Effect::Step(-1)),
            Action::SampleForward => return self.travel(Effect::Step(1)),
            Action::MinuteBack => return self.travel(Effect::StepTime(-60)),
            Action::MinuteForward => return self.travel(Effect::StepTime(60)),
            Action::Jump => self.ask(Asks::Time),
            Action::NextFinding => return self.travel(Effect::NextFinding),
            Action::PreviousFinding => return self.travel(Effect::PreviousFinding),
            Action::Save if !self.capabilities().record => self.say(Notice::new("this is a recording already")),
            Action::Save => return Effect::Save,
            Action::Record if !self.capabilities().record => self.say(Notice::new("this is a recording already")),
            Action::Record => return Effect::ToggleRecord,
            Action::Mark if !self.capabilities().record => self.say(Notice::new("this is a recording already")),
            Action::Mark => self.ask(Asks::Mark),
            Action::NextMark => return self.go_to_mark(),
            Action::Plus => return self.faster_or_longer(true),
            Action::Minus => return self.faster_or_longer(false),
            Action::Help => self.help = Some(0),
            Action::Redraw => {}
            Action::Suspend => return Effect::Suspend,
            Action::Quit => return Effect::Quit,
        }
        Effect::Redraw
    }

    /// Another order of the rows: `change(how many columns, the column, whether it is reversed)`.
    fn reorder(&mut self, change: impl FnOnce(usize, &mut usize, &mut bool)) {
        if self.details.is_some() {
            return;
        }
        if let Some(why) = self.fixed_order() {
            self.say(Notice::new(why));
            return;
        }
        let at = self.screen as usize;
        change(self.screen.columns().len().max(1), &mut self.sorts[at], &mut self.reversed[at]);
        self.arrange();
    }

    /// Why the rows are in no order that one could choose.
    pub fn fixed_order(&self) -> Option<&'static str> {
        match self.screen {
            _ if self.shows_classes() => Some("kinds of waiting have one order: c goes back to tasks"),
            Screen::Tasks if self.tree && self.search().text().is_empty() => {
                Some("a tree is in the order of pids: T goes back to what matters first")
            }
            Screen::Network if self.peers => Some("remote hosts: the slowest against their best first; p goes back"),
            _ => None,
        }
    }

    fn turn_to(&mut self, screen: Screen) {
        self.details = None;
        self.screen = screen;
        self.arrange();
    }

    fn regroup(&mut self, change: impl FnOnce(&mut State), by_class: bool) {
        self.by_class = by_class && !self.by_class;
        change(self);
        let cursor = &mut self.cursors[self.screen as usize];
        *cursor = Default::default();
        self.arrange();
    }

    fn open(&mut self) {
        if self.details.is_some() {
            return;
        }
        let row = self.rows.get(self.cursor().selected).copied();
        self.details = row.and_then(|row| rows::item(self, row)).map(|item| Details { item, top: 0 });
    }

    fn back(&mut self) {
        if self.details.take().is_none() {
            self.searches[self.screen as usize] = Search::default();
            self.arrange();
        }
    }

    fn ask(&mut self, asks: Asks) {
        let text = if asks == Asks::Filter { self.search().text().to_owned() } else { String::new() };
        self.prompt = Some(Prompt { asks, input: Input::new(text) });
    }

    /// A key while a prompt is open.
    fn typed(&mut self, key: Key) -> Effect {
        let Some(mut prompt) = self.prompt.take() else { return Effect::Nothing };
        let request = match key {
            Key::Escape => {
                if prompt.asks == Asks::Filter {
                    self.filter(String::new());
                }
                return Effect::Redraw;
            }
            Key::Enter => return self.entered(&prompt),
            Key::Char(char) => InputRequest::InsertChar(char),
            Key::Backspace => InputRequest::DeletePrevChar,
            Key::Delete => InputRequest::DeleteNextChar,
            Key::Left => InputRequest::GoToPrevChar,
            Key::Right => InputRequest::GoToNextChar,
            Key::Home | Key::Control('a') => InputRequest::GoToStart,
            Key::End | Key::Control('e') => InputRequest::GoToEnd,
            Key::Control('w') => InputRequest::DeletePrevWord,
            Key::Control('u') => InputRequest::DeleteLine,
            _ => {
                self.prompt = Some(prompt);
                return Effect::Nothing;
            }
        };
        const LONGEST: usize = 200;
        if !matches!(request, InputRequest::InsertChar(_)) || prompt.input.value().len() < LONGEST {
            prompt.input.handle(request);
        }
        if prompt.asks == Asks::Filter {
            self.filter(prompt.input.value().to_owned());
        }
        self.prompt = Some(prompt);
        Effect::Redraw
    }

    fn filter(&mut self, text: String) {
        self.searches[self.screen as usize] = Search(text);
        self.arrange();
    }

    fn entered(&mut self, prompt: &Prompt) -> Effect {
        let text = prompt.input.value().trim();
        match prompt.asks {
            Asks::Mark if !text.is_empty() => Effect::Mark(text.to_owned()),
            Asks::Time if !text.is_empty() => match self.moment(text) {
                Some(at) => self.travel(Effect::JumpTo(at)),
                None => {
                    self.say(Notice::failure(format!("not a time: {text} (12:03, 12:03:15, -5m, +90s)")));
                    Effect::Redraw
                }
            },
            _ => Effect::Redraw,
        }
    }

    /// A written time, within what can be gone to.
    fn moment(&self, text: &str) -> Option<i64> {
        let (first, last) = match &self.position {
            Some(position) => (position.first.realtime_ns, position.last.realtime_ns),
            None => (self.history.iter().next()?.at.realtime_ns, self.history.iter().next_back()?.at.realtime_ns),
        };
        Moment::parse(text)?.resolve(first, last, &self.setup.zone)
    }

    /// Every move in time pauses: what was gone to shall stay.
    fn travel(&mut self, effect: Effect) -> Effect {
        if self.current.is_none() {
            return Effect::Nothing;
        }
        let later = matches!(effect, Effect::Step(1..) | Effect::StepTime(1..) | Effect::NextFinding);
        if later && self.capabilities().follows_newest && !self.paused {
            self.say(Notice::new("this is the present: [ { and N go back from it"));
            return Effect::Redraw;
        }
        self.paused = true;
        effect
    }

    /// The next mark, and behind the last one the first again.
    fn go_to_mark(&mut self) -> Effect {
        let here = self.at().map_or(i64::MIN, |at| at.realtime_ns);
        let Some(next) = self.marks.iter().find(|mark| mark.realtime_ns > here).or(self.marks.first()).cloned() else {
            self.say(Notice::new(match self.capabilities().follows_newest {
                true => "no marks so far: m puts one in, and 'stalltop mark TEXT' in another shell",
                false => "there are no marks in this recording",
            }));
            return Effect::Redraw;
        };
        self.say(Notice::new(format!("mark: {}", next.text)));
        self.travel(Effect::JumpTo(next.realtime_ns))
    }

    fn go_to_moment(&mut self) -> Effect {
        let item = match &self.details {
            Some(details) => Some(details.item.clone()),
            None => self.rows.get(self.cursor().selected).and_then(|&row| rows::item(self, row)),
        };
        match item {
            Some(Item::Finding { since, .. }) => {
                self.details = None;
                self.travel(Effect::JumpTo(since.realtime_ns))
            }
            _ => Effect::Nothing,
        }
    }

    fn pause(&mut self) -> Effect {
        self.paused = !self.paused;
        if !self.paused
            && let Some(newest) = self.newest.take()
        {
            self.current = Some(newest);
            self.arrange();
        }
        Effect::Pause(self.paused)
    }

    fn faster_or_longer(&mut self, plus: bool) -> Effect {
        let capabilities = self.capabilities();
        if !capabilities.set_interval && !capabilities.set_speed {
            self.say(Notice::new("samples arrive from a pipe: neither their interval nor a speed can be set"));
            return Effect::Redraw;
        }
        if capabilities.set_interval {
            let now = self.setup.interval_ms;
            let next = if plus {
                INTERVALS.into_iter().find(|&step| step > now)
            } else {
                INTERVALS.into_iter().rev().find(|&step| step < now)
            };
            let Some(next) = next else { return Effect::Nothing };
            self.setup.interval_ms = next;
            return Effect::ChangeInterval(next);
        }
        let now = self.speed;
        let next = if plus {
            SPEEDS.into_iter().find(|&step| step > now * 1.001)
        } else {
            SPEEDS.into_iter().rev().find(|&step| step < now * 0.999)
        };
        let Some(next) = next else { return Effect::Nothing };
        self.speed = next;
        Effect::Speed(next)
    }

    fn click(&mut self, click: Click) -> Effect {
        if self.help.take().is_some() {
            return Effect::Redraw;
        }
        match click {
            Click::Nothing => return Effect::Nothing,
            Click::Screen(screen) => self.turn_to(screen),
            Click::Column(column) => {
                let at = self.screen as usize;
                let Some(place) = self.screen.columns().iter().position(|&known| known == column) else {
                    return Effect::Nothing;
                };
                self.reversed[at] = self.sorts[at] == place && !self.reversed[at];
                self.sorts[at] = place;
                self.arrange();
            }
            Click::Row(row) => {
                let again = self.cursor().item.is_some() && self.cursor().selected == row;
                self.go(row);
                if again {
                    self.open();
                }
            }
            Click::Strip(at) => return self.travel(Effect::JumpTo(at)),
        }
        Effect::Redraw
    }
}

/// The row under the cursor.
pub fn selected(state: &State) -> Option<Row> {
    state.rows.get(state.cursor().selected).copied()
}
