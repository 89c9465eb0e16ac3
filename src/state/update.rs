//! The one function that changes a state.

use tui_input::{Input, InputRequest};

use super::event::{ClickTarget, Effect, Event, Key, Notice};
use super::history::IntervalSummary;
use super::keys::{self, Action};
use super::layout::{self, ScreenLayout};
use super::rows::{self, Item, Row};
use super::screen::{Screen, SortColumn};
use super::time_spec::TimeSpec;
use super::{Details, Filter, Prompt, PromptKind, RecorderState, State};
use crate::findings::Evaluation;

/// Takes in what happened; says what is to be done about it beyond drawing.
pub fn update(state: &mut State, event: Event) -> Effect {
    match event {
        Event::Key(key) => return state.on_key(key),
        Event::Click(click) => return state.on_click(click),
        Event::Wheel(rows) => state.move_by(i64::from(rows)),
        Event::MaxScroll(most) => {
            state.clamp_scroll(most);
            return Effect::Nothing;
        }
        Event::Resize { width, height } => {
            state.setup.size = (width, height);
            state.scroll_to_cursor();
        }
        Event::Evaluation(judged) => state.append_evaluation(judged),
        Event::SeekCompleted { evaluation: shown, preceding: before } => state.complete_seek(shown, &before),
        Event::Position(position) => state.position = Some(position),
        Event::Timeline(strip) => state.timeline = strip,
        Event::Marks(marks) => state.marks = marks,
        Event::Findings(findings) => {
            state.finding_history.replace(findings);
            state.rebuild_rows();
        }
        Event::Recorder(recorder) => state.set_recorder(recorder),
        Event::Notice(notice) => state.notify(notice),
        Event::SourceEnded(why) => state.source_ended = Some(why),
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
const INTERVAL_STEPS_MS: [u64; 13] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000];
const PLAYBACK_SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];

impl State {
    /// The next interval in the order of time.
    fn append_evaluation(&mut self, judged: Evaluation) {
        self.add_to_history(&judged);
        self.notice_intervals_left = self.notice_intervals_left.saturating_sub(1);
        if self.notice_intervals_left == 0 {
            self.notice = None;
        }
        if self.capabilities().follows_newest && self.paused && self.current.is_some() {
            self.newest = Some(judged);
            return;
        }
        self.newest = None;
        self.current = Some(judged);
        self.rebuild_rows();
    }

    /// Another moment than the newest.
    fn complete_seek(&mut self, shown: Evaluation, before: &[Evaluation]) {
        before.iter().for_each(|judged| self.history.insert(IntervalSummary::from_evaluation(judged)));
        if self.capabilities().follows_newest {
            let newest = self.newest.take().or_else(|| self.current.take());
            self.newest = newest.filter(|newest| newest.interval.at() > shown.interval.at());
        }
        self.source_ended = self.source_ended.take().filter(|_| self.capabilities().follows_newest);
        self.add_to_history(&shown);
        self.current = Some(shown);
        self.rebuild_rows();
    }

    fn add_to_history(&mut self, judged: &Evaluation) {
        let boot = |judged: &Evaluation| judged.interval.host.boot_id.clone();
        if self.current.as_ref().is_some_and(|current| boot(current) != boot(judged)) {
            self.history.clear();
        }
        self.history.insert(IntervalSummary::from_evaluation(judged));
        self.finding_history.add_evaluation(judged);
    }

    fn set_recorder(&mut self, recorder: RecorderState) {
        if let (RecorderState::Off, RecorderState::On { file, .. }) = (&self.recorder, &recorder) {
            self.notify(Notice::new(format!("recording, memory included, into {file}: R stops it")));
        }
        self.recorder = recorder;
    }

    fn notify(&mut self, notice: Notice) {
        self.notice = Some(notice);
        self.notice_intervals_left = NOTICE_INTERVALS;
    }

    /// The rows anew, the cursor where it was.
    fn rebuild_rows(&mut self) {
        let rows = rows::build_rows(self);
        let mut cursor = std::mem::take(&mut self.cursors[self.screen as usize]);
        cursor.follow_item(&rows, |row| rows::row_item(self, row));
        self.cursors[self.screen as usize] = cursor;
        self.rows = rows;
        self.scroll_to_cursor();
    }

    fn scroll_to_cursor(&mut self) {
        let height = usize::from(ScreenLayout::new(self).list_rows);
        let mut cursor = std::mem::take(&mut self.cursors[self.screen as usize]);
        cursor
            .scroll_into_view(self.rows.len(), height, |at| self.rows.get(at).map_or(1, |&row| layout::row_height(self, row)));
        self.cursors[self.screen as usize] = cursor;
    }

    fn select_row(&mut self, row: usize) {
        let mut cursor = std::mem::take(&mut self.cursors[self.screen as usize]);
        cursor.select(row, &self.rows, |row| rows::row_item(self, row));
        self.cursors[self.screen as usize] = cursor;
        self.scroll_to_cursor();
    }

    fn move_by(&mut self, by: i64) {
        let moved = |from: usize| from.saturating_add_signed(isize::try_from(by).unwrap_or(0));
        if let Some(top) = &mut self.help {
            *top = moved(*top);
        } else if let Some(details) = &mut self.details {
            details.scroll_offset = moved(details.scroll_offset);
        } else {
            self.select_row(moved(self.cursor().selected));
        }
    }

    fn clamp_scroll(&mut self, most: usize) {
        if let Some(top) = self.help.as_mut().or(self.details.as_mut().map(|details| &mut details.scroll_offset)) {
            *top = most.min(*top);
        }
    }

    fn on_key(&mut self, key: Key) -> Effect {
        if key == Key::Control('c') {
            return Effect::Quit;
        }
        if self.prompt.is_some() {
            return self.edit_prompt(key);
        }
        self.notice = None;
        let Some(action) = keys::action(self.screen, key) else {
            let open = self.help.take().is_some();
            return if open { Effect::Redraw } else { self.notify_unbound_key(key) };
        };
        if self.help.is_some() && !matches!(action, Action::Up | Action::Down | Action::PageUp | Action::PageDown) {
            self.help = None;
            return Effect::Redraw;
        }
        self.run_action(action)
    }

    /// A key that does nothing here says so, and where it would do something.
    fn notify_unbound_key(&mut self, key: Key) -> Effect {
        let name = match key {
            Key::Char(char) => char.to_string(),
            Key::Function(number) => format!("F{number}"),
            _ => return Effect::Nothing,
        };
        let place = match keys::screens_for_key(key).unwrap_or_default() {
            [] => "does nothing".to_owned(),
            [only] => format!("is for screen {} ({})", only.digit(), only.label()),
            [first, .., last] => format!("is for screens {} to {}", first.digit(), last.digit()),
        };
        self.notify(Notice::new(format!("{name} {place}: ? shows all keys")));
        Effect::Redraw
    }

    fn run_action(&mut self, action: Action) -> Effect {
        let page = i64::from(ScreenLayout::new(self).list_rows.max(2)) - 1;
        match action {
            Action::Show(screen) => self.switch_screen(screen),
            Action::NextScreen => self.switch_screen(self.screen.next()),
            Action::PreviousScreen => self.switch_screen(self.screen.previous()),
            Action::Up => self.move_by(-1),
            Action::Down => self.move_by(1),
            Action::PageUp => self.move_by(-page),
            Action::PageDown => self.move_by(page),
            Action::First => self.move_by(i64::from(i32::MIN)),
            Action::Last => self.move_by(i64::from(i32::MAX)),
            Action::OpenDetails => self.open_details(),
            Action::Back => self.close_details_or_clear_filter(),
            Action::Filter => {
                // The overview's own list is of findings; whoever looks for a name there looks for a task.
                if self.screen == Screen::Overview {
                    self.switch_screen(Screen::Tasks);
                }
                if self.shows_wait_classes() {
                    self.notify(Notice::new("kinds of waiting are not filtered: c goes back to tasks"));
                } else {
                    self.open_prompt(PromptKind::Filter);
                }
            }
            Action::NextSort => self.change_sort(|columns, sort, reversed| (*sort, *reversed) = ((*sort + 1) % columns, false)),
            Action::PreviousSort => {
                self.change_sort(|columns, sort, reversed| (*sort, *reversed) = ((*sort + columns - 1) % columns, false));
            }
            Action::ReverseSort => self.change_sort(|_, _, reversed| *reversed = !*reversed),
            Action::ToggleThreads => self.change_grouping(|state| state.show_threads = !state.show_threads, false),
            Action::ToggleTree => {
                self.change_grouping(|state| state.show_tree = !state.show_tree, false);
                if self.show_tree && !self.filter().as_str().is_empty() {
                    self.notify(Notice::new("a filtered list is no tree: Esc clears the filter"));
                }
            }
            Action::ToggleWaitClasses => self.change_grouping(|_| (), true),
            Action::ToggleRemoteHosts => {
                self.change_grouping(|state| state.show_remote_hosts = !state.show_remote_hosts, false)
            }
            Action::ToggleCpuOrder => {
                let at = self.screen as usize;
                let by_name = self.screen.sort_columns().iter().position(|&column| column == SortColumn::Name).unwrap_or(0);
                self.sort_columns[at] = if self.sort_columns[at] == by_name { 0 } else { by_name };
                self.reversed[at] = false;
                self.rebuild_rows();
            }
            Action::GoToFindingStart => return self.seek_finding_start(),
            Action::TogglePause => return self.toggle_pause(),
            Action::SampleBack => return self.seek(Effect::Step(-1)),
            Action::SampleForward => return self.seek(Effect::Step(1)),
            Action::MinuteBack => return self.seek(Effect::StepTime(-60)),
            Action::MinuteForward => return self.seek(Effect::StepTime(60)),
            Action::JumpToTime => self.open_prompt(PromptKind::Time),
            Action::NextFinding => return self.seek(Effect::NextFinding),
            Action::PreviousFinding => return self.seek(Effect::PreviousFinding),
            Action::Save if !self.capabilities().record => self.notify(Notice::new("this is a recording already")),
            Action::Save => return Effect::Save,
            Action::ToggleRecording if !self.capabilities().record => self.notify(Notice::new("this is a recording already")),
            Action::ToggleRecording => return Effect::ToggleRecord,
            Action::Mark if !self.capabilities().record => self.notify(Notice::new("this is a recording already")),
            Action::Mark => self.open_prompt(PromptKind::Mark),
            Action::NextMark => return self.seek_next_mark(),
            Action::Plus => return self.change_interval_or_speed(true),
            Action::Minus => return self.change_interval_or_speed(false),
            Action::Help => self.help = Some(0),
            Action::Redraw => {}
            Action::Suspend => return Effect::Suspend,
            Action::Quit => return Effect::Quit,
        }
        Effect::Redraw
    }

    /// Another order of the rows: `change(how many columns, the column, whether it is reversed)`.
    fn change_sort(&mut self, change: impl FnOnce(usize, &mut usize, &mut bool)) {
        if self.details.is_some() {
            return;
        }
        if let Some(why) = self.fixed_order_reason() {
            self.notify(Notice::new(why));
            return;
        }
        let at = self.screen as usize;
        change(self.screen.sort_columns().len().max(1), &mut self.sort_columns[at], &mut self.reversed[at]);
        self.rebuild_rows();
    }

    /// Why the rows are in no order that one could choose.
    pub fn fixed_order_reason(&self) -> Option<&'static str> {
        match self.screen {
            _ if self.shows_wait_classes() => Some("kinds of waiting have one order: c goes back to tasks"),
            Screen::Tasks if self.show_tree && self.filter().as_str().is_empty() => {
                Some("a tree is in the order of pids: T goes back to what matters first")
            }
            Screen::Network if self.show_remote_hosts => {
                Some("remote hosts: the slowest against their best first; p goes back")
            }
            _ => None,
        }
    }

    fn switch_screen(&mut self, screen: Screen) {
        self.details = None;
        self.screen = screen;
        self.rebuild_rows();
    }

    fn change_grouping(&mut self, change: impl FnOnce(&mut State), by_class: bool) {
        self.group_by_wait_class = by_class && !self.group_by_wait_class;
        change(self);
        let cursor = &mut self.cursors[self.screen as usize];
        *cursor = Default::default();
        self.rebuild_rows();
    }

    fn open_details(&mut self) {
        if self.details.is_some() {
            return;
        }
        let row = self.rows.get(self.cursor().selected).copied();
        self.details = row.and_then(|row| rows::row_item(self, row)).map(|item| Details { item, scroll_offset: 0 });
    }

    fn close_details_or_clear_filter(&mut self) {
        if self.details.take().is_none() {
            self.filters[self.screen as usize] = Filter::default();
            self.rebuild_rows();
        }
    }

    fn open_prompt(&mut self, asks: PromptKind) {
        let text = if asks == PromptKind::Filter { self.filter().as_str().to_owned() } else { String::new() };
        self.prompt = Some(Prompt { kind: asks, input: Input::new(text) });
    }

    /// A key while a prompt is open.
    fn edit_prompt(&mut self, key: Key) -> Effect {
        let Some(mut prompt) = self.prompt.take() else { return Effect::Nothing };
        let request = match key {
            Key::Escape => {
                if prompt.kind == PromptKind::Filter {
                    self.set_filter(String::new());
                }
                return Effect::Redraw;
            }
            Key::Enter => return self.submit_prompt(&prompt),
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
        if prompt.kind == PromptKind::Filter {
            self.set_filter(prompt.input.value().to_owned());
        }
        self.prompt = Some(prompt);
        Effect::Redraw
    }

    fn set_filter(&mut self, text: String) {
        self.filters[self.screen as usize] = Filter(text);
        self.rebuild_rows();
    }

    fn submit_prompt(&mut self, prompt: &Prompt) -> Effect {
        let text = prompt.input.value().trim();
        match prompt.kind {
            PromptKind::Mark if !text.is_empty() => Effect::Mark(text.to_owned()),
            PromptKind::Time if !text.is_empty() => match self.parse_time(text) {
                Some(at) => self.seek(Effect::JumpTo(at)),
                None => {
                    self.notify(Notice::failure(format!("not a time: {text} (12:03, 12:03:15, -5m, +90s)")));
                    Effect::Redraw
                }
            },
            _ => Effect::Redraw,
        }
    }

    /// A written time, within what can be gone to.
    fn parse_time(&self, text: &str) -> Option<i64> {
        let (first, last) = match &self.position {
            Some(position) => (position.first.realtime_ns, position.last.realtime_ns),
            None => (self.history.iter().next()?.at.realtime_ns, self.history.iter().next_back()?.at.realtime_ns),
        };
        TimeSpec::parse(text)?.resolve(first, last, &self.setup.time_zone)
    }

    /// Every move in time pauses: what was gone to shall stay.
    fn seek(&mut self, effect: Effect) -> Effect {
        if self.current.is_none() {
            return Effect::Nothing;
        }
        let later = matches!(effect, Effect::Step(1..) | Effect::StepTime(1..) | Effect::NextFinding);
        if later && self.capabilities().follows_newest && !self.paused {
            self.notify(Notice::new("this is the present: [ { and N go back from it"));
            return Effect::Redraw;
        }
        self.paused = true;
        effect
    }

    /// The next mark, and behind the last one the first again.
    fn seek_next_mark(&mut self) -> Effect {
        let here = self.shown_at().map_or(i64::MIN, |at| at.realtime_ns);
        let Some(next) = self.marks.iter().find(|mark| mark.realtime_ns > here).or(self.marks.first()).cloned() else {
            self.notify(Notice::new(match self.capabilities().follows_newest {
                true => "no marks so far: m puts one in, and 'stalltop mark TEXT' in another shell",
                false => "there are no marks in this recording",
            }));
            return Effect::Redraw;
        };
        self.notify(Notice::new(format!("mark: {}", next.text)));
        self.seek(Effect::JumpTo(next.realtime_ns))
    }

    fn seek_finding_start(&mut self) -> Effect {
        let item = match &self.details {
            Some(details) => Some(details.item.clone()),
            None => self.rows.get(self.cursor().selected).and_then(|&row| rows::row_item(self, row)),
        };
        match item {
            Some(Item::Finding { since, .. }) => {
                self.details = None;
                self.seek(Effect::JumpTo(since.realtime_ns))
            }
            _ => Effect::Nothing,
        }
    }

    fn toggle_pause(&mut self) -> Effect {
        self.paused = !self.paused;
        if !self.paused
            && let Some(newest) = self.newest.take()
        {
            self.current = Some(newest);
            self.rebuild_rows();
        }
        Effect::Pause(self.paused)
    }

    fn change_interval_or_speed(&mut self, plus: bool) -> Effect {
        let capabilities = self.capabilities();
        if !capabilities.set_interval && !capabilities.set_speed {
            self.notify(Notice::new("samples arrive from a pipe: neither their interval nor a speed can be set"));
            return Effect::Redraw;
        }
        if capabilities.set_interval {
            let now = self.setup.interval_ms;
            let next = if plus {
                INTERVAL_STEPS_MS.into_iter().find(|&step| step > now)
            } else {
                INTERVAL_STEPS_MS.into_iter().rev().find(|&step| step < now)
            };
            let Some(next) = next else { return Effect::Nothing };
            self.setup.interval_ms = next;
            return Effect::ChangeInterval(next);
        }
        let now = self.speed;
        let next = if plus {
            PLAYBACK_SPEEDS.into_iter().find(|&step| step > now * 1.001)
        } else {
            PLAYBACK_SPEEDS.into_iter().rev().find(|&step| step < now * 0.999)
        };
        let Some(next) = next else { return Effect::Nothing };
        self.speed = next;
        Effect::Speed(next)
    }

    fn on_click(&mut self, click: ClickTarget) -> Effect {
        if self.help.take().is_some() {
            return Effect::Redraw;
        }
        match click {
            ClickTarget::Nothing => return Effect::Nothing,
            ClickTarget::Screen(screen) => self.switch_screen(screen),
            ClickTarget::Column(column) => {
                let at = self.screen as usize;
                let Some(place) = self.screen.sort_columns().iter().position(|&known| known == column) else {
                    return Effect::Nothing;
                };
                self.reversed[at] = self.sort_columns[at] == place && !self.reversed[at];
                self.sort_columns[at] = place;
                self.rebuild_rows();
            }
            ClickTarget::Row(row) => {
                let again = self.cursor().item.is_some() && self.cursor().selected == row;
                self.select_row(row);
                if again {
                    self.open_details();
                }
            }
            ClickTarget::Timeline(at) => return self.seek(Effect::JumpTo(at)),
        }
        Effect::Redraw
    }
}

/// The row under the cursor.
pub fn selected_row(state: &State) -> Option<Row> {
    state.rows.get(state.cursor().selected).copied()
}
