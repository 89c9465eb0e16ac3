//! A part of the frame, and how text gets into its cells: the only place that writes to them.

use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use super::cells::Cells;
use super::text::{SafeText, fit};
use super::theme::{Ink, Theme, ascii};

/// Text that may be drawn: compiled in, made of figures, or sanitised.
pub trait Shown {
    fn shown(&self) -> &str;
}

impl Shown for &'static str {
    fn shown(&self) -> &str {
        self
    }
}

impl Shown for SafeText {
    fn shown(&self) -> &str {
        self.as_str()
    }
}

impl Shown for &SafeText {
    fn shown(&self) -> &str {
        self.as_str()
    }
}

/// A rectangle of the frame. Columns and rows count from its upper left corner; what is outside of it is not drawn.
pub struct Canvas<'a> {
    cells: &'a mut Cells,
    area: Rect,
    pub theme: Theme,
}

impl<'a> Canvas<'a> {
    pub fn new(cells: &'a mut Cells, theme: Theme) -> Canvas<'a> {
        let area = cells.area();
        Canvas { cells, area, theme }
    }

    /// A part of it.
    pub fn part(&mut self, x: u16, y: u16, width: u16, height: u16) -> Canvas<'_> {
        let wanted = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height };
        Canvas { area: self.area.intersection(wanted), cells: &mut *self.cells, theme: self.theme }
    }

    pub fn width(&self) -> u16 {
        self.area.width
    }

    pub fn height(&self) -> u16 {
        self.area.height
    }

    /// Left-aligned from column `x`, at most `width` cells; returns the column after it.
    pub fn text(&mut self, x: u16, y: u16, width: u16, text: impl Shown, ink: Ink) -> u16 {
        let style = self.theme.style(ink);
        self.styled(x, y, width, text.shown(), style)
    }

    /// The same to the end of the row.
    pub fn rest(&mut self, x: u16, y: u16, text: impl Shown, ink: Ink) -> u16 {
        let width = self.area.width.saturating_sub(x);
        self.text(x, y, width, text, ink)
    }

    /// Right-aligned in `width` cells from column `x`.
    pub fn right(&mut self, x: u16, y: u16, width: u16, text: impl Shown, ink: Ink) {
        let text = text.shown();
        let cells = u16::try_from(text.width()).unwrap_or(u16::MAX);
        let style = self.theme.style(ink);
        self.styled(x + width.saturating_sub(cells), y, width, text, style);
    }

    fn styled(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let width = width.min(self.area.width.saturating_sub(x));
        if y >= self.area.height || width == 0 {
            return x;
        }
        let fitting = fit(text, usize::from(width));
        let (left, top) = (self.area.x + x, self.area.y + y);
        // As nearly all text is: nobody need ask how wide these are.
        if fitting.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return x + self.cells.letters(left, top, fitting.chars(), style);
        }
        let end = if self.theme.is_ascii() && !fitting.is_ascii() {
            let plain: String = fitting.chars().map(as_ascii).collect();
            self.cells.text(left, top, &fit(&plain, usize::from(width)), width, style)
        } else {
            self.cells.text(left, top, &fitting, width, style)
        };
        end - self.area.x
    }

    /// One glyph of ours.
    pub fn glyph(&mut self, x: u16, y: u16, glyph: char, ink: Ink) {
        self.fill(x, y, 1, glyph, ink);
    }

    /// The same glyph over and over.
    pub fn fill(&mut self, x: u16, y: u16, width: u16, glyph: char, ink: Ink) {
        if y >= self.area.height {
            return;
        }
        let width = width.min(self.area.width.saturating_sub(x));
        let plain = if self.theme.is_ascii() && !glyph.is_ascii() { ascii(glyph) } else { glyph };
        let (left, top) = (self.area.x + x, self.area.y + y);
        self.cells.letters(left, top, std::iter::repeat_n(plain, usize::from(width)), self.theme.style(ink));
    }

    /// Nothing, whatever was drawn here before: its colours neither.
    pub fn clear(&mut self) {
        self.cells.clear(self.area);
    }

    /// A horizontal rule.
    pub fn rule(&mut self, y: u16) {
        self.fill(0, y, self.area.width, '─', Ink::Dim);
    }

    /// Shows that the cursor is on these rows.
    pub fn under_cursor(&mut self, y: u16, height: u16) {
        let style = self.theme.cursor();
        let rows = Rect { y: self.area.y + y, height, ..self.area };
        self.cells.restyle(rows.intersection(self.area), style);
    }
}

/// A letter that is not ASCII takes as many cells as before.
fn as_ascii(character: char) -> String {
    if character.is_ascii() {
        return character.to_string();
    }
    let cells = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
    if cells == 1 { ascii(character).to_string() } else { "?".repeat(cells) }
}
