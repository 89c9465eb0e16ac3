//! A backend of ratatui that encodes the changed cells as ANSI sequences, in few bytes for slow connections. Differs from
//! ratatui's for crossterm: within a row only the column is set, or the few unchanged characters on the way are printed again;
//! only the color that changes is set, the 16 colors have their short sequences, and one sequence resets everything at the end.
//! The bytes stay in memory until the terminal accepts them.

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, MoveToColumn, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Print, ResetColor, SetAttribute, SetBackgroundColor, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType as CrosstermClearType};
use ratatui::backend::{Backend, ClearType, IntoCrossterm, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use ratatui::text::Span;

/// The encoded bytes that have not been written, and the size and content of the terminal.
#[derive(Debug)]
pub struct AnsiBackend {
    pub pending: Vec<u8>,
    size: Size,
    shown: ShownText,
}

impl AnsiBackend {
    /// Of a blank terminal.
    pub fn new(pending: Vec<u8>, size: (u16, u16)) -> AnsiBackend {
        AnsiBackend { pending, size: size.into(), shown: ShownText::blank(size) }
    }
}

/// The ASCII characters on the terminal, which can be printed again in place of a jump over them.
#[derive(Debug)]
struct ShownText {
    width: u16,
    /// Row by row; `None`: another character, or a part of one
    cells: Vec<Option<(u8, CellStyle)>>,
}

impl ShownText {
    fn blank((width, height): (u16, u16)) -> ShownText {
        ShownText { width, cells: vec![Some((b' ', PLAIN)); usize::from(width) * usize::from(height)] }
    }

    fn index(&self, x: u16, y: u16) -> usize {
        usize::from(y) * usize::from(self.width) + usize::from(x)
    }

    fn set(&mut self, x: u16, y: u16, cell: &Cell) {
        let ascii = match cell.symbol().as_bytes() {
            &[byte @ b' '..=b'~'] => Some((byte, (cell.fg, cell.bg, cell.modifier))),
            _ => None,
        };
        let (at, row_end) = (self.index(x, y), self.index(self.width, y));
        let width = if ascii.is_some() { 1 } else { Span::raw(cell.symbol()).width().max(1) };
        for shown in self.cells.get_mut(at..(at + width).min(row_end)).into_iter().flatten() {
            *shown = ascii;
        }
    }

    /// The characters between the cells `last`, which has been printed in this style, and `next` of a row, if all have that style
    /// and take fewer bytes than a jump. After another character than ASCII the cursor may be elsewhere: a jump corrects that.
    fn between(&self, y: u16, last: u16, next: u16, style: CellStyle) -> Option<impl Iterator<Item = u8>> {
        // ESC [ 12 G
        let jump = if next < 9 { 4 } else { 5 };
        let cells = self.cells.get(self.index(last, y)..self.index(next, y)).filter(|cells| cells.len() <= jump)?;
        let is_same = |cell: &Option<(u8, CellStyle)>| cell.is_some_and(|(_, known)| known == style);
        cells.iter().all(is_same).then(|| cells.iter().skip(1).flatten().map(|&(byte, _)| byte))
    }
}

impl Backend for AnsiBackend {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        encode(&mut self.pending, &mut self.shown, content)
    }

    /// Hidden once, when the terminal is initialized; ratatui asks for it in each frame.
    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        queue!(self.pending, Show)
    }

    /// Unknown, and not needed by a fixed viewport.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        queue!(self.pending, MoveTo(x, y), Hide)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.shown = ShownText::blank((self.size.width, self.size.height));
        queue!(self.pending, ResetColor, Clear(CrosstermClearType::All))
    }

    /// The screen is never cleared in part.
    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::ZERO })
    }

    /// The bytes are written by `Terminal`, which does not block.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Each with the attributes that begin and end it. Bold and dim end together.
const MODIFIERS: [(Modifier, Attribute, Attribute); 9] = [
    (Modifier::BOLD, Attribute::Bold, Attribute::NormalIntensity),
    (Modifier::DIM, Attribute::Dim, Attribute::NormalIntensity),
    (Modifier::ITALIC, Attribute::Italic, Attribute::NoItalic),
    (Modifier::UNDERLINED, Attribute::Underlined, Attribute::NoUnderline),
    (Modifier::SLOW_BLINK, Attribute::SlowBlink, Attribute::NoBlink),
    (Modifier::RAPID_BLINK, Attribute::RapidBlink, Attribute::NoBlink),
    (Modifier::REVERSED, Attribute::Reverse, Attribute::NoReverse),
    (Modifier::HIDDEN, Attribute::Hidden, Attribute::NoHidden),
    (Modifier::CROSSED_OUT, Attribute::CrossedOut, Attribute::NotCrossedOut),
];
const INTENSITY: Modifier = Modifier::BOLD.union(Modifier::DIM);

/// Encodes cells with their column and row, which are in reading order.
fn encode<'a>(
    out: &mut impl Write,
    shown: &mut ShownText,
    cells: impl IntoIterator<Item = (u16, u16, &'a Cell)>,
) -> io::Result<()> {
    let mut style = PLAIN;
    let mut last: Option<(u16, u16)> = None;
    for (x, y, cell) in cells {
        match last {
            Some((before, row)) if row == y && before.checked_add(1) == Some(x) => {}
            // Terminals differ in the position of the cursor after a wide character: it is always set.
            Some((before, row)) if row == y => match shown.between(y, before, x, style) {
                Some(mut between) => between.try_for_each(|byte| out.write_all(&[byte]))?,
                None => queue!(out, MoveToColumn(x))?,
            },
            _ => queue!(out, MoveTo(x, y))?,
        }
        last = Some((x, y));
        style = encode_style(out, style, cell)?;
        queue!(out, Print(cell.symbol()))?;
        shown.set(x, y, cell);
    }
    if last.is_some() { queue!(out, SetAttribute(Attribute::Reset)) } else { Ok(()) }
}

/// Foreground, background and modifiers.
type CellStyle = (Color, Color, Modifier);

const PLAIN: CellStyle = (Color::Reset, Color::Reset, Modifier::empty());

/// Encodes the change to the style of a cell, and returns that style.
fn encode_style(out: &mut impl Write, before: CellStyle, cell: &Cell) -> io::Result<CellStyle> {
    let (foreground, background, modifier) = before;
    if cell.modifier != modifier {
        encode_modifiers(out, modifier, cell.modifier)?;
    }
    if cell.fg != foreground {
        match ansi_color_number(cell.fg) {
            Some(number) => write!(out, "\x1b[3{number}m")?,
            None => queue!(out, SetForegroundColor(cell.fg.into_crossterm()))?,
        }
    }
    if cell.bg != background {
        match ansi_color_number(cell.bg) {
            Some(number) => write!(out, "\x1b[4{number}m")?,
            None => queue!(out, SetBackgroundColor(cell.bg.into_crossterm()))?,
        }
    }
    Ok((cell.fg, cell.bg, cell.modifier))
}

/// A screen as lines with ANSI sequences, for `cat` and `less -R`.
pub fn ansi_text(buffer: &Buffer) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let cells: Vec<&Cell> = (buffer.area.left()..buffer.area.right()).filter_map(|x| buffer.cell((x, y))).collect();
        let is_blank = |cell: &Cell| cell.symbol() == " " && (cell.fg, cell.bg, cell.modifier) == PLAIN;
        let end = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
        let (mut style, mut hidden) = (PLAIN, 0);
        for cell in cells.into_iter().take(end) {
            // The cells behind a wide character.
            if hidden > 0 {
                hidden -= 1;
                continue;
            }
            style = encode_style(&mut out, style, cell)?;
            queue!(out, Print(cell.symbol()))?;
            hidden = Span::raw(cell.symbol()).width().saturating_sub(1);
        }
        if style != PLAIN {
            queue!(out, SetAttribute(Attribute::Reset))?;
        }
        out.push(b'\n');
    }
    Ok(out)
}

/// The number of one of the 8 basic colors. Crossterm encodes them as `38;5;1`, which some terminals do not support: the console
/// of Linux before 3.16 reads it as underlined, blinking and bold.
fn ansi_color_number(color: Color) -> Option<u8> {
    use Color::{Black, Blue, Cyan, Gray, Green, Magenta, Red, Yellow};
    let all = [Black, Red, Green, Yellow, Blue, Magenta, Cyan, Gray];
    all.into_iter().zip(0..).find_map(|(basic, number)| (basic == color).then_some(number))
}

fn encode_modifiers(out: &mut impl Write, from: Modifier, to: Modifier) -> io::Result<()> {
    let (removed, mut added) = (from - to, to - from);
    let mut ended = None;
    for (_, _, end) in MODIFIERS.iter().filter(|(modifier, ..)| removed.contains(*modifier)) {
        if ended.replace(*end) != Some(*end) {
            queue!(out, SetAttribute(*end))?;
        }
    }
    if removed.intersects(INTENSITY) {
        added |= to & INTENSITY;
    }
    for (_, begin, _) in MODIFIERS.iter().filter(|(modifier, ..)| added.contains(*modifier)) {
        queue!(out, SetAttribute(*begin))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::backend::CrosstermBackend;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    const SIZE: (u16, u16) = (24, 6);

    fn cell() -> impl Strategy<Value = (u16, u16, &'static str, Style)> {
        let color = prop::sample::select(vec![Color::Reset, Color::Red, Color::Gray, Color::Indexed(33), Color::Indexed(196)]);
        let modifier = prop::sample::select(vec![
            Modifier::empty(),
            Modifier::BOLD,
            Modifier::DIM,
            INTENSITY,
            Modifier::REVERSED,
            Modifier::BOLD | Modifier::UNDERLINED,
            Modifier::ITALIC | Modifier::REVERSED,
        ]);
        let symbol = prop::sample::select(vec!["a", "7", "▓", "·", "漢", " "]);
        let style =
            (color.clone(), color, modifier).prop_map(|(fg, bg, modifier)| Style::new().fg(fg).bg(bg).add_modifier(modifier));
        (0..SIZE.0 - 1, 0..SIZE.1, symbol, style)
    }

    fn between(frames: &[Buffer], mut draw: impl FnMut(Vec<(u16, u16, &Cell)>) -> io::Result<()>) {
        let mut last = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
        for frame in frames {
            draw(last.diff(frame)).unwrap();
            last = frame.clone();
        }
    }

    proptest! {
        #[test]
        fn the_screen_is_the_same_as_with_the_backend_of_ratatui(
            changes in prop::collection::vec(prop::collection::vec(cell(), 0..20), 1..5),
        ) {
            let mut frames = vec![Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1))];
            for cells in changes {
                let mut frame = frames[frames.len() - 1].clone();
                for (x, y, symbol, style) in cells {
                    frame.set_string(x, y, symbol, style);
                }
                frames.push(frame);
            }
            let (mut encoded, mut plain, mut shown) = (Vec::new(), Vec::new(), ShownText::blank(SIZE));
            between(&frames, |cells| encode(&mut encoded, &mut shown, cells));
            let mut backend = CrosstermBackend::new(&mut plain);
            between(&frames, |cells| backend.draw(cells.into_iter()));
            let screen = |bytes: &[u8]| {
                let mut parser = vt100::Parser::new(SIZE.1.try_into().unwrap(), SIZE.0.try_into().unwrap(), 0);
                parser.process(bytes);
                let cell = |at: u16| {
                    let cell = parser.screen().cell(at / SIZE.0, at % SIZE.0).unwrap();
                    // A blank that was printed and one that never was look the same.
                    let text = if cell.has_contents() || cell.is_wide_continuation() { cell.contents() } else { " " };
                    (text.to_owned(), cell.fgcolor(), cell.bgcolor(), (cell.bold(), cell.dim(), cell.italic(), cell.underline(), cell.inverse()))
                };
                (0..SIZE.0 * SIZE.1).map(cell).collect::<Vec<_>>()
            };
            prop_assert_eq!(screen(&encoded), screen(&plain));
            prop_assert!(encoded.len() <= plain.len());
        }
    }

    #[test]
    fn basic_colors_have_their_short_sequences() {
        let mut bytes = Vec::new();
        let cells = [(Color::Black, Color::Yellow), (Color::Red, Color::Reset), (Color::Indexed(196), Color::Reset)];
        let cells = cells.map(|(fg, bg)| {
            let mut cell = Cell::new("a");
            cell.set_style(Style::new().fg(fg).bg(bg));
            cell
        });
        let cells = (0..).zip(&cells).map(|(x, cell)| (x, 0, cell));
        encode(&mut bytes, &mut ShownText::blank(SIZE), cells).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "\x1b[1;1H\x1b[30m\x1b[43ma\x1b[31m\x1b[49ma\x1b[38;5;196ma\x1b[0m");
    }

    #[test]
    fn the_text_of_a_screen_shows_the_same_as_the_screen() {
        let mut frame = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
        frame.set_string(1, 0, "漢 ab", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        frame.set_string(0, 2, "x", Style::new().bg(Color::Indexed(33)));
        let text = ansi_text(&frame).unwrap();
        let mut parser = vt100::Parser::new(SIZE.1.try_into().unwrap(), SIZE.0.try_into().unwrap(), 0);
        parser.process(String::from_utf8(text).unwrap().replace('\n', "\r\n").trim_end().as_bytes());
        let mut backend = AnsiBackend::new(Vec::new(), SIZE);
        let blank = Buffer::empty(frame.area);
        backend.draw(blank.diff(&frame).into_iter()).unwrap();
        let mut screen = vt100::Parser::new(SIZE.1.try_into().unwrap(), SIZE.0.try_into().unwrap(), 0);
        screen.process(&backend.pending);
        let cell = |parser: &vt100::Parser, row, column| parser.screen().cell(row, column).cloned();
        for (row, column) in [(0, 1), (0, 4), (0, 5), (2, 0)] {
            assert_eq!(cell(&parser, row, column), cell(&screen, row, column), "row {row}, column {column}");
        }
        assert_eq!(parser.screen().contents(), screen.screen().contents());
    }

    #[test]
    fn an_unchanged_frame_is_empty() {
        let mut bytes = Vec::new();
        encode(&mut bytes, &mut ShownText::blank(SIZE), []).unwrap();
        assert_eq!(bytes, b"");
    }

    #[test]
    fn few_unchanged_characters_are_printed_again() {
        let frame = |text: &str, dim: &str| {
            let mut frame = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
            frame.set_string(0, 0, text, Style::new());
            frame.set_string(18, 0, dim, Style::new().add_modifier(Modifier::DIM));
            frame
        };
        let frames = [frame("12.3 4567890 漢 1", "ab"), frame("12.4 4567891 漢 2", "ab"), frame("13.5 4567891 漢 2", "bb")];
        let (mut shown, mut drawn) = (ShownText::blank(SIZE), Vec::new());
        between(&frames, |cells| {
            let mut bytes = Vec::new();
            encode(&mut bytes, &mut shown, cells)?;
            drawn.push(String::from_utf8(bytes).unwrap());
            Ok(())
        });
        // Not over seven characters, and not over a wide one.
        assert_eq!(drawn[1..], ["\x1b[1;4H4\x1b[12G1\x1b[17G2\x1b[0m", "\x1b[1;2H3.5\x1b[19G\x1b[2mb\x1b[0m"]);
    }
}
