//! The network screen: nicstat's table, then what nicstat could not see.

pub mod peers;

use super::canvas::Canvas;
use super::frame::arrangement;
use super::text::{self, SafeText, figure, kilobytes, maybe};
use super::theme::Ink;
use super::widgets::spark;
use super::widgets::table::{Spec, Table};
use crate::findings::Judged;
use crate::interval::Interval;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::sample::network::{Duplex, Listener, NicFacts};
use crate::state::layout::{Plan, is_shaped, network_foot, squeezed};
use crate::state::{Column, Row, State};
use crate::units::PerSecond;

const NICS: [Spec; 10] = [
    Spec::words("NET", 9).by(Column::Name),
    Spec::number("rKB/s", 7).by(Column::Read),
    Spec::number("wKB/s", 7).by(Column::Write),
    Spec::number("rPk/s", 6).from(60),
    Spec::number("wPk/s", 6).from(60),
    Spec::number("rAvs", 5).from(72),
    Spec::number("wAvs", 5).from(72),
    Spec::number("%Util", 5).by(Column::Busy),
    Spec::number("Sat", 5).by(Column::Saturation),
    Spec::words("speed", 0).from(60),
];

const IN: &str = "in";
const OUT: &str = "out";

pub fn table(width: u16) -> Table {
    if width < 130 {
        return Table::new(&NICS, width);
    }
    let mut specs = NICS.to_vec();
    if let Some(last) = specs.last_mut() {
        last.width = 22;
    }
    let each = (width - 90) / 2 - 1;
    specs.push(Spec::words(IN, each));
    specs.push(Spec::words(OUT, each));
    Table::new(&specs, width)
}

pub fn draw(state: &State, judged: &Judged, plan: &Plan, canvas: &mut Canvas) {
    if state.peers {
        remote_hosts(state, judged, plan, canvas);
        return;
    }
    let interval = &*judged.interval;
    let table = table(canvas.width());
    table.heading(canvas, 0, Some(state.sort()));
    let end = super::list(state, plan, canvas, |canvas, y, row| {
        if let Row::Nic(at) = row
            && let Some(nic) = interval.nics.get(at)
        {
            nic_row(interval, nic, &table, canvas, y);
            histories(state, interval, nic, &table, canvas, y);
            if is_shaped(nic) {
                discipline(interval, nic, canvas, y + 1);
            }
        }
    });
    if interval.nics.is_empty() {
        canvas.rest(0, 1, "- no interface, or /proc/net/dev cannot be read", Ink::Dim);
    }
    let words = arrangement(state, plan);
    if !words.is_empty() {
        canvas.right(0, end.min(plan.before + plan.list), canvas.width(), &words, Ink::Dim);
    }
    // The rest follows the table where the table is short.
    let foot = network_foot(state).min(canvas.height());
    let top = (end + 1).min(canvas.height().saturating_sub(foot).max(end));
    let canvas = &mut canvas.part(0, top, u16::MAX, u16::MAX);
    let y = protocols(interval, canvas);
    let y = y + softnet(interval, canvas, y);
    foremost_hosts(state, judged, canvas, y);
}

/// All of them, one under the cursor.
fn remote_hosts(state: &State, judged: &Judged, plan: &Plan, canvas: &mut Canvas) {
    let table = peers::table(canvas.width());
    table.heading(canvas, 0, None);
    let end = super::list(state, plan, canvas, |canvas, y, row| {
        if let Row::Peer(at) = row
            && let Some(peer) = judged.peers.as_ref().and_then(|peers| peers.rows.get(at))
        {
            peers::row(judged, peer, &table, canvas, y);
        }
    });
    canvas.rest(0, end, peers::about(state, judged), Ink::Dim);
    canvas.right(0, end, canvas.width(), arrangement(state, plan), Ink::Dim);
    if judged.peers.as_ref().is_some_and(|peers| peers.rows.is_empty()) {
        canvas.rest(0, 1, "no TCP connection with another host in this network namespace", Ink::Dim);
    }
    if judged.peers.is_none() {
        let why = judged.interval.newer.protocols.remote_hosts.as_ref().err();
        let why = why.map_or_else(|| "figures need two looks".to_owned(), |why| format!("sock_diag: {why}"));
        canvas.rest(0, 1, safe!("- no remote hosts: {why}"), Ink::Dim);
    }
}

/// As many as there is room for.
fn foremost_hosts(state: &State, judged: &Judged, canvas: &mut Canvas, y: u16) {
    let Some(span) = judged.peers.as_ref().filter(|span| !span.rows.is_empty()) else { return };
    let table = peers::table(canvas.width());
    table.heading(canvas, y, None);
    let about = peers::about(state, judged);
    let end = canvas.height().saturating_sub(u16::from(!about.is_empty()));
    let rows = crate::state::peers::order(judged).into_iter().filter_map(|at| span.rows.get(at));
    let mut next = y + 1;
    for (y, peer) in (y + 1..end).zip(rows) {
        peers::row(judged, peer, &table, canvas, y);
        next = y + 1;
    }
    canvas.rest(0, next, about, Ink::Dim);
}

/// CPUs that lost packets or did not get done with them, the worst first; returns how many lines it took.
fn softnet(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    let mut worst: Vec<_> = squeezed(interval).collect();
    if worst.is_empty() {
        return 0;
    }
    worst.sort_by(|a, b| b.dropped.0.total_cmp(&a.dropped.0).then(b.time_squeeze.0.total_cmp(&a.time_squeeze.0)));
    let lost = worst.iter().any(|span| span.dropped.0 > 0.0);
    let words = worst.iter().map(|span| {
        let dropped = if span.dropped.0 > 0.0 { format!(" {} drops/s", figure(span.dropped.0, 5)) } else { String::new() };
        format!(
            "cpu{}{dropped} {} squeezes/s of {} pk/s",
            span.cpu.0,
            figure(span.time_squeeze.0, 5),
            figure(span.processed.0, 5)
        )
    });
    canvas.text(0, y, 8, "SOFTNET", Ink::Heading);
    let words = SafeText::of(words.collect::<Vec<_>>().join("  "));
    canvas.rest(8, y, &words, if lost { Ink::Warning } else { Ink::Dim });
    1
}

/// nicstat's line.
pub fn nic_row(interval: &Interval, nic: &NicSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    table.put(canvas, y, "NET", SafeText::name(&nic.id.name), Ink::Plain);
    let silent = nic.rx.packets.0 + nic.tx.packets.0 <= 0.0;
    let ink = if silent { Ink::Dim } else { Ink::Plain };
    let mut put = |heading, words: String| table.put(canvas, y, heading, SafeText::of(words), ink);
    put("rKB/s", kilobytes(nic.rx.kilobytes.0, 7));
    put("wKB/s", kilobytes(nic.tx.kilobytes.0, 7));
    put("rPk/s", figure(nic.rx.packets.0, 6));
    put("wPk/s", figure(nic.tx.packets.0, 6));
    put("rAvs", figure(nic.rx.average_bytes, 5));
    put("wAvs", figure(nic.tx.average_bytes, 5));
    let (words, ink) = match nic.utilization {
        Some(share) if share.0 >= 0.9 => (safe!("{}", figure(share.percent(), 5)), Ink::Warning),
        Some(share) => (safe!("{}", figure(share.percent(), 5)), Ink::Plain),
        None => ("?".into(), Ink::Dim),
    };
    table.put(canvas, y, "%Util", &words, ink);
    let saturated = nic.saturation.is_some_and(|rate| rate.0 >= 10.0);
    let sat = safe!("{}", maybe(nic.saturation.map(|rate| rate.0), 5));
    table.put(canvas, y, "Sat", &sat, if saturated { Ink::Warning } else { Ink::Plain });
    let facts = interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index)).map(|nic| &*nic.facts);
    if let Some(facts) = facts {
        table.put(canvas, y, "speed", speed(nic, facts), Ink::Dim);
    }
}

fn speed(nic: &NicSpan, facts: &NicFacts) -> SafeText {
    if facts.loopback && !nic.link_is_configured {
        return "lo".into();
    }
    if facts.up == Some(false) {
        return "down".into();
    }
    let duplex = match nic.link.duplex {
        Some(Duplex::Full) => "fd",
        Some(Duplex::Half) => "hd",
        None => "",
    };
    match nic.link.speed_mbps {
        Some(mbps) if facts.virtual_device && !nic.link_is_configured => safe!("{mbps}{duplex} virtual"),
        Some(mbps) => safe!("{mbps}{duplex}"),
        None if facts.virtual_device => "? virtual".into(),
        None => "?".into(),
    }
}

/// What went in and out, each against its own highest.
pub fn histories(state: &State, interval: &Interval, nic: &NicSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    for (heading, ink) in [(IN, Ink::User), (OUT, Ink::System)] {
        let Some((x, width)) = table.place(heading) else { continue };
        let cells = state.history.cells(interval.at(), usize::from(width));
        let rates: Vec<Option<f32>> =
            cells.iter().map(|cell| cell.as_ref()?.nic(&nic.id).map(|(rx, tx)| if heading == IN { rx } else { tx })).collect();
        let most = rates.iter().flatten().copied().fold(1.0_f32, f32::max);
        spark::sparkline(canvas, x, y, width, rates.iter().map(|rate| rate.map(|rate| (rate / most, ink))));
    }
}

/// A queue in the kernel that is full says more than a speed that the driver made up.
fn discipline(interval: &Interval, nic: &NicSpan, canvas: &mut Canvas, y: u16) {
    let Some(span) = &nic.qdisc else { return };
    let now = interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index));
    let kind = now.and_then(|nic| nic.qdisc.as_ref()).map(|qdisc| SafeText::name(&qdisc.kind)).unwrap_or_default();
    let rate = |rate: Option<PerSecond>| maybe(rate.map(|rate| rate.0), 6);
    let words = safe!(
        "  qdisc {kind}: backlog {} in {}, {} drops/s, {} over its limit/s",
        text::bytes(span.backlog_bytes as f64),
        text::plural(span.backlog_packets, "packet", "packets"),
        rate(span.dropped),
        rate(span.overlimits)
    );
    let full = span.backlog_packets > 0 && span.dropped.is_some_and(|rate| rate.0 > 0.0);
    canvas.rest(0, y, &words, if full { Ink::Bold } else { Ink::Dim });
}

const TCP: [Spec; 11] = [
    Spec::words("TCP", 5),
    Spec::number("InSeg", 6),
    Spec::number("OutSeg", 6),
    Spec::number("%ReTX", 6),
    Spec::number("Reset", 6).from(60),
    Spec::number("AttF", 6).from(60),
    Spec::number("InCon", 6).from(60),
    Spec::number("OutCon", 6).from(60),
    Spec::number("Estab", 6).from(70),
    Spec::number("Drops", 6),
    Spec::number("SynReTX", 7).from(78),
];

const UDP: [Spec; 5] = [
    Spec::words("UDP", 5),
    Spec::number("InDG", 6),
    Spec::number("OutDG", 6),
    Spec::number("InErr", 6),
    Spec::number("OutErr", 6),
];

/// The whole namespace, as nicstat -t and -u have it, and who does not accept fast enough.
/// Returns the line after it.
fn protocols(interval: &Interval, canvas: &mut Canvas) -> u16 {
    let span = &interval.protocols;
    let rate = |rate: Option<PerSecond>| maybe(rate.map(|rate| rate.0), 6);
    let tcp = Table::new(&TCP, canvas.width());
    tcp.heading(canvas, 0, None);
    let mut put = |heading, figure: String, ink| tcp.put(canvas, 1, heading, SafeText::of(figure), ink);
    put("InSeg", rate(span.segments_in), Ink::Plain);
    put("OutSeg", rate(span.segments_out), Ink::Plain);
    let many = span.retransmitted_share.is_some_and(|share| share.0 >= 0.01)
        && span.segments_retransmitted.is_some_and(|rate| rate.0 >= 10.0);
    let share = text::percent(span.retransmitted_share.map(|share| share.0), 6);
    put("%ReTX", share, if many { Ink::Warning } else { Ink::Plain });
    put("Reset", rate(span.resets), Ink::Plain);
    put("AttF", rate(span.attempt_fails), Ink::Plain);
    put("InCon", rate(span.connections_in), Ink::Plain);
    put("OutCon", rate(span.connections_out), Ink::Plain);
    put("Estab", maybe(span.established.map(|count| count as f64), 6), Ink::Plain);
    let dropped = span.listen_drops.is_some_and(|rate| rate.0 > 0.0);
    put("Drops", rate(span.listen_drops), if dropped { Ink::Warning } else { Ink::Plain });
    put("SynReTX", rate(span.syn_retransmits), Ink::Plain);
    let udp = Table::new(&UDP, canvas.width());
    udp.heading(canvas, 2, None);
    let figures =
        [("InDG", span.udp_in), ("OutDG", span.udp_out), ("InErr", span.udp_errors_in), ("OutErr", span.udp_errors_out)];
    for (heading, value) in figures {
        udp.put(canvas, 3, heading, SafeText::of(rate(value)), Ink::Plain);
    }
    let listeners = interval.newer.protocols.listeners.as_deref().unwrap_or_default();
    let mut y = 4;
    for listener in listeners.iter().take(8) {
        listening(listener, span.listen_drops, canvas, y);
        y += 1;
    }
    y
}

fn listening(listener: &Listener, drops: Option<PerSecond>, canvas: &mut Canvas, y: u16) {
    canvas.text(0, y, 7, "LISTEN", Ink::Heading);
    let owner = listener.owner.as_ref().map(|(id, name)| format!("  {}/{}", SafeText::name(name), id.pid));
    let full = listener.accept_queue > listener.backlog_limit;
    let dropped = drops.filter(|rate| full && rate.0 > 0.0).map(|rate| format!("  {} drops/s", figure(rate.0, 5)));
    let words = safe!(
        "{}  queue {} of {}{}{}",
        listener.local_address,
        listener.accept_queue,
        listener.backlog_limit,
        dropped.unwrap_or_default(),
        owner.unwrap_or_default()
    );
    let x = canvas.rest(7, y, &words, if full { Ink::Bold } else { Ink::Plain });
    if full {
        canvas.rest(x + 1, y, "▲", Ink::Warning);
    }
}
