//! What lies over every chart: time that was not recorded as hatched bands, marks as lines. What is less than a pixel apart is one of them,
//! so that a recording of any length has a page of limited size.

use maud::{Markup, html};

use super::axis::TimeAxis;
use super::plot::css_left;
use crate::report::formatting::printable;
use crate::report::report_data::{Gap, Mark};

/// Share of the width of a chart.
const PIXEL: f64 = 1e-3;

/// Places are shares of the time axis.
pub struct Overlay {
    bands: Vec<Band>,
    marks: Vec<MarkLine>,
}

struct Band {
    from: f64,
    to: f64,
    reason: String,
    /// Further gaps in the same place
    more: usize,
}

struct MarkLine {
    at: f64,
    text: String,
    more: usize,
}

impl Overlay {
    /// In any order: damage follows gaps, and where the clock was set back places need not ascend.
    pub fn new(time: &TimeAxis, gaps: &[Gap], marks: &[Mark]) -> Overlay {
        let mut places: Vec<(f64, f64, &Gap)> =
            gaps.iter().map(|gap| (time.position(gap.from), time.position(gap.to), gap)).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut bands: Vec<Band> = Vec::new();
        for (from, to, gap) in places {
            match bands.last_mut().filter(|band| from - band.to < PIXEL) {
                Some(band) => (band.to, band.more) = (band.to.max(to), band.more + 1),
                None => bands.push(Band { from, to, reason: printable(&gap.reason), more: 0 }),
            }
        }
        let mut places: Vec<(f64, &Mark)> = marks.iter().map(|mark| (time.position(mark.at), mark)).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lines: Vec<MarkLine> = Vec::new();
        for (at, mark) in places {
            match lines.last_mut().filter(|line| at - line.at < PIXEL) {
                Some(line) => line.more += 1,
                None => lines.push(MarkLine { at, text: printable(&mark.text), more: 0 }),
            }
        }
        Overlay { bands, marks: lines }
    }

    pub fn render(&self) -> Markup {
        html! {
            @for band in &self.bands { (hatched_band(band.from, band.to, &with_more(&band.reason, band.more))) }
            @for mark in &self.marks { div.mark style=(css_left(mark.at)) title=(with_more(&mark.text, mark.more)) {} }
        }
    }
}

fn with_more(text: &str, more: usize) -> String {
    if more == 0 { text.to_owned() } else { format!("{text} (and {more} more)") }
}

/// Time of which nothing is known, and why.
pub fn hatched_band(from: f64, to: f64, why: &str) -> Markup {
    html! {
        div.gap style=(format!("{};width:{:.3}%", css_left(from), (to - from).max(0.001) * 100.0)) title=(why) {
            svg aria-hidden="true" { rect width="100%" height="100%" {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::synthetic;

    #[test]
    fn gaps_and_marks_within_a_pixel_are_one() {
        let at = |seconds: f64| synthetic::instant(seconds, 0);
        let gap = |from: f64, to: f64| Gap { from: at(from), to: at(to), missing_samples: 1, reason: "no disk".to_owned() };
        let mark = |seconds: f64| Mark { at: at(seconds), text: "deploy".to_owned() };
        let time = TimeAxis::new(at(0.0), at(100_000.0), false, TimeZone::UTC);
        let count = |gaps: &[Gap], marks: &[Mark]| {
            let page = Overlay::new(&time, gaps, marks).render().into_string();
            (page.matches("class=\"gap\"").count(), page.matches("class=\"mark\"").count())
        };
        assert_eq!(count(&[gap(1.0, 2.0), gap(500.0, 501.0)], &[mark(1.0), mark(500.0)]), (2, 2));
        // Fifty of each in a pixel.
        let seconds = || (0..50_000).map(|number| f64::from(number) * 2.0);
        let gaps: Vec<Gap> = seconds().map(|from| gap(from, from + 1.0)).collect();
        let marks: Vec<Mark> = seconds().map(mark).collect();
        let (bands, lines) = count(&gaps, &marks);
        assert!(bands == 1 && (900..=1001).contains(&lines), "{bands} {lines}");
        let two = Overlay::new(&time, &gaps[..2], &[]).render().into_string();
        assert!(two.contains("title=\"no disk (and 1 more)\""), "{two}");
    }
}
