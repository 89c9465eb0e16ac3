//! The panes of a screen: bands from top to bottom, one or two panes side by side in each. One pane may have the focus, and may take
//! the whole body.

use super::layout::ScreenLayout;
use super::{Screen, State};
use crate::findings::Evaluation;
use crate::units::SmallSort;

/// A band of panes.
pub struct Band {
    /// The names of its panes from left to right
    pub panes: &'static [&'static str],
    /// Rows with the frame: the least, and the most that its content needs; (0, 0) without content
    pub rows: fn(&State, &Evaluation) -> (u16, u16),
    /// Bands with a lower number grow first, and disappear last
    pub priority: u8,
    /// Columns of the screen from which it stands beside the band above it; `None`: never
    beside_previous_from: Option<u16>,
}

impl Band {
    /// A band below the one before it.
    pub const fn new(panes: &'static [&'static str], priority: u8, rows: fn(&State, &Evaluation) -> (u16, u16)) -> Band {
        Band { panes, rows, priority, beside_previous_from: None }
    }

    /// The same; it stands beside the band before it where the screen has this many columns.
    pub const fn beside_previous_from(self, columns: u16) -> Band {
        Band { beside_previous_from: Some(columns), ..self }
    }
}

/// Number of panes.
pub const fn pane_count(bands: &[Band]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < bands.len() {
        count += bands[at].panes.len();
        at += 1;
    }
    count
}

/// The place of a pane in the body. The frames of neighbors share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneArea {
    /// Its index among the panes of the screen, from left to right and top to bottom
    pub pane: usize,
    pub x: u16,
    pub y: u16,
    pub width: u16,
    pub height: u16,
}

/// Which pane has the focus, and whether it takes the whole body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaneFocus {
    /// `None` until the user moves the focus
    pub focused: Option<usize>,
    pub zoomed: bool,
}

/// Per cent of the width that the left one of two panes has.
const LEFT_PERCENT: u32 = 56;

/// Fewer rows than this show nothing but a frame.
const MIN_ROWS: u16 = 3;

/// The panes that fit, with their places in a body of this size.
pub fn pane_areas(
    bands: &[Band],
    focus: PaneFocus,
    state: &State,
    evaluation: &Evaluation,
    (width, height): (u16, u16),
) -> Vec<PaneArea> {
    if focus.zoomed {
        let pane = focus.focused.unwrap_or_else(|| shown_panes(bands, state).next().unwrap_or(0));
        return vec![PaneArea { pane, x: 0, y: 0, width, height }];
    }
    let mut first = 0;
    let wanted: Vec<Line> = (bands.iter())
        .map(|band| {
            let of_band = first..first + band.panes.len();
            first = of_band.end;
            let panes: Vec<usize> = shown_panes(bands, state).filter(|pane| of_band.contains(pane)).collect();
            let (minimum, maximum) = if panes.is_empty() { (0, 0) } else { (band.rows)(state, evaluation) };
            Line { panes, rows: BandRows { minimum, maximum: maximum.max(minimum), priority: band.priority } }
        })
        .collect();
    let lines = side_by_side(bands, wanted, width);
    let heights = band_heights(&lines.iter().map(|line| line.rows).collect::<Vec<_>>(), height);
    let mut areas = Vec::new();
    let mut y = 0;
    for (Line { panes, .. }, rows) in lines.into_iter().zip(heights) {
        if rows >= MIN_ROWS {
            let left = u16::try_from(u32::from(width) * LEFT_PERCENT / 100).unwrap_or(width);
            let parts = match panes.len() {
                1 => vec![(0, width)],
                _ => vec![(0, left), (left.saturating_sub(1), width - left.saturating_sub(1))],
            };
            let area = |(pane, (x, width)): (usize, (u16, u16))| PaneArea { pane, x, y, width, height: rows };
            areas.extend(panes.into_iter().zip(parts).map(area));
            y += rows - 1;
        }
    }
    areas
}

/// The panes of a screen that are not hidden.
fn shown_panes(bands: &[Band], state: &State) -> impl Iterator<Item = usize> {
    let names = bands.iter().flat_map(|band| band.panes).enumerate();
    names.filter(|(_, name)| !state.hides_pane(state.screen, name)).map(|(pane, _)| pane)
}

/// Panes beside each other: those of a band that are not hidden, or of two bands with one pane each.
struct Line {
    panes: Vec<usize>,
    rows: BandRows,
}

/// Joins the line of a band and that of the band above it where both stand side by side.
fn side_by_side(bands: &[Band], wanted: Vec<Line>, width: u16) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::with_capacity(bands.len());
    for (band, Line { panes, rows }) in bands.iter().zip(wanted) {
        match lines.last_mut() {
            Some(above)
                if band.beside_previous_from.is_some_and(|columns| width >= columns)
                    && above.panes.len() == 1
                    && rows.maximum > 0 =>
            {
                above.panes.extend(panes);
                above.rows = BandRows {
                    minimum: above.rows.minimum.max(rows.minimum),
                    maximum: above.rows.maximum.max(rows.maximum),
                    priority: above.rows.priority.min(rows.priority),
                };
            }
            _ => lines.push(Line { panes, rows }),
        }
    }
    lines
}

#[derive(Clone, Copy)]
struct BandRows {
    minimum: u16,
    maximum: u16,
    priority: u8,
}

/// The height of each band. Neighbors share a line. The first by priority gets its minimum first; then all grow in turns, and if all have
/// what they need the first one takes the rest.
fn band_heights(bands: &[BandRows], height: u16) -> Vec<u16> {
    let mut heights = vec![0_u16; bands.len()];
    let mut order: Vec<usize> = (0..bands.len()).collect();
    order.small_sort_by_key(|&index| bands.get(index).map_or(u8::MAX, |band| band.priority));
    let mut left = height;
    for &index in &order {
        let (Some(band), Some(rows)) = (bands.get(index), heights.get_mut(index)) else { continue };
        // The first band has both lines of its frame, each other one only its own lower line.
        let needed = if left == height { band.minimum } else { band.minimum.saturating_sub(1) };
        if needed <= left {
            *rows = band.minimum;
            left -= needed;
        }
    }
    while left > 0 {
        let before = left;
        for &index in &order {
            let (Some(band), Some(rows)) = (bands.get(index), heights.get_mut(index)) else { continue };
            if left > 0 && *rows > 0 && *rows < band.maximum {
                *rows += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let first = order.into_iter().find(|&index| heights.get(index).is_some_and(|&rows| rows > 0));
    if let Some(rows) = first.and_then(|index| heights.get_mut(index)) {
        *rows += left;
    }
    heights
}

impl State {
    /// The focus among the panes of the displayed screen.
    pub fn pane_focus(&self) -> PaneFocus {
        self.pane_focus[self.screen as usize]
    }

    fn pane_focus_mut(&mut self) -> &mut PaneFocus {
        &mut self.pane_focus[self.screen as usize]
    }

    /// Whether one pane takes the whole body.
    pub(super) fn shows_zoomed_pane(&self) -> bool {
        self.pane_focus().zoomed && self.details.is_none()
    }

    /// Gives the focus to the pane `step` after the focused one.
    pub(super) fn move_focus(&mut self, step: isize) {
        let PaneFocus { focused, zoomed } = self.pane_focus();
        // The panes that are displayed; while one is zoomed, all of the screen, also those that have no room beside others.
        let panes: Vec<usize> = match zoomed {
            true => shown_panes(self.screen.definition().bands, self).collect(),
            false => ScreenLayout::new(self).panes.into_iter().map(|area| area.pane).collect(),
        };
        let place = focused.and_then(|focused| panes.iter().position(|&pane| pane == focused));
        let next = match place {
            Some(place) => isize::try_from(place).unwrap_or(0) + step,
            None if zoomed => step,
            None => step.min(0),
        };
        let next = next.rem_euclid(isize::try_from(panes.len()).unwrap_or(1).max(1)).unsigned_abs();
        if let Some(&pane) = panes.get(next) {
            self.focus_pane(pane);
        }
    }

    /// Gives the focus to a pane.
    pub(super) fn focus_pane(&mut self, pane: usize) {
        self.pane_focus_mut().focused = Some(pane);
        self.scroll_to_cursor();
    }

    /// A pane of the displayed screen is hidden: it has no focus any more, and is not zoomed.
    pub(super) fn unfocus_pane(&mut self, name: &str) {
        let mut names = self.screen.definition().bands.iter().flat_map(|band| band.panes);
        if self.pane_focus().focused == names.position(|pane| *pane == name) {
            *self.pane_focus_mut() = PaneFocus::default();
        }
    }

    /// The focused pane takes the whole body, or leaves it to all panes. From a screen without panes: a pane of the overview.
    pub(super) fn toggle_zoom(&mut self) {
        if self.details.take().is_some() {
            self.pane_focus_mut().zoomed = false;
        }
        if self.screen.definition().pane_count() == 0 {
            self.switch_screen(Screen::Overview);
            self.pane_focus_mut().zoomed = false;
        }
        let focus = self.pane_focus_mut();
        focus.zoomed = !focus.zoomed;
        self.scroll_to_cursor();
    }

    pub(super) fn leave_zoom(&mut self) {
        self.pane_focus_mut().zoomed = false;
        self.scroll_to_cursor();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Source;
    use crate::synthetic::{evaluation, sample, screen};

    fn areas(bands: &[Band], size: (u16, u16)) -> Vec<PaneArea> {
        let evaluation = evaluation(sample(1.0), sample(2.0));
        pane_areas(bands, PaneFocus::default(), &screen(size, Source::Live), &evaluation, size)
    }

    /// Panes and their heights.
    fn heights(bands: &[Band], height: u16) -> Vec<(usize, u16)> {
        areas(bands, (80, height)).into_iter().map(|area| (area.pane, area.height)).collect()
    }

    #[test]
    fn a_band_with_content_stands_beside_the_one_above_on_a_wide_screen() {
        let panes = |width, rows_of_network| {
            let bands = [
                Band::new(&["disks"], 2, |_, _| (6, 10)),
                Band::new(&["network"], 4, rows_of_network).beside_previous_from(240),
                Band::new(&["tasks"], 1, |_, _| (5, 15)),
            ];
            areas(&bands, (width, 40)).into_iter().map(|area| (area.pane, area.x, area.y)).collect::<Vec<_>>()
        };
        assert_eq!(panes(239, |_, _| (3, 7)), [(0, 0, 0), (1, 0, 9), (2, 0, 15)]);
        assert_eq!(panes(240, |_, _| (3, 7)), [(0, 0, 0), (1, 133, 0), (2, 0, 9)]);
        assert_eq!(panes(240, |_, _| (0, 0)), [(0, 0, 0), (2, 0, 9)], "it has no content");
    }

    #[test]
    fn bands_fill_the_height_and_fall_away_by_priority() {
        let bands = [
            Band::new(&["a"], 0, |_, _| (8, 12)),
            Band::new(&["b"], 3, |_, _| (7, 8)),
            Band::new(&["c"], 2, |_, _| (6, 7)),
            Band::new(&["d"], 4, |_, _| (4, 6)),
            Band::new(&["e"], 1, |_, _| (5, u16::MAX)),
        ];
        // Neighbors share a line: the sum is four rows more than the height.
        assert_eq!(heights(&bands, 44), [(0, 12), (1, 8), (2, 7), (3, 6), (4, 15)]);
        assert_eq!(heights(&bands, 26), [(0, 8), (1, 7), (2, 6), (3, 4), (4, 5)]);
        assert_eq!(heights(&bands, 20), [(0, 8), (2, 6), (3, 4), (4, 5)]);
        assert_eq!(heights(&bands, 9), [(0, 9)]);
        let few = [Band::new(&["a"], 1, |_, _| (3, 5)), Band::new(&["b"], 0, |_, _| (4, 6))];
        assert_eq!(heights(&few, 20), [(0, 5), (1, 16)], "the first by priority takes the rest");
    }
}
