//! The connections of the network namespace in words.

use crate::figures::{Column, protocols};
use crate::findings::Evaluation;
use crate::interval::network::ProtocolSpan;
use crate::safe;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_figure, format_number};
use crate::view::theme::StyleRole;

/// TCP in three lines: segments and connections, what was sent again, what was dropped.
pub fn connection_lines(evaluation: &Evaluation) -> [SafeLine; 3] {
    let interval = &*evaluation.interval;
    let figure = |column: &Column<ProtocolSpan>| format_figure(column, &evaluation.into(), &interval.network.protocols, 6);
    // Of no segments there is no share.
    let share = protocols::RETRANSMITTED_RATIO.displayed(&evaluation.into(), &interval.network.protocols);
    let share = share.map_or_else(SafeText::default, |share| safe!(" = {}%", format_number(share, 6)));
    let queued: f64 = interval.network.nics.iter().filter_map(|nic| nic.qdisc.as_ref()?.dropped).map(|rate| rate.0).sum();
    let softnet: f64 = interval.network.softnet.iter().map(|span| span.dropped.0).sum();
    let line = |words| SafeLine::new(words, StyleRole::Plain);
    [
        line(safe!(
            "TCP: {} connections, segments {}/s in, {}/s out",
            figure(&protocols::ESTABLISHED),
            figure(&protocols::SEGMENTS_IN_PER_SECOND),
            figure(&protocols::SEGMENTS_OUT_PER_SECOND)
        )),
        line(safe!(
            "retransmitted {}/s{share}, SYN {}/s, resets {}/s",
            figure(&protocols::RETRANSMITTED_PER_SECOND),
            figure(&protocols::SYN_RETRANSMITS_PER_SECOND),
            figure(&protocols::RESETS_PER_SECOND)
        )),
        line(safe!(
            "dropped/s: listeners {}, qdiscs {}, softnet {}",
            figure(&protocols::LISTEN_DROPS_PER_SECOND),
            format_number(queued, 6),
            format_number(softnet, 6)
        )),
    ]
}
