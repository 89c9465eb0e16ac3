//! `nic`: the columns of nicstat by direction, with errors, drops and the backlog of the queueing discipline.

use super::{Cell, Column, FigureInput, Precision, TypedTable, Unit, unit_capacity};
use crate::findings::namespace_owner;
use crate::interval::network::NicSpan;
use crate::sample::network::Nic;
use crate::units::Counter;

type Figure = Column<NicSpan>;

pub static NIC_TABLE: TypedTable<NicSpan> = TypedTable {
    name: "nic",
    description: "a row per network interface: nicstat's columns, and losses; interfaces of other network namespaces while they carry \
                  packets",
    columns: &[COLUMNS],
    key_columns: &[&NAME, &NETWORK_NAMESPACE],
    column_sets: &[],
    default_sort: &SENT_BYTES_PER_SECOND,
    pid_column: None,
    for_each_row: |input, show| {
        let inside = input.interval.network.namespaces.iter().flat_map(|namespace| &namespace.nics);
        let carries = |nic: &&NicSpan| nic.rx.packets.0 + nic.tx.packets.0 > 0.0;
        input.interval.network.nics.iter().chain(inside.filter(carries)).for_each(show);
    },
    is_idle: |nic| nic.rx.packets.0 == 0.0 && nic.tx.packets.0 == 0.0,
    capacity: unit_capacity,
};

columns! {
    COLUMNS: NicSpan;

    NAME = Figure::text("Int", "name", "the interface", |_, nic| (&nic.id.name).into());
    RECEIVED_BYTES_PER_SECOND = Figure::new("rKB/s", "received_bytes_per_second", Unit::KilobytesPerSecond, "received",
        |_, nic| (nic.rx.kilobytes.0 * 1024.0).into());
    SENT_BYTES_PER_SECOND = Figure::new("wKB/s", "sent_bytes_per_second", Unit::KilobytesPerSecond, "sent",
        |_, nic| (nic.tx.kilobytes.0 * 1024.0).into());
    RECEIVED_PACKETS_PER_SECOND = Figure::new("rPk/s", "received_packets_per_second", Unit::PerSecond, "packets received",
        |_, nic| nic.rx.packets.into());
    SENT_PACKETS_PER_SECOND = Figure::new("wPk/s", "sent_packets_per_second", Unit::PerSecond, "packets sent",
        |_, nic| nic.tx.packets.into());
    RECEIVED_SIZE_BYTES = Figure::new("rAvs", "received_size_bytes", Unit::Count, "mean bytes of a received packet",
        |_, nic| nic.rx.average_bytes.into()).precision(Precision::TwoDecimals);
    SENT_SIZE_BYTES = Figure::new("wAvs", "sent_size_bytes", Unit::Count, "mean bytes of a sent packet",
        |_, nic| nic.tx.average_bytes.into()).precision(Precision::TwoDecimals);
    RX_UTILIZATION_RATIO = Figure::new("%rUtil", "rx_utilization_ratio", Unit::Percent, "received, share of the link's speed",
        |_, nic| nic.rx.utilization.into());
    TX_UTILIZATION_RATIO = Figure::new("%wUtil", "tx_utilization_ratio", Unit::Percent, "sent, share of the link's speed",
        |_, nic| nic.tx.utilization.into());
    UTILIZATION_RATIO = Figure::new("%Util", "utilization_ratio", Unit::Percent,
        "the busier direction; both added on half duplex",
        |_, nic| nic.utilization.into());
    SATURATION_PER_SECOND = Figure::new("Sat", "saturation_per_second", Unit::PerSecond,
        "packets that the interface lost or repeated: drops, FIFO and carrier errors, collisions",
        |_, nic| nic.saturation.into()).lower_is_better();
    RECEIVED_TOTAL_BYTES = Figure::new("rTotal", "received_total_bytes", Unit::Kilobytes,
        "received since the interface was created",
        |input, nic| input.interval.nic(nic).map(|nic| nic.rx.bytes.0).into()).hidden_by_default().heading("in total");
    SENT_TOTAL_BYTES = Figure::new("wTotal", "sent_total_bytes", Unit::Kilobytes, "sent since the interface was created",
        |input, nic| input.interval.nic(nic).map(|nic| nic.tx.bytes.0).into()).hidden_by_default().heading("out total");
    RECEIVE_ERRORS_PER_SECOND = Figure::new("IErr", "receive_errors_per_second", Unit::PerSecond, "receive errors",
        |_, nic| nic.rx.errors.into()).hidden_by_default().lower_is_better();
    SEND_ERRORS_PER_SECOND = Figure::new("OErr", "send_errors_per_second", Unit::PerSecond, "send errors",
        |_, nic| nic.tx.errors.into()).hidden_by_default().lower_is_better();
    RECEIVE_DROPS_PER_SECOND = Figure::new("rDrop", "receive_drops_per_second", Unit::PerSecond, "received packets dropped",
        |_, nic| nic.rx.dropped.into()).hidden_by_default();
    SEND_DROPS_PER_SECOND = Figure::new("wDrop", "send_drops_per_second", Unit::PerSecond,
        "packets dropped before they were sent",
        |_, nic| nic.tx.dropped.into()).hidden_by_default();
    COLLISIONS_PER_SECOND = Figure::new("Coll", "collisions_per_second", Unit::PerSecond, "collisions",
        |_, nic| nic.collisions.into()).hidden_by_default();
    QDISC_BACKLOG_BYTES = Figure::new("qBacklog", "qdisc_backlog_bytes", Unit::Kilobytes,
        "waiting in the queueing discipline at the end",
        |_, nic| nic.qdisc.as_ref().map(|qdisc| qdisc.backlog_bytes).into()).hidden_by_default().heading("backlog");
    QDISC_DROPPED_PER_SECOND = Figure::new("qDrop", "qdisc_dropped_per_second", Unit::PerSecond,
        "dropped by the queueing discipline",
        |_, nic| nic.qdisc.as_ref().map_or(Cell::Unknown, |qdisc| qdisc.dropped.into())).hidden_by_default();
    QDISC_OVERLIMITS_PER_SECOND = Figure::new("qOver", "qdisc_overlimits_per_second", Unit::PerSecond,
        "times the queueing discipline exceeded its limit (overlimits)",
        |_, nic| nic.qdisc.as_ref().map_or(Cell::Unknown, |qdisc| qdisc.overlimits.into())).hidden_by_default();
    NETWORK_NAMESPACE = Figure::text("netns", "network_namespace",
        "whose network namespace it is in: a container, or a process; none: that of stalltop",
        |input, nic| nic.namespace.and_then(|inode| namespace_owner(input.interval, inode)).as_deref().into());
}

/// The kind of its root queueing discipline; only the screens show it, as the counters that follow, since the interface was created.
pub static QDISC: Figure =
    Figure::text("qdisc", "qdisc", "its queueing discipline", |_, nic| nic.qdisc.as_ref().map(|qdisc| &qdisc.kind).into());
pub static QDISC_DROPPED_TOTAL: Figure =
    Figure::new("q drop", "qdisc_dropped_total", Unit::Count, "dropped by the queueing discipline", |input, nic| {
        since_creation(input, nic, |nic| Some(nic.qdisc.as_ref()?.dropped))
    });
pub static QDISC_OVERLIMITS_TOTAL: Figure = Figure::new(
    "overlimits",
    "qdisc_overlimits_total",
    Unit::Count,
    "times the queueing discipline exceeded its limit",
    |input, nic| since_creation(input, nic, |nic| Some(nic.qdisc.as_ref()?.overlimits)),
);
pub static RECEIVE_DROPS_TOTAL: Figure =
    Figure::new("rx drop", "receive_drops_total", Unit::Count, "received packets dropped", |input, nic| {
        since_creation(input, nic, |nic| Some(nic.rx.dropped))
    });
pub static SEND_DROPS_TOTAL: Figure =
    Figure::new("tx drop", "send_drops_total", Unit::Count, "packets dropped before they were sent", |input, nic| {
        since_creation(input, nic, |nic| Some(nic.tx.dropped))
    });
pub static RECEIVE_ERRORS_TOTAL: Figure =
    Figure::new("rx err", "receive_errors_total", Unit::Count, "receive errors", |input, nic| {
        since_creation(input, nic, |nic| Some(nic.rx.errors))
    });
pub static SEND_ERRORS_TOTAL: Figure = Figure::new("tx err", "send_errors_total", Unit::Count, "send errors", |input, nic| {
    since_creation(input, nic, |nic| Some(nic.tx.errors))
});
pub static RECEIVE_MISSED_TOTAL: Figure = Figure::new(
    "missed",
    "receive_missed_total",
    Unit::Count,
    "received packets for which the device had no room",
    |input, nic| since_creation(input, nic, |nic| nic.rx_missed),
);
pub static CARRIER_LOSSES_TOTAL: Figure =
    Figure::new("carrier", "carrier_losses_total", Unit::Count, "losses of the carrier", |input, nic| {
        since_creation(input, nic, |nic| Some(nic.carrier_losses))
    });

fn since_creation(input: &FigureInput, nic: &NicSpan, counter: fn(&Nic) -> Option<Counter>) -> Cell {
    input.interval.nic(nic).and_then(counter).map(|counter| counter.0).into()
}
