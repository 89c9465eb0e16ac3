//! A part of the frame: the only way from the screens to ratatui's buffer.
//!
//! A pane accepts literals, `SafeText` and widgets that are listed as `SafeWidget`. No screen names the buffer, a `Span` or a
//! `Line` of ratatui, so that text from outside cannot be drawn before it is sanitized.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::symbols::merge::MergeStrategy;
use ratatui::symbols::scrollbar;
use ratatui::widgets::{Block, Clear, Scrollbar, ScrollbarOrientation, ScrollbarState, StatefulWidget, Tabs, Widget};

use super::hit_area::HitArea;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::{StyleRole, Theme};
use super::widgets::area_graph::AreaGraph;
use super::widgets::bar::{Segment, StackedBar};
use super::widgets::gradient::Gradient;
use super::widgets::graph::Graph;
use super::widgets::heat_map::HeatMap;
use super::widgets::log_graph::LogGraph;
use super::widgets::stacked_area::StackedArea;
use super::widgets::time_cursor::TimeCursor;
use crate::state::ClickTarget;
use crate::state::graph_columns::TimeAxis;

/// A widget whose text, if it has any, was a literal or `SafeText`.
pub trait SafeWidget: Widget {}

impl SafeWidget for StackedBar<'_, Style> {}

impl SafeWidget for Graph<'_> {}

impl SafeWidget for AreaGraph<'_> {}

impl SafeWidget for TimeCursor {}

impl<const N: usize> SafeWidget for StackedArea<'_, N> {}

impl<F: Fn(f32) -> Style> SafeWidget for HeatMap<'_, F> {}

impl<F: Fn(usize, f32) -> Gradient> SafeWidget for LogGraph<'_, F> {}

/// A rectangle of the frame. Columns and rows are relative to its upper left corner; drawing outside has no effect.
pub struct Pane<'a> {
    buffer: &'a mut Buffer,
    /// What a click does, in the order of drawing
    hit_areas: &'a mut Vec<HitArea>,
    area: Rect,
    theme: Theme,
    /// The pane with the focus of the keys
    has_focus: bool,
    /// Tables leave the last column to a scroll bar
    has_scroll_bar: bool,
}

impl<'a> Pane<'a> {
    /// The whole frame. Hit areas are appended to the list.
    pub fn new(buffer: &'a mut Buffer, hit_areas: &'a mut Vec<HitArea>, theme: Theme) -> Pane<'a> {
        let area = buffer.area;
        Pane { buffer, hit_areas, area, theme, has_focus: false, has_scroll_bar: false }
    }

    /// A rectangle inside this one.
    pub fn subarea(&mut self, x: u16, y: u16, width: u16, height: u16) -> Pane<'_> {
        let wanted = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height };
        self.part(wanted)
    }

    /// The same pane; its frame shows whether it has the focus.
    pub fn with_focus(&mut self, has_focus: bool) -> Pane<'_> {
        Pane { has_focus, ..self.part(self.area) }
    }

    /// The same pane; a table in it leaves its last column to the scroll bar that is drawn later.
    pub fn with_scroll_bar(&mut self, has_scroll_bar: bool) -> Pane<'_> {
        Pane { has_scroll_bar, ..self.part(self.area) }
    }

    /// Columns of a table.
    pub fn table_width(&self) -> u16 {
        self.area.width.saturating_sub(u16::from(self.has_scroll_bar))
    }

    /// The part with these coordinates in the frame.
    pub fn part(&mut self, area: Rect) -> Pane<'_> {
        let (area, theme) = (self.area.intersection(area), self.theme);
        let has_scroll_bar = self.has_scroll_bar;
        Pane { area, buffer: &mut *self.buffer, hit_areas: &mut *self.hit_areas, theme, has_focus: false, has_scroll_bar }
    }

    /// Draws what is `height` rows high from row `y` on, without its first `passed` rows. What does not fit below is cut: nothing is
    /// drawn smaller. `draw` gets a pane whose row 0 is the one above.
    pub fn draw_cut(&mut self, y: u16, passed: u16, height: u16, draw: impl FnOnce(&mut Pane)) {
        let whole = Rect { x: self.area.x, y: 0, width: self.area.width, height: height.saturating_add(1) };
        let mut buffer = Buffer::empty(whole);
        let mut hit_areas = Vec::new();
        // The row in the frame of a row of `whole`.
        let (area, top) = (self.area, i32::from(self.area.y) + i32::from(y) - 1 - i32::from(passed));
        let first = area.y.saturating_add(y).saturating_sub(u16::from(passed == 0));
        let row_of = |row: u16| {
            let found = u16::try_from(top + i32::from(row)).ok()?;
            (first.max(area.y)..area.bottom()).contains(&found).then_some(found)
        };
        if let Some(above) = row_of(0) {
            for x in whole.left()..whole.right() {
                if let (Some(cell), Some(drawn)) = (buffer.cell_mut((x, 0)), self.buffer.cell((x, above))) {
                    *cell = drawn.clone();
                }
            }
        }
        let theme = self.theme;
        let mut scratch = Pane {
            buffer: &mut buffer,
            hit_areas: &mut hit_areas,
            area: whole,
            theme,
            has_focus: false,
            has_scroll_bar: false,
        };
        scratch.subarea(0, 1, u16::MAX, u16::MAX).fill();
        draw(&mut scratch);
        for (row, found) in whole.rows().filter_map(|row| Some((row.y, row_of(row.y)?))) {
            for x in whole.left()..whole.right() {
                if let (Some(drawn), Some(cell)) = (buffer.cell((x, row)), self.buffer.cell_mut((x, found))) {
                    *cell = drawn.clone();
                }
            }
        }
        for HitArea { area: drawn, target } in hit_areas {
            let mut rows = drawn.rows().filter_map(|row| row_of(row.y));
            let Some(first) = rows.next() else { continue };
            let height = u16::try_from(rows.count()).unwrap_or(u16::MAX).saturating_add(1);
            self.hit_areas.push(HitArea { area: Rect { y: first, height, ..drawn }, target });
        }
    }

    /// What a click on this pane does, unless a part that is drawn later has its own target.
    pub fn on_click(&mut self, target: ClickTarget) {
        if !self.area.is_empty() {
            self.hit_areas.push(HitArea { area: self.area, target });
        }
    }

    /// Divides the rows.
    pub fn rows<const N: usize>(&self, constraints: [Constraint; N]) -> [Rect; N] {
        Layout::vertical(constraints).areas(self.area)
    }

    /// Divides the columns, with a blank column between two.
    pub fn columns<const N: usize>(&self, constraints: [Constraint; N]) -> [Rect; N] {
        Layout::horizontal(constraints).spacing(1).areas(self.area)
    }

    pub fn area(&self) -> Rect {
        self.area
    }

    pub fn width(&self) -> u16 {
        self.area.width
    }

    pub fn height(&self) -> u16 {
        self.area.height
    }

    /// The style of the glyphs of a graph.
    pub fn graph_style(&self, role: StyleRole) -> Style {
        self.theme.graph_style(role)
    }

    /// The style of an area of full blocks.
    pub fn area_style(&self, role: StyleRole) -> Style {
        self.theme.area_style(role)
    }

    /// The styles of a filled graph of one series, by height.
    pub fn area_gradient(&self, role: StyleRole) -> Gradient {
        self.theme.area_gradient(role)
    }

    pub fn theme(&self) -> Theme {
        self.theme
    }

    /// Draws a frame with a title at its left end and a note at its right end; returns the pane inside.
    pub fn framed(&mut self, title: impl Into<SafeLine>, note: impl Into<SafeLine>) -> Pane<'_> {
        let room = usize::from(self.area.width.saturating_sub(4));
        let mut title = title.into();
        if self.has_focus {
            let mut marked = SafeLine::new("▸ ", StyleRole::Key);
            marked.append(title);
            title = marked;
        }
        let title = title.truncated(room);
        let note = note.into().truncated(room.saturating_sub(title.width() + 2));
        let spaced = |line: SafeLine| {
            let mut spaced = SafeLine::new(" ", StyleRole::Plain);
            spaced.append(line);
            // Without the modifiers of the border, over which it is drawn.
            let plain = Style::new().remove_modifier(Modifier::all());
            spaced.with(" ", StyleRole::Plain).into_styled(self.theme).style(plain)
        };
        let mut block = Block::bordered()
            .border_style(self.theme.style(StyleRole::Dim))
            .merge_borders(MergeStrategy::Exact)
            .title_top(spaced(title));
        if !note.is_empty() {
            block = block.title_top(spaced(note).right_aligned());
        }
        let inner = block.inner(self.area);
        block.render(self.area, self.buffer);
        self.part(inner)
    }

    /// The first of the notes that fits beside the title of the frame; the last one where none does.
    pub fn fitting_note<const N: usize>(&self, title: &SafeLine, ways: [SafeText; N]) -> SafeLine {
        let mark = if self.has_focus { 2 } else { 0 };
        let room = usize::from(self.area.width).saturating_sub(4 + mark + title.width() + 2);
        let fitting = ways.iter().find(|words| words.width() <= room).or(ways.last()).cloned();
        SafeLine::new(fitting.unwrap_or_default(), StyleRole::Dim)
    }

    /// Draws a widget on the whole pane.
    pub fn render(&mut self, widget: impl SafeWidget) {
        widget.render(self.area, self.buffer);
    }

    /// Draws a stacked bar on the first row.
    pub fn stacked_bar(&mut self, segments: &[Segment<StyleRole>]) {
        let style = |segment: &Segment<StyleRole>| Segment {
            share: segment.share,
            glyph: segment.glyph,
            style: self.theme.graph_style(segment.style),
        };
        let segments: Vec<Segment<Style>> = segments.iter().map(style).collect();
        self.render(StackedBar(&segments));
    }

    /// Marks the displayed time over a graph in that area of the frame, and displays the time of a column on a click. The row above
    /// the graph is its frame or title.
    pub fn time_axis(&mut self, axis: TimeAxis, graph: Rect) {
        let style = self.theme.style(StyleRole::Playback);
        let area = Rect { y: graph.y.saturating_sub(1), height: graph.height + 1, ..graph };
        if let Some(column) = axis.cursor {
            TimeCursor { column, style }.render(area, self.buffer);
        }
        if let Some(window) = axis.window {
            self.part(graph).on_click(ClickTarget::Times { start_ns: window.start_ns, end_ns: window.end_ns });
        }
    }

    /// Draws ratatui's scroll bar in the last column: lines of a list from `top`, of which `visible` are displayed. Draws nothing if
    /// that is all of them.
    pub fn scroll_bar(&mut self, lines: usize, top: usize, visible: usize) {
        let Some(hidden) = lines.checked_sub(visible).filter(|&hidden| hidden > 0) else { return };
        let mut place = ScrollbarState::new(hidden + 1).position(top).viewport_content_length(visible);
        let style = self.theme.graph_style(StyleRole::Dim);
        Scrollbar::new(ScrollbarOrientation::VerticalRight)
            .symbols(scrollbar::Set { track: "│", thumb: "█", begin: "│", end: "│" })
            .begin_symbol(None)
            .end_symbol(None)
            .style(style)
            .render(self.area, self.buffer, &mut place);
    }

    /// Draws ratatui's tabs on the first row, a blank between two. A click on one has its target. Returns their width.
    pub fn tabs(&mut self, tabs: Vec<(SafeLine, ClickTarget)>, selected: Option<usize>) -> u16 {
        let mut x: u16 = 0;
        let mut titles = Vec::with_capacity(tabs.len());
        for (title, target) in tabs {
            let width = u16::try_from(title.width()).unwrap_or(u16::MAX);
            self.subarea(x, 0, width, 1).on_click(target);
            x = x.saturating_add(width).saturating_add(1);
            titles.push(title.into_styled(self.theme));
        }
        let tabs = Tabs::new(titles).select(selected).style(Style::new()).highlight_style(self.theme.cursor_style());
        tabs.divider(" ").padding("", "").render(self.area, self.buffer);
        x.saturating_sub(1)
    }

    /// Draws a line at the left end of a row; what does not fit is cut with `…`.
    pub fn line(&mut self, y: u16, line: impl Into<SafeLine>) {
        self.draw_line(y, &line.into().truncated(usize::from(self.area.width)), 0);
    }

    /// Draws a line at the right end of a row.
    pub fn line_right(&mut self, y: u16, line: impl Into<SafeLine>) {
        let line = line.into().truncated(usize::from(self.area.width));
        let x = self.area.width.saturating_sub(u16::try_from(line.width()).unwrap_or(u16::MAX));
        self.draw_line(y, &line, x);
    }

    fn draw_line(&mut self, y: u16, line: &SafeLine, x: u16) {
        if y < self.area.height {
            let line = line.styled(self.theme);
            self.buffer.set_line(self.area.x + x, self.area.y + y, &line, self.area.width.saturating_sub(x));
        }
    }

    /// Gives every cell the text color and the background of the theme.
    pub fn fill(&mut self) {
        let style = self.theme.base_style();
        if style != Style::new() {
            self.buffer.set_style(self.area, style);
        }
    }

    /// Clears text and colors.
    pub fn clear(&mut self) {
        Clear.render(self.area, self.buffer);
        self.fill();
    }

    /// Draws a horizontal rule.
    pub fn rule(&mut self, y: u16) {
        let mut line = SafeLine::default();
        line.push_glyphs(std::iter::repeat_n(('─', StyleRole::Dim), usize::from(self.area.width)));
        self.line(y, line);
    }

    /// Draws these rows in the style of the cursor.
    pub fn highlight_rows(&mut self, y: u16, height: u16) {
        let style = self.theme.cursor_style();
        let rows = Rect { y: self.area.y + y, height, ..self.area };
        self.buffer.set_style(rows.intersection(self.area), style);
    }
}
