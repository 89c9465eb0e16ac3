//! The styles of a filled graph by height.

use ratatui::style::Style;

/// Steps of a gradient.
pub const STEPS: usize = 6;

/// The styles of the rows of a graph, from the lowest. A row has one style, so that a column takes no more bytes than in one color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradient(pub [Style; STEPS]);

impl Gradient {
    /// The style of a row, counted from the bottom, of so many.
    pub fn of_row(&self, row: usize, rows: u16) -> Style {
        if rows <= 1 {
            // The color itself.
            return self.step(STEPS - 1);
        }
        let last = usize::from(rows).saturating_sub(1).max(1);
        self.step((row.min(last) * (STEPS - 1) + last / 2) / last)
    }

    fn step(&self, step: usize) -> Style {
        self.0.get(step).copied().unwrap_or_default()
    }
}

/// The step of a value of 0 … 1 in a map, whose cells do not show a height.
pub fn step_of_value(share: f32) -> usize {
    (share.clamp(0.0, 1.0) * (STEPS - 1) as f32).round() as usize
}

impl From<Style> for Gradient {
    fn from(style: Style) -> Gradient {
        Gradient([style; STEPS])
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Color;

    use super::*;

    #[test]
    fn the_steps_are_spread_over_the_rows() {
        let gradient = Gradient([0, 1, 2, 3, 4, 5].map(|step| Style::new().fg(Color::Indexed(step))));
        let step = |style: Style| match style.fg {
            Some(Color::Indexed(step)) => step,
            _ => panic!("{style:?}"),
        };
        let of_rows = |rows: u16| (0..usize::from(rows)).map(|row| step(gradient.of_row(row, rows))).collect::<Vec<_>>();
        assert_eq!(of_rows(1), [5]);
        assert_eq!(of_rows(2), [0, 5]);
        assert_eq!(of_rows(3), [0, 3, 5]);
        assert_eq!(of_rows(6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of_rows(11), [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
        assert_eq!([-1.0, 0.0, 0.5, 1.0, f32::NAN].map(step_of_value), [0, 0, 3, 5, 0]);
    }
}
