//! The columns of a remote host; only the screens show them.

use super::{Column, Precision, Unit};
use crate::findings::evaluated_rtt;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};

type Figure = Column<RemoteHostSpan>;

pub static CONNECTIONS: Figure =
    Figure::new("conns", "connections", Unit::Count, "TCP connections at the later scan", |_, host| host.connections.into());

pub static RECEIVED_BYTES_PER_SECOND: Figure =
    Figure::new("rKB/s", "received_bytes_per_second", Unit::KilobytesPerSecond, "payload received from it", |_, host| {
        host.kilobytes_in.map(|rate| rate.0 * 1024.0).into()
    });

pub static SENT_BYTES_PER_SECOND: Figure =
    Figure::new("wKB/s", "sent_bytes_per_second", Unit::KilobytesPerSecond, "payload that it acknowledged", |_, host| {
        host.kilobytes_out.map(|rate| rate.0 * 1024.0).into()
    });

pub static RTT_SECONDS: Figure =
    Figure::new("rtt", "rtt_seconds", Unit::Milliseconds, "smoothed round-trip time, mean of its connections", |_, host| {
        evaluated_rtt(host).map(|rtt| rtt.srtt).into()
    })
    .heading("rtt ms")
    .lower_is_better();

pub static MIN_RTT_SECONDS: Figure =
    Figure::new("min", "min_rtt_seconds", Unit::Milliseconds, "minimum round-trip time, mean of its connections", |_, host| {
        evaluated_rtt(host).and_then(|rtt| rtt.min_rtt).into()
    })
    .reference();

pub static RTT_MULTIPLE: Figure = Figure::new("×min", "rtt_multiple", Unit::Count, "rtt ÷ min", |_, host| {
    evaluated_rtt(host).and_then(RttSpan::srtt_to_min_ratio).into()
})
.precision(Precision::TwoDecimals)
.lower_is_better();

pub static RETRANSMITTED_PER_SECOND: Figure =
    Figure::new("retr/s", "retransmitted_per_second", Unit::PerSecond, "segments retransmitted to it", |_, host| {
        host.segments_retransmitted.into()
    })
    .lower_is_better();
