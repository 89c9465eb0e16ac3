//! The findings of the host under the cursor, below the table.

use crate::findings::incidents;
use crate::safe;
use crate::state::fleet::FleetState;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text;
use crate::view::theme::{self, StyleRole};

/// A rule with the host's name, and the sentences of its root findings.
pub fn draw(state: &FleetState, pane: &mut Pane) {
    pane.rule(0);
    let Some(host) = state.selected_host().and_then(|index| state.hosts.get(index)) else { return };
    pane.subarea(2, 0, pane.width().saturating_sub(4), 1).line(0, (safe!(" {} ", host.name), StyleRole::Bold));
    let Some(summary) = &host.summary else { return };
    let (width, height) = (usize::from(pane.width()).saturating_sub(2), pane.height());
    let mut y = 1;
    for incident in incidents(&summary.active) {
        let Some((finding, consequences)) = incident.split_first() else { continue };
        let more = match consequences.len() {
            0 => String::new(),
            1 => " (1 more follows from it)".to_owned(),
            count => format!(" ({count} more follow from it)"),
        };
        let left = usize::from(height.saturating_sub(y));
        if left == 0 {
            break;
        }
        for (at, words) in text::wrap(&(finding.sentence.clone() + &more), width, left.min(3)).into_iter().enumerate() {
            let mut line = match at {
                0 => SafeLine::new(theme::severity_symbol(finding.severity), StyleRole::from(finding.severity)),
                _ => SafeLine::default(),
            };
            line.pad_to(2);
            pane.line(y, line.with(SafeText::sanitize(words), StyleRole::Plain));
            y += 1;
        }
    }
    if y == 1 {
        pane.line(1, ("  no finding", StyleRole::Dim));
    }
}
