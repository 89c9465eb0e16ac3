//! A drawn screen as an SVG picture.
//!
//! Text is text, a row in pieces with the length of their cells, so that it does not depend on the font. Blocks, shades, lines
//! and textures are shapes: the glyphs of most fonts leave gaps between rows.

use std::collections::BTreeMap;
use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use rustc_hash::FxHashMap;
use unicode_width::UnicodeWidthStr;

use super::theme::rgb::{DEFAULT_BACKGROUND, mixed, shown_colors};
use crate::state::theme_choice::Rgb;
use crate::units::SmallSort;

/// Units of a cell: the glyphs of DejaVu Sans Mono are 0.602 of its size wide.
const CELL_WIDTH: u32 = 9;
const CELL_HEIGHT: u32 = 18;
const FONT_SIZE: f32 = 14.95;
/// From the top of a cell to the base line of text.
const ASCENT: u32 = 14;
/// Around the screen.
const MARGIN: u32 = 8;

/// The screen as a document of its own, of the same bytes for the same buffer.
pub fn svg(buffer: &Buffer) -> String {
    let mut picture = Picture::default();
    for y in 0..buffer.area.height {
        picture.add_row(buffer, y);
    }
    picture.document(buffer.area)
}

/// How text is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TextStyle {
    color: Rgb,
    modifier: Modifier,
}

/// A piece of text in one style.
struct Piece {
    x: u16,
    cells: u16,
    text: String,
    is_ascii: bool,
    style: TextStyle,
}

#[derive(Default)]
struct Picture {
    /// Outlines of the filled areas of each color, backgrounds first
    backgrounds: BTreeMap<Rgb, String>,
    shapes: BTreeMap<Rgb, String>,
    /// The number of each style of text
    classes: FxHashMap<TextStyle, usize>,
    text: String,
}

impl Picture {
    fn add_row(&mut self, buffer: &Buffer, y: u16) {
        let mut piece: Option<Piece> = None;
        let mut hidden = 0;
        let mut background = Run::default();
        for x in 0..buffer.area.width {
            let Some(cell) = buffer.cell((buffer.area.x + x, buffer.area.y + y)) else { break };
            let (foreground, behind) = shown_colors(cell.style());
            self.add_background(background.extend(x, behind), y);
            // The cells behind a wide character.
            if hidden > 0 {
                hidden -= 1;
                continue;
            }
            let symbol = cell.symbol();
            if let Some((color, outline)) = shape(symbol, foreground, behind) {
                self.add_text(piece.take(), y);
                let path = self.shapes.entry(color).or_default();
                outline.write(path, place(x, y));
                continue;
            }
            let cells = u16::try_from(symbol.width().max(1)).unwrap_or(1);
            hidden = cells - 1;
            let style = text_style(cell, foreground);
            match &mut piece {
                // A glyph of another font may have another width: it is a piece of its own.
                Some(open) if open.style == style && symbol.is_ascii() && open.is_ascii => {
                    open.cells += cells;
                    open.text.push_str(symbol);
                }
                _ => {
                    self.add_text(piece.take(), y);
                    piece = Some(Piece { x, cells, text: symbol.to_owned(), is_ascii: symbol.is_ascii(), style });
                }
            }
        }
        self.add_text(piece, y);
        self.add_background(background.end(buffer.area.width), y);
    }

    fn add_background(&mut self, run: Option<(u16, u16, Rgb)>, y: u16) {
        if let Some((from, until, color)) = run
            && color != DEFAULT_BACKGROUND
        {
            let (left, top) = place(from, y);
            let path = self.backgrounds.entry(color).or_default();
            rectangle(path, (left, top), u32::from(until - from) * CELL_WIDTH, CELL_HEIGHT);
        }
    }

    fn add_text(&mut self, piece: Option<Piece>, y: u16) {
        let Some(Piece { mut x, mut cells, text, style, .. }) = piece else { return };
        let mut text = text.as_str();
        if !style.modifier.contains(Modifier::UNDERLINED) {
            let begin = text.len() - text.trim_start_matches(' ').len();
            let end = text.len() - text.trim_end_matches(' ').len();
            text = text.trim_matches(' ');
            x += u16::try_from(begin).unwrap_or(0);
            cells = cells.saturating_sub(u16::try_from(begin + end).unwrap_or(0));
        }
        if text.is_empty() {
            return;
        }
        let count = self.classes.len();
        let class = *self.classes.entry(style).or_insert(count);
        let (left, top) = place(x, y);
        let (baseline, length) = (top + ASCENT, u32::from(cells) * CELL_WIDTH);
        let escaped = escaped(text);
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.text,
            "<text class=\"t{class}\" x=\"{left}\" y=\"{baseline}\" textLength=\"{length}\">{escaped}</text>"
        );
    }

    fn document(self, area: Rect) -> String {
        let (width, height) =
            (u32::from(area.width) * CELL_WIDTH + 2 * MARGIN, u32::from(area.height) * CELL_HEIGHT + 2 * MARGIN);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
             <style>\ntext{{font:{FONT_SIZE}px 'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;white-space:pre}}\n"
        );
        let mut classes: Vec<(TextStyle, usize)> = self.classes.into_iter().collect();
        classes.small_sort_by_key(|class| class.1);
        for (style, class) in classes {
            let _ = write!(svg, ".t{class}{{fill:{}", hexadecimal(style.color));
            for (modifier, words) in [
                (Modifier::BOLD, ";font-weight:bold"),
                (Modifier::ITALIC, ";font-style:italic"),
                (Modifier::UNDERLINED, ";text-decoration:underline"),
            ] {
                svg.push_str(if style.modifier.contains(modifier) { words } else { "" });
            }
            svg.push_str("}\n");
        }
        let behind = hexadecimal(DEFAULT_BACKGROUND);
        let _ = writeln!(svg, "</style>\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{behind}\"/>");
        for (color, outline) in self.backgrounds.into_iter().chain(self.shapes) {
            let _ = writeln!(svg, "<path fill=\"{}\" d=\"{outline}\"/>", hexadecimal(color));
        }
        svg + &self.text + "</svg>\n"
    }
}

/// Neighboring cells of one background.
#[derive(Default)]
struct Run(Option<(u16, Rgb)>);

impl Run {
    /// Begins or continues a run at this column; returns the run that ends before it.
    fn extend(&mut self, x: u16, color: Rgb) -> Option<(u16, u16, Rgb)> {
        match self.0 {
            Some((_, before)) if before == color => None,
            before => {
                self.0 = Some((x, color));
                before.map(|(from, color)| (from, x, color))
            }
        }
    }

    fn end(self, x: u16) -> Option<(u16, u16, Rgb)> {
        self.0.map(|(from, color)| (from, x, color))
    }
}

fn text_style(cell: &Cell, color: Rgb) -> TextStyle {
    let modifier = cell.modifier & (Modifier::BOLD | Modifier::ITALIC | Modifier::UNDERLINED);
    TextStyle { color, modifier }
}

/// The upper left corner of a cell.
fn place(x: u16, y: u16) -> (u32, u32) {
    (MARGIN + u32::from(x) * CELL_WIDTH, MARGIN + u32::from(y) * CELL_HEIGHT)
}

/// The outline of a glyph that is drawn as a shape.
enum Outline {
    /// Left, top, width and height inside the cell
    Rectangles(&'static [(u32, u32, u32, u32)]),
    /// The lower eighths
    Lower(u32),
    /// Bands from the lower left to the upper right corner, from the upper left to the lower right one
    Diagonals(bool, bool),
}

/// The middle of a cell, and the rest of it from there.
const MIDDLE_X: u32 = CELL_WIDTH / 2;
const MIDDLE_Y: u32 = CELL_HEIGHT / 2;
const RIGHT: (u32, u32, u32, u32) = (MIDDLE_X, MIDDLE_Y, CELL_WIDTH - MIDDLE_X, 1);
const LEFT: (u32, u32, u32, u32) = (0, MIDDLE_Y, MIDDLE_X + 1, 1);
const UP: (u32, u32, u32, u32) = (MIDDLE_X, 0, 1, MIDDLE_Y + 1);
const DOWN: (u32, u32, u32, u32) = (MIDDLE_X, MIDDLE_Y, 1, CELL_HEIGHT - MIDDLE_Y);

/// Color and outline of a glyph; `None` for text.
fn shape(symbol: &str, foreground: Rgb, background: Rgb) -> Option<(Rgb, Outline)> {
    let mut characters = symbol.chars();
    let (character, None) = (characters.next()?, characters.next()) else { return None };
    let lines = |parts| Some((foreground, Outline::Rectangles(parts)));
    match character {
        '▁'..='█' => Some((foreground, Outline::Lower(u32::from(character) - u32::from('▁') + 1))),
        '░' => Some((mixed(background, foreground, 0.25), Outline::Lower(8))),
        '▒' => Some((mixed(background, foreground, 0.5), Outline::Lower(8))),
        '▓' => Some((mixed(background, foreground, 0.75), Outline::Lower(8))),
        '╱' => Some((foreground, Outline::Diagonals(true, false))),
        '╲' => Some((foreground, Outline::Diagonals(false, true))),
        '╳' => Some((foreground, Outline::Diagonals(true, true))),
        '─' => lines(&[LEFT, RIGHT]),
        '│' => lines(&[UP, DOWN]),
        '┌' => lines(&[RIGHT, DOWN]),
        '┐' => lines(&[LEFT, DOWN]),
        '└' => lines(&[RIGHT, UP]),
        '┘' => lines(&[LEFT, UP]),
        '├' => lines(&[RIGHT, UP, DOWN]),
        '┤' => lines(&[LEFT, UP, DOWN]),
        '┬' => lines(&[LEFT, RIGHT, DOWN]),
        '┴' => lines(&[LEFT, RIGHT, UP]),
        '┼' => lines(&[LEFT, RIGHT, UP, DOWN]),
        _ => None,
    }
}

impl Outline {
    fn write(&self, path: &mut String, (left, top): (u32, u32)) {
        match *self {
            Outline::Rectangles(parts) => {
                for &(x, y, width, height) in parts {
                    rectangle(path, (left + x, top + y), width, height);
                }
            }
            Outline::Lower(eighths) => {
                let height = (CELL_HEIGHT * eighths).div_ceil(8);
                rectangle(path, (left, top + CELL_HEIGHT - height), CELL_WIDTH, height);
            }
            Outline::Diagonals(rising, falling) => {
                let (width, height) = (CELL_WIDTH - 2, CELL_HEIGHT);
                if rising {
                    let _ = write!(path, "M{left} {}l{width}-{height}h2l-{width} {height}z", top + height);
                }
                if falling {
                    let _ = write!(path, "M{left} {top}l{width} {height}h2l-{width}-{height}z");
                }
            }
        }
    }
}

fn rectangle(path: &mut String, (left, top): (u32, u32), width: u32, height: u32) {
    let _ = write!(path, "M{left} {top}h{width}v{height}h-{width}z");
}

fn hexadecimal([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Text of an XML document, which may not contain control characters.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Color, Style};

    use super::*;

    fn buffer(lines: &[(&str, Style)]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, u16::try_from(lines.len()).unwrap()));
        for (y, (text, style)) in (0..).zip(lines) {
            buffer.set_string(0, y, text, *style);
        }
        buffer
    }

    #[test]
    fn the_largest_terminal_has_a_picture() {
        for (columns, rows) in [(u16::MAX, 1), (1, u16::MAX)] {
            let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
            buffer.set_string(columns - 1, rows - 1, "x", Style::new());
            let (left, top) = place(columns - 1, rows - 1);
            let picture = svg(&buffer);
            assert!(picture.contains(&format!("x=\"{left}\" y=\"{}\"", top + ASCENT)), "{columns}x{rows}");
        }
    }

    #[test]
    fn text_has_the_length_of_its_cells_and_is_escaped() {
        let picture = svg(&buffer(&[(" a<b&", Style::new()), ("漢x", Style::new().add_modifier(Modifier::BOLD))]));
        assert!(picture.contains("textLength=\"36\">a&lt;b&amp;</text>"), "{picture}");
        assert!(picture.contains("textLength=\"18\">漢</text>"), "two cells: {picture}");
        assert!(picture.contains("font-weight:bold") && picture.ends_with("</svg>\n"));
    }

    #[test]
    fn blocks_are_shapes_and_reversed_cells_have_a_background() {
        let reversed = Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::REVERSED);
        let picture = svg(&buffer(&[("▄▄", Style::new().fg(Color::Rgb(9, 8, 7))), ("x", reversed)]));
        assert!(picture.contains("<path fill=\"#090807\" d=\"M8 17h9v9h-9zM17 17h9v9h-9z\"/>"), "{picture}");
        assert!(picture.contains("<path fill=\"#010203\" d=\"M8 26h9v18h-9z\"/>"), "{picture}");
        assert!(!picture.contains('▄'));
    }
}
