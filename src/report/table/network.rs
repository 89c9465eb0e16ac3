//! `nic`: nicstat's columns, each direction apart, with what was lost and what waits in the queueing discipline.

use super::column::{Column, Digits, Unit};
use super::{Cell, Typed, of_one};
use crate::interval::network::NicSpan;

type Figure = Column<NicSpan>;

pub(super) static NIC: Typed<NicSpan> = Typed {
    name: "nic",
    about: "a row a network interface: nicstat's columns, and losses",
    columns: &[&[
        Figure::name("Int", "name", "the interface", |_, nic| (&nic.id.name).into()),
        Figure::new("rKB/s", "received_bytes_per_second", Unit::KbRate, "received", |_, nic| {
            (nic.rx.kilobytes.0 * 1024.0).into()
        }),
        Figure::new("wKB/s", "sent_bytes_per_second", Unit::KbRate, "sent", |_, nic| (nic.tx.kilobytes.0 * 1024.0).into()),
        Figure::new("rPk/s", "received_packets_per_second", Unit::Rate, "packets received", |_, nic| nic.rx.packets.into()),
        Figure::new("wPk/s", "sent_packets_per_second", Unit::Rate, "packets sent", |_, nic| nic.tx.packets.into()),
        Figure::new("rAvs", "received_size_bytes", Unit::Count, "mean bytes of a received packet", |_, nic| {
            nic.rx.average_bytes.into()
        })
        .digits(Digits::Two),
        Figure::new("wAvs", "sent_size_bytes", Unit::Count, "mean bytes of a sent packet", |_, nic| {
            nic.tx.average_bytes.into()
        })
        .digits(Digits::Two),
        Figure::new("%rUtil", "rx_utilization_ratio", Unit::Percent, "received, of the link's speed", |_, nic| {
            nic.rx.utilization.into()
        }),
        Figure::new("%wUtil", "tx_utilization_ratio", Unit::Percent, "sent, of the link's speed", |_, nic| {
            nic.tx.utilization.into()
        }),
        Figure::new(
            "%Util",
            "utilization_ratio",
            Unit::Percent,
            "the larger direction; both where the link takes turns",
            |_, nic| nic.utilization.into(),
        ),
        Figure::new("Sat", "saturation_per_second", Unit::Rate, "packets lost or put off for want of room", |_, nic| {
            nic.saturation.into()
        }),
        Figure::new("IErr", "receive_errors_per_second", Unit::Rate, "receive errors", |_, nic| nic.rx.errors.into()).unusual(),
        Figure::new("OErr", "send_errors_per_second", Unit::Rate, "send errors", |_, nic| nic.tx.errors.into()).unusual(),
        Figure::new("rDrop", "receive_drops_per_second", Unit::Rate, "received packets dropped", |_, nic| {
            nic.rx.dropped.into()
        })
        .unusual(),
        Figure::new("wDrop", "send_drops_per_second", Unit::Rate, "packets dropped before they were sent", |_, nic| {
            nic.tx.dropped.into()
        })
        .unusual(),
        Figure::new("Coll", "collisions_per_second", Unit::Rate, "collisions", |_, nic| nic.collisions.into()).unusual(),
        Figure::new("qBacklog", "qdisc_backlog_bytes", Unit::Kb, "waiting in the queueing discipline at the end", |_, nic| {
            nic.qdisc.as_ref().map(|qdisc| qdisc.backlog_bytes).into()
        })
        .unusual(),
        Figure::new("qDrop", "qdisc_dropped_per_second", Unit::Rate, "dropped by the queueing discipline", |_, nic| {
            nic.qdisc.as_ref().map_or(Cell::Unknown, |qdisc| qdisc.dropped.into())
        })
        .unusual(),
        Figure::new("qOver", "qdisc_overlimits_per_second", Unit::Rate, "times the queueing discipline held back", |_, nic| {
            nic.qdisc.as_ref().map_or(Cell::Unknown, |qdisc| qdisc.overlimits.into())
        })
        .unusual(),
    ]],
    key: &["Int"],
    sets: &[],
    single: false,
    measure: "wKB/s",
    each: |look, show| look.interval.nics.iter().for_each(show),
    is_idle: |nic| nic.rx.packets.0 == 0.0 && nic.tx.packets.0 == 0.0,
    whole: of_one,
};
