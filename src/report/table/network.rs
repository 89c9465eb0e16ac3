//! `nic`: nicstat's columns, each direction apart, with what was lost and what waits in the queueing discipline.

use super::column::{Column, Precision, Unit};
use super::{Cell, TypedTable, unit_capacity};
use crate::interval::network::NicSpan;

type Figure = Column<NicSpan>;

pub(super) static NIC: TypedTable<NicSpan> = TypedTable {
    name: "nic",
    description: "a row a network interface: nicstat's columns, and losses",
    columns: &[&[
        Figure::text("Int", "name", "the interface", |_, nic| (&nic.id.name).into()),
        Figure::new("rKB/s", "received_bytes_per_second", Unit::KilobytesPerSecond, "received", |_, nic| {
            (nic.rx.kilobytes.0 * 1024.0).into()
        }),
        Figure::new("wKB/s", "sent_bytes_per_second", Unit::KilobytesPerSecond, "sent", |_, nic| {
            (nic.tx.kilobytes.0 * 1024.0).into()
        }),
        Figure::new("rPk/s", "received_packets_per_second", Unit::PerSecond, "packets received", |_, nic| {
            nic.rx.packets.into()
        }),
        Figure::new("wPk/s", "sent_packets_per_second", Unit::PerSecond, "packets sent", |_, nic| nic.tx.packets.into()),
        Figure::new("rAvs", "received_size_bytes", Unit::Count, "mean bytes of a received packet", |_, nic| {
            nic.rx.average_bytes.into()
        })
        .precision(Precision::TwoDecimals),
        Figure::new("wAvs", "sent_size_bytes", Unit::Count, "mean bytes of a sent packet", |_, nic| {
            nic.tx.average_bytes.into()
        })
        .precision(Precision::TwoDecimals),
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
        Figure::new("Sat", "saturation_per_second", Unit::PerSecond, "packets lost or put off for want of room", |_, nic| {
            nic.saturation.into()
        }),
        Figure::new("IErr", "receive_errors_per_second", Unit::PerSecond, "receive errors", |_, nic| nic.rx.errors.into())
            .hidden_by_default(),
        Figure::new("OErr", "send_errors_per_second", Unit::PerSecond, "send errors", |_, nic| nic.tx.errors.into())
            .hidden_by_default(),
        Figure::new("rDrop", "receive_drops_per_second", Unit::PerSecond, "received packets dropped", |_, nic| {
            nic.rx.dropped.into()
        })
        .hidden_by_default(),
        Figure::new("wDrop", "send_drops_per_second", Unit::PerSecond, "packets dropped before they were sent", |_, nic| {
            nic.tx.dropped.into()
        })
        .hidden_by_default(),
        Figure::new("Coll", "collisions_per_second", Unit::PerSecond, "collisions", |_, nic| nic.collisions.into())
            .hidden_by_default(),
        Figure::new(
            "qBacklog",
            "qdisc_backlog_bytes",
            Unit::Kilobytes,
            "waiting in the queueing discipline at the end",
            |_, nic| nic.qdisc.as_ref().map(|qdisc| qdisc.backlog_bytes).into(),
        )
        .hidden_by_default(),
        Figure::new("qDrop", "qdisc_dropped_per_second", Unit::PerSecond, "dropped by the queueing discipline", |_, nic| {
            nic.qdisc.as_ref().map_or(Cell::Unknown, |qdisc| qdisc.dropped.into())
        })
        .hidden_by_default(),
        Figure::new(
            "qOver",
            "qdisc_overlimits_per_second",
            Unit::PerSecond,
            "times the queueing discipline held back",
            |_, nic| nic.qdisc.as_ref().map_or(Cell::Unknown, |qdisc| qdisc.overlimits.into()),
        )
        .hidden_by_default(),
    ]],
    key_columns: &["Int"],
    column_sets: &[],
    single_row: false,
    default_sort: "wKB/s",
    for_each_row: |look, show| look.interval.nics.iter().for_each(show),
    is_idle: |nic| nic.rx.packets.0 == 0.0 && nic.tx.packets.0 == 0.0,
    capacity: unit_capacity,
};
