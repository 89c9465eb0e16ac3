//! `tcp`, `udp`: the columns of nicstat -t and -u, for the network namespace.

use super::{Cell, Column, FigureInput, TypedTable, Unit, unit_capacity};
use crate::findings::Kind;
use crate::interval::network::ProtocolSpan;
use crate::units::PerSecond;

type Figure = Column<ProtocolSpan>;

pub static TCP_TABLE: TypedTable<ProtocolSpan> = TypedTable {
    name: "tcp",
    description: "TCP of the network namespace: nicstat -t's columns",
    columns: &[TCP_COLUMNS],
    key_columns: &[],
    column_sets: &[],
    default_sort: &SEGMENTS_OUT_PER_SECOND,
    pid_column: None,
    for_each_row,
    is_idle: |tcp| tcp.segments_in.is_none_or(is_zero) && tcp.segments_out.is_none_or(is_zero),
    capacity: unit_capacity,
};

columns! {
    TCP_COLUMNS: ProtocolSpan;

    IP_IN_BYTES_PER_SECOND = Figure::new("InKB/s", "ip_in_bytes_per_second", Unit::KilobytesPerSecond,
        "received by IP, of all protocols",
        |_, ip| bytes_per_second(ip.ip_kilobytes_in));
    IP_OUT_BYTES_PER_SECOND = Figure::new("OutKB/s", "ip_out_bytes_per_second", Unit::KilobytesPerSecond,
        "sent by IP, of all protocols",
        |_, ip| bytes_per_second(ip.ip_kilobytes_out));
    SEGMENTS_IN_PER_SECOND = Figure::new("InSeg/s", "segments_in_per_second", Unit::PerSecond, "InSegs",
        |_, tcp| tcp.segments_in.into()).heading("InSeg");
    SEGMENTS_OUT_PER_SECOND = Figure::new("OutSeg/s", "segments_out_per_second", Unit::PerSecond,
        "OutSegs, retransmitted ones not included",
        |_, tcp| tcp.segments_out.into()).heading("OutSeg");
    RESETS_PER_SECOND = Figure::new("Reset/s", "resets_per_second", Unit::PerSecond, "EstabResets + OutRsts",
        |_, tcp| tcp.resets.into()).lower_is_better().heading("Reset");
    ATTEMPT_FAILS_PER_SECOND = Figure::new("AttF/s", "attempt_fails_per_second", Unit::PerSecond, "AttemptFails",
        |_, tcp| tcp.attempt_fails.into()).lower_is_better().heading("AttF");
    RETRANSMITTED_RATIO = Figure::new("%ReTX", "retransmitted_ratio", Unit::Percent, "RetransSegs ÷ OutSegs",
        |_, tcp| tcp.retransmitted_share.into()).lower_is_better().value_of(Kind::TcpRetransmits);
    CONNECTIONS_IN_PER_SECOND = Figure::new("InConn/s", "connections_in_per_second", Unit::PerSecond, "PassiveOpens",
        |_, tcp| tcp.connections_in.into()).heading("InCon");
    CONNECTIONS_OUT_PER_SECOND = Figure::new("OutCon/s", "connections_out_per_second", Unit::PerSecond, "ActiveOpens",
        |_, tcp| tcp.connections_out.into()).heading("OutCon");
    LISTEN_DROPS_PER_SECOND = Figure::new("Drops/s", "listen_drops_per_second", Unit::PerSecond,
        "ListenDrops, overflows included",
        |_, tcp| tcp.listen_drops.into()).lower_is_better().heading("Drops");
    ESTABLISHED = Figure::new("Estab", "established", Unit::Count, "connections at the end",
        |_, tcp| tcp.established.into()).hidden_by_default();
    RETRANSMITTED_PER_SECOND = Figure::new("ReTX/s", "retransmitted_per_second", Unit::PerSecond, "RetransSegs",
        |_, tcp| tcp.segments_retransmitted.into()).hidden_by_default();
    SYN_RETRANSMITS_PER_SECOND = Figure::new("SynReTX/s", "syn_retransmits_per_second", Unit::PerSecond, "TCPSynRetrans",
        |_, tcp| tcp.syn_retransmits.into()).hidden_by_default().heading("SynReTX");
    LISTEN_OVERFLOWS_PER_SECOND = Figure::new("Overfl/s", "listen_overflows_per_second", Unit::PerSecond, "ListenOverflows",
        |_, tcp| tcp.listen_overflows.into()).hidden_by_default();
    SYN_COOKIES_SENT_PER_SECOND = Figure::new("SynCk/s", "syn_cookies_sent_per_second", Unit::PerSecond, "SyncookiesSent",
        |_, tcp| tcp.syn_cookies_sent.into()).hidden_by_default();
    SYN_COOKIES_RECEIVED_PER_SECOND = Figure::new("SynCkIn/s", "syn_cookies_received_per_second", Unit::PerSecond,
        "SyncookiesRecv",
        |_, tcp| tcp.syn_cookies_received.into()).hidden_by_default();
    SYN_QUEUE_FULL_DROPS_PER_SECOND = Figure::new("SynDrop/s", "syn_queue_full_drops_per_second", Unit::PerSecond,
        "TCPReqQFullDrop",
        |_, tcp| tcp.syn_queue_full_drops.into()).hidden_by_default();
}

pub static UDP_TABLE: TypedTable<ProtocolSpan> = TypedTable {
    name: "udp",
    description: "UDP of the network namespace: nicstat -u's columns",
    columns: &[UDP_COLUMNS],
    key_columns: &[],
    column_sets: &[],
    default_sort: &DATAGRAMS_OUT_PER_SECOND,
    pid_column: None,
    for_each_row,
    is_idle: |udp| udp.udp_in.is_none_or(is_zero) && udp.udp_out.is_none_or(is_zero),
    capacity: unit_capacity,
};

columns! {
    UDP_COLUMNS: ProtocolSpan;

    DATAGRAMS_IN_PER_SECOND = Figure::new("InDG/s", "datagrams_in_per_second", Unit::PerSecond, "InDatagrams",
        |_, udp| udp.udp_in.into()).heading("InDG");
    DATAGRAMS_OUT_PER_SECOND = Figure::new("OutDG/s", "datagrams_out_per_second", Unit::PerSecond, "OutDatagrams",
        |_, udp| udp.udp_out.into()).heading("OutDG");
    DATAGRAM_ERRORS_IN_PER_SECOND = Figure::new("InErr/s", "datagram_errors_in_per_second", Unit::PerSecond, "InErrors",
        |_, udp| udp.udp_errors_in.into()).lower_is_better().heading("InErr");
    DATAGRAM_ERRORS_OUT_PER_SECOND = Figure::new("OutErr/s", "datagram_errors_out_per_second", Unit::PerSecond, "SndbufErrors",
        |_, udp| udp.udp_errors_out.into()).lower_is_better().heading("OutErr");
}

fn for_each_row(input: &FigureInput, show: &mut dyn FnMut(&ProtocolSpan)) {
    show(&input.interval.network.protocols);
}

fn is_zero(rate: PerSecond) -> bool {
    rate.0 == 0.0
}

fn bytes_per_second(kilobytes: Option<PerSecond>) -> Cell {
    kilobytes.map(|kilobytes| kilobytes.0 * 1024.0).into()
}
