//! A clipped rectangle of the frame. Only this file writes to the cells.

use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use super::cell_buffer::CellBuffer;
use super::safe_text::SafeText;
use super::text::truncate;
use super::theme::{StyleRole, Theme, ascii_fallback};

/// Text that may be drawn: a literal or sanitized text.
pub trait DisplayText {
    fn as_display_str(&self) -> &str;
}

impl DisplayText for &'static str {
    fn as_display_str(&self) -> &str {
        self
    }
}

impl DisplayText for SafeText {
    fn as_display_str(&self) -> &str {
        self.as_str()
    }
}

impl DisplayText for &SafeText {
    fn as_display_str(&self) -> &str {
        self.as_str()
    }
}

/// A rectangle of the frame. Columns and rows are relative to its upper left corner; drawing outside has no effect.
pub struct Canvas<'a> {
    cells: &'a mut CellBuffer,
    area: Rect,
    pub theme: Theme,
}

impl<'a> Canvas<'a> {
    pub fn new(cells: &'a mut CellBuffer, theme: Theme) -> Canvas<'a> {
        let area = cells.area();
        Canvas { cells, area, theme }
    }

    /// A rectangle inside this one.
    pub fn subarea(&mut self, x: u16, y: u16, width: u16, height: u16) -> Canvas<'_> {
        let wanted = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height };
        Canvas { area: self.area.intersection(wanted), cells: &mut *self.cells, theme: self.theme }
    }

    pub fn width(&self) -> u16 {
        self.area.width
    }

    pub fn height(&self) -> u16 {
        self.area.height
    }

    /// Draws left-aligned text of at most `width` cells; returns the column after it.
    pub fn text(&mut self, x: u16, y: u16, width: u16, text: impl DisplayText, role: StyleRole) -> u16 {
        let style = self.theme.style(role);
        self.draw_styled(x, y, width, text.as_display_str(), style)
    }

    /// Draws text up to the end of the row; returns the column after it.
    pub fn text_to_end(&mut self, x: u16, y: u16, text: impl DisplayText, role: StyleRole) -> u16 {
        let width = self.area.width.saturating_sub(x);
        self.text(x, y, width, text, role)
    }

    /// Draws text right-aligned in `width` cells from column `x`.
    pub fn text_right(&mut self, x: u16, y: u16, width: u16, text: impl DisplayText, role: StyleRole) {
        let text = text.as_display_str();
        let cells = u16::try_from(text.width()).unwrap_or(u16::MAX);
        let style = self.theme.style(role);
        self.draw_styled(x + width.saturating_sub(cells), y, width, text, style);
    }

    fn draw_styled(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let width = width.min(self.area.width.saturating_sub(x));
        if y >= self.area.height || width == 0 {
            return x;
        }
        let fitting = truncate(text, usize::from(width));
        let (left, top) = (self.area.x + x, self.area.y + y);
        // Fast path for ASCII, one cell per character.
        if fitting.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return x + self.cells.set_chars(left, top, fitting.chars(), style);
        }
        let end = if self.theme.is_ascii() && !fitting.is_ascii() {
            let plain: String = fitting.chars().map(ascii_fallback_text).collect();
            self.cells.set_text(left, top, &truncate(&plain, usize::from(width)), width, style)
        } else {
            self.cells.set_text(left, top, &fitting, width, style)
        };
        end - self.area.x
    }

    /// Draws one glyph.
    pub fn glyph(&mut self, x: u16, y: u16, glyph: char, role: StyleRole) {
        self.fill(x, y, 1, glyph, role);
    }

    /// Repeats a glyph.
    pub fn fill(&mut self, x: u16, y: u16, width: u16, glyph: char, role: StyleRole) {
        if y >= self.area.height {
            return;
        }
        let width = width.min(self.area.width.saturating_sub(x));
        let plain = if self.theme.is_ascii() && !glyph.is_ascii() { ascii_fallback(glyph) } else { glyph };
        let (left, top) = (self.area.x + x, self.area.y + y);
        self.cells.set_chars(left, top, std::iter::repeat_n(plain, usize::from(width)), self.theme.style(role));
    }

    /// Clears text and colors.
    pub fn clear(&mut self) {
        self.cells.clear(self.area);
    }

    /// Draws a horizontal rule.
    pub fn rule(&mut self, y: u16) {
        self.fill(0, y, self.area.width, '─', StyleRole::Dim);
    }

    /// Draws these rows in the style of the cursor.
    pub fn highlight_rows(&mut self, y: u16, height: u16) {
        let style = self.theme.cursor_style();
        let rows = Rect { y: self.area.y + y, height, ..self.area };
        self.cells.set_style(rows.intersection(self.area), style);
    }
}

/// Replaces a non-ASCII character by ASCII of the same width.
fn ascii_fallback_text(character: char) -> String {
    if character.is_ascii() {
        return character.to_string();
    }
    let cells = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
    if cells == 1 { ascii_fallback(character).to_string() } else { "?".repeat(cells) }
}
