//! `tcp`, `udp`: nicstat's -t and -u, of the network namespace.

use super::column::{Column, Unit};
use super::{Cell, Look, Typed, of_one};
use crate::interval::network::ProtocolSpan;
use crate::units::PerSecond;

type Figure = Column<ProtocolSpan>;

pub(super) static TCP: Typed<ProtocolSpan> = Typed {
    name: "tcp",
    about: "TCP of the network namespace: nicstat -t's columns",
    columns: &[&[
        Figure::new("InKB/s", "ip_in_bytes_per_second", Unit::KbRate, "received by IP, of all protocols", |_, ip| {
            bytes(ip.ip_kilobytes_in)
        }),
        Figure::new("OutKB/s", "ip_out_bytes_per_second", Unit::KbRate, "sent by IP, of all protocols", |_, ip| {
            bytes(ip.ip_kilobytes_out)
        }),
        Figure::new("InSeg/s", "segments_in_per_second", Unit::Rate, "InSegs", |_, tcp| tcp.segments_in.into()),
        Figure::new("OutSeg/s", "segments_out_per_second", Unit::Rate, "OutSegs, retransmitted ones not included", |_, tcp| {
            tcp.segments_out.into()
        }),
        Figure::new("Reset/s", "resets_per_second", Unit::Rate, "EstabResets + OutRsts", |_, tcp| tcp.resets.into()),
        Figure::new("AttF/s", "attempt_fails_per_second", Unit::Rate, "AttemptFails", |_, tcp| tcp.attempt_fails.into()),
        Figure::new("%ReTX", "retransmitted_ratio", Unit::Percent, "RetransSegs ÷ OutSegs", |_, tcp| {
            tcp.retransmitted_share.into()
        }),
        Figure::new("InConn/s", "connections_in_per_second", Unit::Rate, "PassiveOpens", |_, tcp| tcp.connections_in.into()),
        Figure::new("OutCon/s", "connections_out_per_second", Unit::Rate, "ActiveOpens", |_, tcp| tcp.connections_out.into()),
        Figure::new("Drops/s", "listen_drops_per_second", Unit::Rate, "ListenDrops, overflows included", |_, tcp| {
            tcp.listen_drops.into()
        }),
        Figure::new("Estab", "established", Unit::Count, "connections at the end", |_, tcp| tcp.established.into()).unusual(),
        Figure::new("ReTX/s", "retransmitted_per_second", Unit::Rate, "RetransSegs", |_, tcp| {
            tcp.segments_retransmitted.into()
        })
        .unusual(),
        Figure::new("SynReTX/s", "syn_retransmits_per_second", Unit::Rate, "TCPSynRetrans", |_, tcp| {
            tcp.syn_retransmits.into()
        })
        .unusual(),
        Figure::new("Overfl/s", "listen_overflows_per_second", Unit::Rate, "ListenOverflows", |_, tcp| {
            tcp.listen_overflows.into()
        })
        .unusual(),
    ]],
    key: &[],
    sets: &[],
    single: true,
    measure: "OutSeg/s",
    each: show,
    is_idle: |tcp| tcp.segments_in.is_none_or(is_none) && tcp.segments_out.is_none_or(is_none),
    whole: of_one,
};

pub(super) static UDP: Typed<ProtocolSpan> = Typed {
    name: "udp",
    about: "UDP of the network namespace: nicstat -u's columns",
    columns: &[&[
        Figure::new("InDG/s", "datagrams_in_per_second", Unit::Rate, "InDatagrams", |_, udp| udp.udp_in.into()),
        Figure::new("OutDG/s", "datagrams_out_per_second", Unit::Rate, "OutDatagrams", |_, udp| udp.udp_out.into()),
        Figure::new("InErr/s", "datagram_errors_in_per_second", Unit::Rate, "InErrors", |_, udp| udp.udp_errors_in.into()),
        Figure::new("OutErr/s", "datagram_errors_out_per_second", Unit::Rate, "SndbufErrors", |_, udp| {
            udp.udp_errors_out.into()
        }),
    ]],
    key: &[],
    sets: &[],
    single: true,
    measure: "OutDG/s",
    each: show,
    is_idle: |udp| udp.udp_in.is_none_or(is_none) && udp.udp_out.is_none_or(is_none),
    whole: of_one,
};

fn show(look: &Look, show: &mut dyn FnMut(&ProtocolSpan)) {
    show(&look.interval.protocols);
}

fn is_none(rate: PerSecond) -> bool {
    rate.0 == 0.0
}

fn bytes(kilobytes: Option<PerSecond>) -> Cell {
    kilobytes.map(|kilobytes| kilobytes.0 * 1024.0).into()
}
