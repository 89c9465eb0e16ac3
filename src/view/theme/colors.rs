//! The themes with colors of their own. The contrast of each color with its background is at least 4.5:1, as WCAG 2 demands of
//! text (level AA), and that of each shade of a graph at least 3:1, as it demands of graphics.

use std::sync::LazyLock;

use ratatui::style::{Color, Modifier, Style};

use super::StyleRole;
use super::rgb::{mixed, rgb};
use crate::state::theme_choice::{NamedTheme, Purpose, Rgb, ThemeChoice, ThemeColors};

/// In the order of `Purpose`: background, text, dim, accent; critical, warning, note, good; user, system, irq, steal; blocked,
/// run queue, disk, other blocked.
const BUILT_IN: [(&str, [u32; 16]); 4] = [
    (
        "dark",
        [
            0x16181d, 0xd8dce2, 0x9aa3ad, 0x7cb7ff, 0xff7a70, 0xf0b040, 0x6cb6ff, 0x6ccf75, 0x6ccf75, 0x6ea8ff, 0x4fd0dc,
            0xc9a0ff, 0xff8f4a, 0x4fd0dc, 0xf08bb8, 0xb9a5e0,
        ],
    ),
    (
        "light",
        [
            0xffffff, 0x1b1f24, 0x57606a, 0x0550ae, 0xb3141d, 0x874700, 0x0550ae, 0x116329, 0x116329, 0x0a4fb0, 0x0b6472,
            0x7a2fc4, 0xa03c00, 0x0b6472, 0xa8246a, 0x5e4aa8,
        ],
    ),
    (
        "high-contrast",
        [
            0x000000, 0xffffff, 0xc8c8c8, 0xffff00, 0xff8080, 0xffd000, 0x80c8ff, 0x60ff60, 0x60ff60, 0x80b0ff, 0x00ffff,
            0xff80ff, 0xff9a3c, 0x00ffff, 0xffa0d0, 0xd0b0ff,
        ],
    ),
    // The colors of Okabe and Ito, lighter where the contrast demands it.
    (
        "color-blind",
        [
            0x16181d, 0xd8dce2, 0x9aa3ad, 0x56b4e9, 0xe8742a, 0xe69f00, 0x56b4e9, 0x1fb489, 0x1fb489, 0x56b4e9, 0xf0e442,
            0xcc79a7, 0xe8742a, 0xf0e442, 0xcc79a7, 0xb8b8b8,
        ],
    ),
];

static THEMES: LazyLock<Vec<NamedTheme>> = LazyLock::new(|| {
    let theme = |(name, colors): &(&str, [u32; 16])| NamedTheme {
        name: (*name).to_owned(),
        colors: ThemeColors(colors.map(|color| {
            let [_, red, green, blue] = color.to_be_bytes();
            [red, green, blue]
        })),
    };
    BUILT_IN.iter().map(theme).collect()
});

/// The themes of the program.
pub fn built_in_themes() -> impl Iterator<Item = ThemeChoice> {
    [ThemeChoice::Terminal, ThemeChoice::Mono].into_iter().chain(THEMES.iter().map(ThemeChoice::Colors))
}

/// The style of a role; `make` makes a color of the terminal.
pub fn themed_style(colors: &ThemeColors, role: StyleRole, make: fn(Rgb) -> Color) -> Style {
    let (purpose, modifier) = purpose_and_modifier(role);
    Style::new().fg(make(colors.color(purpose))).add_modifier(modifier)
}

/// The color of a role at a height of 0 … 1 in a graph: at the top the color itself, and the lower the nearer to the background.
pub fn shade(colors: &ThemeColors, role: StyleRole, height: f32) -> Rgb {
    let color = colors.color(purpose_and_modifier(role).0);
    mixed(colors.color(Purpose::Background), color, LOWEST_SHADE + (1.0 - LOWEST_SHADE) * height)
}

/// The share of the color at the bottom.
const LOWEST_SHADE: f32 = 0.7;

fn purpose_and_modifier(role: StyleRole) -> (Purpose, Modifier) {
    let bold = Modifier::BOLD;
    let reversed = Modifier::BOLD.union(Modifier::REVERSED);
    match role {
        StyleRole::Plain => (Purpose::Text, Modifier::empty()),
        StyleRole::Dim | StyleRole::Free => (Purpose::Dim, Modifier::empty()),
        StyleRole::Bold | StyleRole::Heading => (Purpose::Text, bold),
        StyleRole::Critical => (Purpose::Critical, bold),
        StyleRole::Warning | StyleRole::WarningLine => (Purpose::Warning, bold),
        StyleRole::Note => (Purpose::Note, bold),
        StyleRole::Good => (Purpose::Good, Modifier::empty()),
        StyleRole::User => (Purpose::User, Modifier::empty()),
        StyleRole::System => (Purpose::System, Modifier::empty()),
        StyleRole::Irq => (Purpose::Irq, Modifier::empty()),
        StyleRole::Steal => (Purpose::Steal, Modifier::empty()),
        StyleRole::Blocked | StyleRole::Lock => (Purpose::Blocked, Modifier::empty()),
        StyleRole::RunQueue => (Purpose::RunQueue, Modifier::empty()),
        StyleRole::Disk => (Purpose::Disk, Modifier::empty()),
        StyleRole::OtherBlocked => (Purpose::OtherBlocked, Modifier::empty()),
        StyleRole::Recording => (Purpose::Critical, reversed),
        StyleRole::Playback => (Purpose::Note, reversed),
        StyleRole::SortHeading => (Purpose::Text, reversed),
        StyleRole::Key => (Purpose::Accent, bold),
    }
}

/// Text on the background of a theme.
pub fn base_style(colors: &ThemeColors, make: fn(Rgb) -> Color) -> Style {
    Style::new().fg(make(colors.color(Purpose::Text))).bg(make(colors.color(Purpose::Background)))
}

/// The color itself, on a terminal with 24 bits.
pub fn exact([red, green, blue]: Rgb) -> Color {
    Color::Rgb(red, green, blue)
}

/// The nearest of xterm's cube of 6×6×6 colors and its 24 grays. The first 16 are the terminal's own.
pub fn nearest_indexed(color: Rgb) -> Color {
    let step = |part: u8| match part {
        0..48 => 0_u8,
        48..115 => 1,
        _ => (part - 35) / 40,
    };
    let [red, green, blue] = color.map(step);
    let mean = color.iter().map(|&part| u16::from(part)).sum::<u16>() / 3;
    let gray = u8::try_from(mean.saturating_sub(3) / 10).unwrap_or(u8::MAX).min(23);
    let candidates = [16 + 36 * red + 6 * green + blue, 232 + gray];
    let distance = |index: &u8| {
        let found = rgb(Color::Indexed(*index)).unwrap_or_default();
        found.into_iter().zip(color).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum::<u32>()
    };
    Color::Indexed(candidates.into_iter().min_by_key(distance).unwrap_or(16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::theme::rgb::contrast;

    #[test]
    fn the_contrast_of_each_color_is_that_of_text_in_wcag() {
        for theme in THEMES.iter() {
            for make in [exact, nearest_indexed] {
                let shown = |purpose| rgb(make(theme.colors.color(purpose))).unwrap();
                for purpose in Purpose::ALL.into_iter().filter(|&purpose| purpose != Purpose::Background) {
                    let found = contrast(shown(purpose), shown(Purpose::Background));
                    assert!(found >= 4.5, "{} {}: {found:.2}", theme.name, purpose.key());
                }
            }
        }
    }

    /// The roles of filled graphs and of maps.
    const GRAPH_ROLES: [StyleRole; 10] = [
        StyleRole::Dim,
        StyleRole::Good,
        StyleRole::Note,
        StyleRole::Warning,
        StyleRole::Critical,
        StyleRole::User,
        StyleRole::System,
        StyleRole::RunQueue,
        StyleRole::Disk,
        StyleRole::OtherBlocked,
    ];

    #[test]
    fn the_contrast_of_each_shade_of_a_graph_is_that_of_graphics_in_wcag_and_grows_with_the_height() {
        for theme in THEMES.iter() {
            for (make, role) in [exact, nearest_indexed].into_iter().flat_map(|make| GRAPH_ROLES.map(|role| (make, role))) {
                let shown = |color| rgb(make(color)).unwrap();
                let background = shown(theme.colors.color(Purpose::Background));
                let contrasts = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
                    .map(|height| contrast(shown(shade(&theme.colors, role, height)), background));
                assert!(contrasts.iter().all(|&found| found >= 3.0), "{} {role:?}: {contrasts:.2?}", theme.name);
                assert!(contrasts[5] > contrasts[0] * 1.3, "{} {role:?}: {contrasts:.2?}", theme.name);
            }
        }
    }

    #[test]
    fn the_nearest_color_of_an_indexed_color_is_itself() {
        for index in 16..=255 {
            let color = rgb(Color::Indexed(index)).unwrap();
            assert_eq!(rgb(nearest_indexed(color)), Some(color), "{index}");
        }
    }

    #[test]
    fn colors_of_different_purposes_differ_where_both_are_in_one_bar() {
        let bars = [
            [Purpose::User, Purpose::System, Purpose::Irq, Purpose::Steal, Purpose::Blocked],
            [Purpose::User, Purpose::System, Purpose::RunQueue, Purpose::Disk, Purpose::Blocked],
        ];
        for theme in THEMES.iter() {
            for bar in bars {
                for (at, &purpose) in bar.iter().enumerate() {
                    for &other in &bar[..at] {
                        assert_ne!(theme.colors.color(purpose), theme.colors.color(other), "{}", theme.name);
                    }
                }
            }
        }
    }
}
