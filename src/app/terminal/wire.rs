//! Frames into bytes, as few as may be: it remembers what stands on the terminal, goes the shortest way to the next change,
//! and changes no colour for a blank. On a slow line that is the difference between a screen and a slide show.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

/// A terminal at the other end of a writer.
pub struct Wire<W> {
    out: W,
    width: u16,
    height: u16,
    /// What stands there, row by row
    cells: Vec<Standing>,
    /// Where the cursor is; `None` where that is not certain
    cursor: Option<(u16, u16)>,
    style: Look,
    cursor_shown: Option<bool>,
}

/// What stands in a cell; `None` where that is not one character of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    letter: Option<char>,
    look: Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

const PLAIN: Look = Look { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };
const BLANK: Standing = Standing { letter: Some(' '), look: PLAIN };

/// What shows on a blank too.
const ON_BLANKS: Modifier = Modifier::REVERSED.union(Modifier::UNDERLINED).union(Modifier::CROSSED_OUT);

/// A shorter run of blanks is written as blanks.
const BLANKS: usize = 6;

/// Cells that stand between two changes are written again rather than stepped over, if there are no more bytes to it.
const REWRITTEN: u16 = 4;

impl<W: Write> Wire<W> {
    pub fn new(out: W, width: u16, height: u16) -> Wire<W> {
        let mut wire = Wire { out, width, height, cells: Vec::new(), cursor: None, style: PLAIN, cursor_shown: None };
        wire.forget(width, height);
        wire
    }

    /// Another size, or another hand on the terminal: nothing of what stands there is certain.
    pub fn forget(&mut self, width: u16, height: u16) {
        (self.width, self.height) = (width, height);
        self.cells.clear();
        self.cells.resize(usize::from(width) * usize::from(height), Standing { letter: None, look: PLAIN });
        self.cursor = None;
        self.cursor_shown = None;
    }

    fn at(&self, x: u16, y: u16) -> Option<Standing> {
        if x >= self.width {
            return None;
        }
        self.cells.get(usize::from(y) * usize::from(self.width) + usize::from(x)).copied()
    }

    fn note(&mut self, x: u16, y: u16, standing: Standing) {
        if x < self.width
            && let Some(cell) = self.cells.get_mut(usize::from(y) * usize::from(self.width) + usize::from(x))
        {
            *cell = standing;
        }
    }

    /// Takes the cursor there, the shortest way.
    fn go(&mut self, x: u16, y: u16) -> io::Result<()> {
        let Some((at_x, at_y)) = self.cursor.filter(|&at| at != (x, y)) else {
            if self.cursor.is_none() {
                write!(self.out, "\x1b[{};{}H", y + 1, x + 1)?;
                self.cursor = Some((x, y));
            }
            return Ok(());
        };
        let absolute = format!("\x1b[{};{}H", y + 1, x + 1);
        let best = match y.checked_sub(at_y) {
            Some(0) if x > at_x => self.rewritten(at_x, x, y).unwrap_or_else(|| forward(x - at_x)),
            Some(down @ 1..=4) => {
                let from_start = format!("\r{}{}", "\n".repeat(usize::from(down)), forward(x));
                if x == at_x { "\n".repeat(usize::from(down)) } else { from_start }
            }
            _ => absolute.clone(),
        };
        let best = if best.len() <= absolute.len() { best } else { absolute };
        self.out.write_all(best.as_bytes())?;
        self.cursor = Some((x, y));
        Ok(())
    }

    /// What stands between here and there, where it can be written again as it is.
    fn rewritten(&self, from: u16, to: u16, y: u16) -> Option<String> {
        if to - from > REWRITTEN {
            return None;
        }
        let cells = (from..to).map(|x| self.at(x, y).filter(|cell| self.shows(*cell)).and_then(|cell| cell.letter));
        let text: String = cells.collect::<Option<_>>()?;
        (text.len() <= forward(to - from).len()).then_some(text)
    }

    /// Whether the cell looks so when it is written in the present style.
    fn shows(&self, cell: Standing) -> bool {
        let blank = cell.letter == Some(' ') && !cell.look.modifier.intersects(ON_BLANKS);
        let same_ground = cell.look.bg == self.style.bg && !self.style.modifier.intersects(ON_BLANKS);
        cell.look == self.style || blank && same_ground
    }

    fn put(&mut self, x: u16, y: u16, symbol: &str, cell: Standing) -> io::Result<()> {
        self.go(x, y)?;
        if !self.shows(cell) {
            self.out.write_all(change(self.style, cell.look).as_bytes())?;
            self.style = cell.look;
        }
        self.out.write_all(symbol.as_bytes())?;
        self.note(x, y, cell);
        if cell.letter.is_none() {
            self.note(x + 1, y, cell);
        }
        // Behind the last column, and behind what may be wide, every terminal has its own idea.
        self.cursor = (cell.letter.is_some() && x + 1 < self.width).then_some((x + 1, y));
        Ok(())
    }

    /// Blanks in one go.
    fn blank(&mut self, x: u16, y: u16, count: usize) -> io::Result<()> {
        let end = x + u16::try_from(count).unwrap_or(0);
        let rest_is_blank = (end..self.width).all(|x| self.at(x, y) == Some(BLANK));
        if count < BLANKS && !(rest_is_blank && count > 3) {
            for x in x..end {
                self.put(x, y, " ", BLANK)?;
            }
            return Ok(());
        }
        self.go(x, y)?;
        if !self.shows(BLANK) {
            self.out.write_all(change(self.style, PLAIN).as_bytes())?;
            self.style = PLAIN;
        }
        if rest_is_blank {
            write!(self.out, "\x1b[K")?
        } else {
            write!(self.out, "\x1b[{count}X")?
        }
        (x..end).for_each(|x| self.note(x, y, BLANK));
        Ok(())
    }
}

impl<W: Write> Backend for Wire<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut blanks: Option<(u16, u16, usize)> = None;
        for (x, y, cell) in content {
            let standing = standing(cell);
            if standing == BLANK {
                // Blanks that stand there already do not end a run.
                if let Some((begin, row, count)) = blanks.filter(|run| run.1 == y)
                    && (begin + u16::try_from(count).unwrap_or(0)..x).all(|x| self.at(x, y) == Some(BLANK))
                {
                    blanks = Some((begin, row, usize::from(x - begin) + 1));
                    continue;
                }
                if let Some((x, y, count)) = blanks.replace((x, y, 1)) {
                    self.blank(x, y, count)?;
                }
                continue;
            }
            if let Some((x, y, count)) = blanks.take() {
                self.blank(x, y, count)?;
            }
            // A blank whose colour changed looks as before.
            if standing.letter.is_none() || self.at(x, y) != Some(standing) {
                self.put(x, y, cell.symbol(), standing)?;
            }
        }
        if let Some((x, y, count)) = blanks {
            self.blank(x, y, count)?;
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        if self.cursor_shown.replace(false) != Some(false) {
            self.out.write_all(b"\x1b[?25l")?;
        }
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        if self.cursor_shown.replace(true) != Some(true) {
            self.out.write_all(b"\x1b[?25h")?;
        }
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        let (x, y) = self.cursor.unwrap_or_default();
        Ok(Position { x, y })
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.go(x, y)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    /// All of it, whatever part was asked for: only that is ever wanted, and what was not cleared is not certain any more.
    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.out.write_all(b"\x1b[m\x1b[2J")?;
        self.style = PLAIN;
        self.cursor = None;
        self.cells.fill(BLANK);
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        Ok(Size { width: self.width, height: self.height })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn standing(cell: &Cell) -> Standing {
    let mut letters = cell.symbol().chars();
    let letter = letters.next().filter(|&letter| is_one_column(letter) && letters.next().is_none());
    let mut look = Look { fg: cell.fg, bg: cell.bg, modifier: cell.modifier };
    if letter == Some(' ') && !look.modifier.intersects(ON_BLANKS) {
        look = Look { bg: look.bg, ..PLAIN };
    }
    Standing { letter, look }
}

/// Letters of which every terminal knows that they take one column; of others only what follows them is not certain.
fn is_one_column(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{2010}'..='\u{2027}' | '\u{2190}'..='\u{21ff}'
        | '\u{2200}'..='\u{22ff}' | '\u{2500}'..='\u{25fc}' | '\u{2713}'..='\u{2718}' | '\u{2800}'..='\u{28ff}')
}

fn forward(columns: u16) -> String {
    match columns {
        0 => String::new(),
        1 => "\x1b[C".to_owned(),
        columns => format!("\x1b[{columns}C"),
    }
}

/// The shorter of: only what differs; or all of it from plain.
fn change(from: Look, to: Look) -> String {
    let from_plain = sgr(PLAIN, to);
    let anew = if from_plain.is_empty() { "\x1b[m".to_owned() } else { format!("\x1b[0;{from_plain}m") };
    let differs = format!("\x1b[{}m", sgr(from, to));
    if differs.len() < anew.len() { differs } else { anew }
}

fn sgr(from: Look, to: Look) -> String {
    const CODES: [(Modifier, u8, u8); 9] = [
        (Modifier::BOLD, 1, 22),
        (Modifier::DIM, 2, 22),
        (Modifier::ITALIC, 3, 23),
        (Modifier::UNDERLINED, 4, 24),
        (Modifier::SLOW_BLINK, 5, 25),
        (Modifier::RAPID_BLINK, 6, 25),
        (Modifier::REVERSED, 7, 27),
        (Modifier::HIDDEN, 8, 28),
        (Modifier::CROSSED_OUT, 9, 29),
    ];
    let mut codes: Vec<String> = Vec::new();
    let mut kept = from.modifier;
    for (modifier, _, off) in CODES {
        if kept.contains(modifier) && !to.modifier.contains(modifier) {
            codes.push(off.to_string());
            // One code ends both of a pair.
            CODES.iter().filter(|code| code.2 == off).for_each(|code| kept.remove(code.0));
        }
    }
    for (modifier, on, _) in CODES {
        if to.modifier.contains(modifier) && !kept.contains(modifier) {
            codes.push(on.to_string());
        }
    }
    if from.fg != to.fg {
        codes.push(colour(to.fg, 30));
    }
    if from.bg != to.bg {
        codes.push(colour(to.bg, 40));
    }
    codes.join(";")
}

/// `base` is 30 for letters, 40 for their ground.
fn colour(colour: Color, base: u8) -> String {
    let bright = base + 60;
    let code = match colour {
        Color::Reset => base + 9,
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => bright,
        Color::LightRed => bright + 1,
        Color::LightGreen => bright + 2,
        Color::LightYellow => bright + 3,
        Color::LightBlue => bright + 4,
        Color::LightMagenta => bright + 5,
        Color::LightCyan => bright + 6,
        Color::White => bright + 7,
        Color::Indexed(number) => return format!("{};5;{number}", base + 8),
        Color::Rgb(red, green, blue) => return format!("{};2;{red};{green};{blue}", base + 8),
    };
    code.to_string()
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;
    use ratatui::{Terminal, TerminalOptions, Viewport};

    use super::*;

    /// A terminal that writes into memory, and what a real one makes of it.
    struct Pair {
        ours: Terminal<Wire<Vec<u8>>>,
        theirs: vt100::Parser,
    }

    const WIDTH: u16 = 37;
    const HEIGHT: u16 = 9;

    impl Pair {
        fn new() -> Pair {
            let area = Rect::new(0, 0, WIDTH, HEIGHT);
            let options = TerminalOptions { viewport: Viewport::Fixed(area) };
            let mut ours = Terminal::with_options(Wire::new(Vec::new(), WIDTH, HEIGHT), options).unwrap();
            ours.resize(area).unwrap();
            Pair { ours, theirs: vt100::Parser::new(HEIGHT.try_into().unwrap(), WIDTH.try_into().unwrap(), 0) }
        }

        /// Draws a frame; how many bytes it took.
        fn draw(&mut self, cells: &[(u16, u16, &str, Style)]) -> usize {
            self.ours
                .draw(|frame| {
                    for (x, y, text, style) in cells {
                        frame.buffer_mut().set_string(*x, *y, text, *style);
                    }
                })
                .unwrap();
            let bytes = std::mem::take(&mut self.ours.backend_mut().out);
            self.theirs.process(&bytes);
            bytes.len()
        }

        fn is_as_drawn(&self, cells: &[(u16, u16, &str, Style)]) {
            let mut wanted = ratatui::buffer::Buffer::empty(Rect::new(0, 0, WIDTH, HEIGHT));
            for (x, y, text, style) in cells {
                wanted.set_string(*x, *y, text, *style);
            }
            for y in 0..HEIGHT {
                for x in 0..WIDTH {
                    let (wanted, seen) = (&wanted[(x, y)], self.theirs.screen().cell(y, x).unwrap());
                    let text = if seen.contents().is_empty() { " " } else { seen.contents() };
                    if seen.is_wide_continuation() {
                        continue;
                    }
                    assert_eq!(text, wanted.symbol(), "at {x}, {y}:\n{}", self.theirs.screen().contents());
                    assert_eq!(seen.bgcolor(), colour_of(wanted.bg), "at {x}, {y}");
                    assert_eq!(seen.inverse(), wanted.modifier.contains(Modifier::REVERSED), "at {x}, {y}");
                    if text != " " {
                        assert_eq!(seen.fgcolor(), colour_of(wanted.fg), "at {x}, {y}");
                        assert_eq!(seen.bold(), wanted.modifier.contains(Modifier::BOLD), "at {x}, {y}");
                        assert_eq!(seen.dim(), wanted.modifier.contains(Modifier::DIM), "at {x}, {y}");
                    }
                }
            }
        }
    }

    fn colour_of(colour: Color) -> vt100::Color {
        match colour {
            Color::Reset => vt100::Color::Default,
            Color::Red => vt100::Color::Idx(1),
            Color::LightBlue => vt100::Color::Idx(12),
            Color::Indexed(number) => vt100::Color::Idx(number),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn random_frames_arrive_as_they_were_drawn() {
        let mut noise = 12345_u32;
        let mut next = move |below: u32| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 8) % below
        };
        let texts = ["a", "12.5", "   ", " ", "█▓▒░", "wide 漢字 x", "e\u{301}", "────────", "            ", "0", "≥ 3"];
        let colours = [Color::Reset, Color::Red, Color::LightBlue, Color::Indexed(166)];
        let modifiers = [Modifier::empty(), Modifier::BOLD, Modifier::DIM, Modifier::BOLD | Modifier::REVERSED];
        let mut pair = Pair::new();
        let mut cells: Vec<(u16, u16, &str, Style)> = Vec::new();
        for _ in 0..400 {
            if next(10) == 0 {
                cells.clear();
            }
            for _ in 0..next(12) {
                let style = Style::reset()
                    .fg(colours[next(4) as usize])
                    .bg(colours[if next(6) == 0 { next(4) as usize } else { 0 }])
                    .add_modifier(modifiers[next(4) as usize]);
                let text = texts[next(11) as usize];
                // Half of a wide letter is drawn over by nobody, and everybody means something else by it.
                let (x, y) = match text.contains('漢') {
                    true => (0, 0),
                    false => (next(u32::from(WIDTH)) as u16, 1 + next(u32::from(HEIGHT) - 1) as u16),
                };
                cells.push((x, y, text, style));
            }
            pair.draw(&cells);
            pair.is_as_drawn(&cells);
        }
    }

    #[test]
    fn what_did_not_change_costs_nothing() {
        let mut pair = Pair::new();
        let cells = [(3, 2, "12.5", Style::new().fg(Color::Red))];
        assert!(pair.draw(&cells) > 0);
        assert_eq!(pair.draw(&cells), 0);
    }

    #[test]
    fn small_changes_cost_little() {
        let plain = Style::new();
        let mut pair = Pair::new();
        pair.draw(&[(3, 2, "12.5", plain), (3, 3, "10", plain)]);
        // To the first digit (6), the digit; down, back to column 4 and the digit.
        assert!(pair.draw(&[(3, 2, "13.6", plain), (3, 3, "11", plain)]) <= 6 + 3 + 8);
        // A row that goes is one erasure.
        pair.draw(&[(0, 0, "a row that will be gone soon", plain)]);
        assert!(pair.draw(&[]) <= 12);
    }
}
