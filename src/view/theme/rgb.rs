//! Colors as red, green and blue, for pictures of the screen and for the contrast of a theme.

use ratatui::style::{Color, Modifier, Style};

use crate::state::theme_choice::Rgb;

/// The colors of a picture where a cell has the terminal's own.
pub const DEFAULT_FOREGROUND: Rgb = [0xd3, 0xd7, 0xdc];
pub const DEFAULT_BACKGROUND: Rgb = [0x14, 0x17, 0x1b];

/// The 16 ANSI colors of a picture; a terminal has its own.
const ANSI: [Rgb; 16] = [
    [0x00, 0x00, 0x00],
    [0xf0, 0x5b, 0x51],
    [0x57, 0xab, 0x5a],
    [0xd0, 0x9a, 0x2b],
    [0x53, 0x9b, 0xf5],
    [0xb8, 0x87, 0xf5],
    [0x39, 0xb5, 0xbf],
    [0xad, 0xb5, 0xbd],
    [0x76, 0x83, 0x90],
    [0xff, 0x93, 0x8a],
    [0x6b, 0xc4, 0x6d],
    [0xda, 0xaa, 0x3f],
    [0x6c, 0xb6, 0xff],
    [0xdc, 0xbd, 0xfb],
    [0x56, 0xd4, 0xdd],
    [0xff, 0xff, 0xff],
];

/// A color; `None` for the terminal's own.
pub fn rgb(color: Color) -> Option<Rgb> {
    let ansi = |index: usize| ANSI.get(index).copied();
    match color {
        Color::Reset => None,
        Color::Rgb(red, green, blue) => Some([red, green, blue]),
        Color::Indexed(index @ 0..16) => ansi(usize::from(index)),
        // xterm's cube of 6×6×6 colors, and its 24 grays.
        Color::Indexed(index @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let index = index - 16;
            Some([level(index / 36), level(index / 6 % 6), level(index % 6)])
        }
        Color::Indexed(index @ 232..) => Some([8 + 10 * (index - 232); 3]),
        Color::Black => ansi(0),
        Color::Red => ansi(1),
        Color::Green => ansi(2),
        Color::Yellow => ansi(3),
        Color::Blue => ansi(4),
        Color::Magenta => ansi(5),
        Color::Cyan => ansi(6),
        Color::Gray => ansi(7),
        Color::DarkGray => ansi(8),
        Color::LightRed => ansi(9),
        Color::LightGreen => ansi(10),
        Color::LightYellow => ansi(11),
        Color::LightBlue => ansi(12),
        Color::LightMagenta => ansi(13),
        Color::LightCyan => ansi(14),
        Color::White => ansi(15),
    }
}

/// Foreground and background of a cell as a terminal shows them: reversed and dim are applied.
pub fn shown_colors(style: Style) -> (Rgb, Rgb) {
    let mut foreground = style.fg.and_then(rgb).unwrap_or(DEFAULT_FOREGROUND);
    let mut background = style.bg.and_then(rgb).unwrap_or(DEFAULT_BACKGROUND);
    if style.add_modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut foreground, &mut background);
    }
    if style.add_modifier.contains(Modifier::DIM) {
        foreground = mixed(background, foreground, 0.6);
    }
    (foreground, background)
}

/// The color between two: 0 is the first, 1 the second.
pub fn mixed(from: Rgb, to: Rgb, share: f32) -> Rgb {
    let mut mixed = from;
    for (part, to) in mixed.iter_mut().zip(to) {
        *part = (f32::from(*part) + (f32::from(to) - f32::from(*part)) * share).round() as u8;
    }
    mixed
}

/// The contrast of two colors, 1 … 21, as WCAG 2 defines it (relative luminance).
pub fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance(color: Rgb) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { libm::pow((part + 0.055) / 1.055, 2.4) }
    };
    let [red, green, blue] = color.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexed_colors_are_those_of_xterm() {
        assert_eq!(rgb(Color::Indexed(16)), Some([0, 0, 0]));
        assert_eq!(rgb(Color::Indexed(196)), Some([255, 0, 0]));
        assert_eq!(rgb(Color::Indexed(231)), Some([255, 255, 255]));
        assert_eq!(rgb(Color::Indexed(255)), Some([238, 238, 238]));
        assert_eq!(rgb(Color::Indexed(1)), rgb(Color::Red));
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
        assert!((contrast([0x77; 3], [255; 3]) - 4.48).abs() < 0.01, "the gray that just fails");
        assert_eq!(contrast([9; 3], [9; 3]), 1.0);
    }
}
