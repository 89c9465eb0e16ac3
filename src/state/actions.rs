//! Keys and clicks: looks up the action in the key table and carries it out.

use super::event::{ClickTarget, Effect};
use super::graph_window::Zoom;
use super::key::Key;
use super::keys::{self, Action, Screens};
use super::layout::ScreenLayout;
use super::notice::Notice;
use super::prompt::PromptKind;
use super::rows::TaskRows;
use super::screen::Screen;
use super::sort::SortColumn;
use super::{Overlay, State};

impl State {
    pub(super) fn on_key(&mut self, key: Key) -> Effect {
        if key == Key::Control('c') {
            return Effect::Quit;
        }
        if self.prompt.is_some() {
            return self.edit_prompt(key);
        }
        if let Some(effect) = self.on_overlay_key(key) {
            return effect;
        }
        self.notice = None;
        // The arrows extend a span, on all screens.
        match key {
            Key::Left if self.playback.span.is_some() => return self.seek(Effect::Step(-1)),
            Key::Right if self.playback.span.is_some() => return self.seek(Effect::Step(1)),
            _ => {}
        }
        let Some(action) = keys::action(self.screen, key) else {
            let closed = self.overlay.take().is_some();
            return if closed { Effect::Redraw } else { self.notify_unbound_key(key) };
        };
        let keeps_help = matches!(action, Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::SaveScreen);
        if self.help().is_some() && !keeps_help {
            self.overlay = None;
            return Effect::Redraw;
        }
        self.run_action(action)
    }

    /// Reports a key that is not bound on this screen, and the screens on which it is.
    fn notify_unbound_key(&mut self, key: Key) -> Effect {
        let name = match key {
            Key::Char(char) => char.to_string(),
            Key::Function(number) => format!("F{number}"),
            _ => return Effect::Nothing,
        };
        let screens = keys::screens_for_key(key);
        let place = match (screens.and_then(Screens::single), screens.and_then(Screens::digits)) {
            (Some(only), _) => format!("is for screen {} ({})", only.digit(), only.label()),
            (None, Some(digits)) => format!("is for screens {digits}"),
            (None, None) => "does nothing".to_owned(),
        };
        self.notify(Notice::new(format!("{name} {place}: ? shows all keys")));
        Effect::Redraw
    }

    pub(super) fn run_action(&mut self, action: Action) -> Effect {
        if self.details.is_some() && action.changes_list() {
            self.notify(Notice::new("the list is behind this page: Esc shows it"));
            return Effect::Redraw;
        }
        let page_rows = |state: &State| i64::from(ScreenLayout::new(state).list_rows.max(2)) - 1;
        match action {
            Action::Show(screen) => self.switch_screen(screen),
            Action::NextPane if self.shows_panes() => self.move_focus(1),
            Action::PreviousPane if self.shows_panes() => self.move_focus(-1),
            Action::NextPane => self.switch_screen(self.screen.next()),
            Action::PreviousPane => self.switch_screen(self.screen.previous()),
            Action::Up | Action::Down => match self.page_to_select_on() {
                Some(page) => page.select_next(action == Action::Down),
                None => self.move_by(if action == Action::Down { 1 } else { -1 }),
            },
            Action::PageUp => self.move_by(-page_rows(self)),
            Action::PageDown => self.move_by(page_rows(self)),
            Action::First => self.move_by(i64::from(i32::MIN)),
            Action::Last => self.move_by(i64::from(i32::MAX)),
            Action::OpenDetails => self.open_details(),
            Action::Back if self.playback.span.is_some() && !self.shows_zoomed_pane() && self.details.is_none() => {
                return self.end_span();
            }
            Action::Back => return self.close_details_or_clear_filter(),
            Action::Filter => self.open_filter(),
            Action::NextSort | Action::PreviousSort | Action::ReverseSort => self.change_sort(action),
            Action::MoveLeft => self.move_sideways(false),
            Action::MoveRight => self.move_sideways(true),
            Action::ToggleCpuOrder => {
                let by_number = self.sort().column == SortColumn::NAME;
                self.sort_by(if by_number { SortColumn::CPU_BUSY } else { SortColumn::NAME });
            }
            Action::ToggleThreads => return self.show_tasks_as(self.lists.task_rows.toggle_threads()),
            Action::ToggleTree => return self.toggle_tree(),
            Action::ToggleBranch => self.toggle_branch(),
            Action::ToggleWaitClasses => return self.show_tasks_as(self.lists.task_rows.toggle_wait_classes()),
            Action::ToggleCgroups => return self.show_tasks_as(self.lists.task_rows.toggle_cgroups()),
            Action::ToggleRemoteHosts => self.regroup(|state| state.lists.network_rows = state.lists.network_rows.toggle()),
            Action::ZoomPane => self.toggle_zoom(),
            Action::GoToFindingStart => return self.seek_finding_start(),
            Action::TogglePause => return self.toggle_pause(),
            Action::SampleBack => return self.seek(Effect::Step(-1)),
            Action::SampleForward => return self.seek(Effect::Step(1)),
            Action::MinuteBack => return self.seek(Effect::StepTime(-60)),
            Action::MinuteForward => return self.seek(Effect::StepTime(60)),
            Action::ShorterGraphs => return self.zoom_time(Zoom::In),
            Action::LongerGraphs => return self.zoom_time(Zoom::Out),
            Action::ToggleSpan => return self.toggle_span(),
            Action::Save if self.playback.span.is_some() => return Effect::SaveSpan,
            Action::WholeGraphs => return self.show_all_time(),
            Action::JumpToTime => self.open_prompt(PromptKind::Time),
            Action::NextFinding => return self.seek(Effect::NextFinding),
            Action::PreviousFinding => return self.seek(Effect::PreviousFinding),
            Action::NextMark => return self.seek_next_mark(),
            Action::Save | Action::ToggleRecording | Action::Mark if !self.capabilities().record => {
                self.notify(Notice::new("live mode only: this is a recording already"));
            }
            Action::Save => return Effect::Save,
            Action::ToggleRecording => return Effect::ToggleRecord,
            Action::Mark => self.open_prompt(PromptKind::Mark),
            Action::Plus => return self.increase_interval_or_speed(),
            Action::Minus => return self.decrease_interval_or_speed(),
            Action::OpenPalette => self.open_palette(),
            Action::OpenSettings => self.open_settings(),
            Action::CopySelection => return Effect::CopySelection,
            Action::CopyCommand => return Effect::CopyCommand,
            Action::SaveScreen => return Effect::SaveScreen,
            Action::ChooseColumns => return Effect::ChooseColumns,
            Action::SendSignal => self.ask_for_signal(),
            Action::Help => self.overlay = Some(Overlay::Help { scroll_offset: 0 }),
            Action::Redraw => {}
            Action::Suspend => return Effect::Suspend,
            Action::Quit => return Effect::Quit,
        }
        Effect::Redraw
    }

    pub(super) fn on_click(&mut self, target: ClickTarget) -> Effect {
        if let Some(effect) = self.on_overlay_click(&target) {
            return effect;
        }
        match target {
            ClickTarget::Nothing => return Effect::Nothing,
            ClickTarget::Screen(screen) => self.switch_screen(screen),
            ClickTarget::Column(column) => self.sort_by(column),
            ClickTarget::Row(row) => {
                let selected_before = self.cursor().item.is_some() && self.cursor().selected == row;
                self.select_row(row);
                if selected_before {
                    self.open_details();
                }
            }
            ClickTarget::Action(action) => return self.run_action(action),
            ClickTarget::MovedList(_) => self.move_sideways(false),
            ClickTarget::Item(item) if !self.selects_on_overview() || self.is_selected(&item) => {
                self.open_page(item);
            }
            ClickTarget::Item(item) => self.select_item(item),
            ClickTarget::Pane(pane) => self.focus_pane(pane),
            ClickTarget::Columns(columns) => self.open_column_chooser(columns),
            ClickTarget::Overlay
            | ClickTarget::PaletteEntry(_)
            | ClickTarget::ColumnChoice(_)
            | ClickTarget::Setting { .. }
            | ClickTarget::Signal(_)
            | ClickTarget::FleetHost(_)
            | ClickTarget::Times { .. } => return Effect::Nothing,
            ClickTarget::Time(at_ns) => return self.seek(Effect::JumpTo(at_ns)),
        }
        Effect::Redraw
    }

    /// Whether panes are displayed.
    fn shows_panes(&self) -> bool {
        ScreenLayout::new(self).has_panes()
    }

    pub(super) fn switch_screen(&mut self, screen: Screen) {
        self.details = None;
        // The text that is being typed is of the list of this screen.
        self.prompt.take_if(|prompt| prompt.kind == PromptKind::Filter);
        self.screen = screen;
        self.rebuild_rows();
    }

    /// Moves the cursor, or scrolls the open page, by this number of rows.
    pub(super) fn move_by(&mut self, rows: i64) {
        let moved = |from: usize| from.saturating_add_signed(isize::try_from(rows).unwrap_or(0));
        if let Some(offset) = self.page_scroll_offset() {
            *offset = moved(*offset);
            return;
        }
        match self.selects_on_overview() {
            true => self.move_on_overview(rows),
            false => self.select_row(moved(self.cursor().selected)),
        }
    }

    /// Opens the filter prompt. The overview has no list to filter: there it filters tasks.
    fn open_filter(&mut self) {
        if self.screen == Screen::Overview {
            self.switch_screen(Screen::Tasks);
        }
        if self.shows_wait_classes() {
            self.notify(Notice::new("wait classes cannot be filtered: c returns to tasks"));
        } else {
            self.open_prompt(PromptKind::Filter);
        }
    }

    fn change_sort(&mut self, action: Action) {
        if let Some(reason) = self.fixed_order_reason() {
            self.notify(Notice::new(reason));
            return;
        }
        match action {
            Action::NextSort => self.sort_by_neighbor(1),
            Action::PreviousSort => self.sort_by_neighbor(-1),
            _ => self.reverse_sort(),
        }
    }

    /// Changes the kind of rows of the tasks screen, which is remembered.
    fn show_tasks_as(&mut self, rows: TaskRows) -> Effect {
        self.regroup(|state| state.lists.task_rows = rows);
        Effect::SaveChoices
    }

    fn toggle_tree(&mut self) -> Effect {
        let effect = self.show_tasks_as(self.lists.task_rows.toggle_tree());
        if self.lists.task_rows.is_tree() && !self.filter().is_empty() {
            self.notify(Notice::new("no tree while a filter is set: Esc clears it"));
        }
        effect
    }
}
