//! The figures of the subcommand nicstat: a line for each interface, one for TCP, one for UDP.
//!
//! The default formulas are those of `interval::network`. With --compat they are those of nicstat 1.95, bit for bit, so that lines can
//! be compared with old logs; docs/nicstat.md lists the differences.

use crate::ids::NicId;
use crate::interval::network::{Link, paired_with_older};
use crate::sample::Reading;
use crate::sample::network::{DirectionCounters, Duplex, Nic, Protocols};
use crate::units::Counter;

/// Which formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Corrected for a modern kernel; what is not known has no value
    Fixed,
    /// As nicstat 1.95 has it
    Compat,
}

/// One interface over one interval (or since boot). A figure is `None` where a counter fell or the speed is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct NicLine {
    pub id: NicId,
    pub rx: DirectionRates,
    pub tx: DirectionRates,
    /// Per cent: the larger direction on full duplex, both added otherwise
    pub utilization: Option<f64>,
    /// A second
    pub saturation: Option<f64>,
    pub collisions: Option<f64>,
    /// NoCP: packets that came and were not taken, per second
    pub nocanput: Option<f64>,
}

/// One direction; everything per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionRates {
    pub bytes: Option<f64>,
    pub packets: Option<f64>,
    /// Bytes a packet; 0 without packets
    pub average_bytes: Option<f64>,
    /// Per cent of the link's speed
    pub utilization: Option<f64>,
    pub errors: Option<f64>,
}

/// The line TCP; everything per second, but for the share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpLine {
    /// KB of 1024 bytes: of all of IP (IpExt), for TCP alone is not counted; compat 0
    pub kilobytes_in: Option<f64>,
    pub kilobytes_out: Option<f64>,
    pub segments_in: Option<f64>,
    pub segments_out: Option<f64>,
    /// EstabResets + OutRsts
    pub resets: Option<f64>,
    pub attempt_fails: Option<f64>,
    /// RetransSegs in per cent of OutSegs; compat 0
    pub retransmitted_percent: Option<f64>,
    /// PassiveOpens
    pub connections_in: Option<f64>,
    /// ActiveOpens
    pub connections_out: Option<f64>,
    /// ListenDrops, which contains ListenOverflows; compat 0, since it looks for a header that no kernel since 2.6.26 has
    pub listen_drops: Option<f64>,
}

/// The line UDP; everything per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UdpLine {
    pub datagrams_in: Option<f64>,
    pub datagrams_out: Option<f64>,
    pub errors_in: Option<f64>,
    /// SndbufErrors
    pub errors_out: Option<f64>,
}

/// Seconds since the older sample and since boot.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed {
    /// The older sample; 0 without one
    pub since_older: f64,
    pub since_boot: f64,
}

/// Growth per second between two counters; from 0 where there is no older one: since boot.
#[derive(Clone, Copy, Debug)]
struct RateCalculator {
    arithmetic: Arithmetic,
    seconds: f64,
}

impl RateCalculator {
    fn per_second(self, newer: Counter, older: Option<Counter>) -> Option<f64> {
        let older = older.unwrap_or(Counter(0));
        let growth = match self.arithmetic {
            Arithmetic::Fixed => newer.since(older)?,
            // What nicstat's unsigned subtraction gives.
            Arithmetic::Compat => newer.0.wrapping_sub(older.0),
        };
        (self.seconds > 0.0).then(|| growth as f64 / self.seconds)
    }

    fn optional_per_second(self, newer: Option<Counter>, older: Option<Option<Counter>>) -> Option<f64> {
        match older {
            Some(older) => self.per_second(newer?, Some(older?)),
            None => self.per_second(newer?, None),
        }
    }
}

/// Every interface of `newer` with a packet in its life, since `older`; since boot without one. An interface that was not
/// there has no line yet (compat: its figures since boot).
pub fn interface_lines(
    older: Option<&[Nic]>,
    newer: &[Nic],
    since: Elapsed,
    arithmetic: Arithmetic,
    link: impl Fn(&Nic) -> Link,
) -> Vec<NicLine> {
    let rates = RateCalculator { arithmetic, seconds: if older.is_some() { since.since_older } else { since.since_boot } };
    let lines = newer.iter().zip(paired_with_older(older.unwrap_or_default(), newer));
    let lines = lines.filter(|(nic, _)| nic.rx.packets.0 > 0 || nic.tx.packets.0 > 0).filter_map(|(nic, before)| {
        match (older, before, arithmetic) {
            (Some(_), None, Arithmetic::Fixed) => None,
            (Some(_), None, Arithmetic::Compat) => {
                Some(interface_line(None, nic, RateCalculator { seconds: since.since_boot, ..rates }, link(nic)))
            }
            _ => Some(interface_line(before, nic, rates, link(nic))),
        }
    });
    lines.collect()
}

fn interface_line(older: Option<&Nic>, newer: &Nic, rates: RateCalculator, link: Link) -> NicLine {
    let compat = rates.arithmetic == Arithmetic::Compat;
    // Speed 0 is "no figure" there, and reads 0.
    let speed = link.speed_mbps.map(|mbps| f64::from(mbps) * 1e6).filter(|speed| *speed > 0.0);
    let share = |bytes: Option<f64>| match speed {
        Some(speed) => bytes.map(|bytes| (bytes * 800.0 / speed).min(100.0)),
        None => compat.then_some(0.0),
    };
    let rx = direction_rates(older.map(|nic| &nic.rx), &newer.rx, rates, share);
    let tx = direction_rates(older.map(|nic| &nic.tx), &newer.tx, rates, share);
    let utilization = match link.duplex {
        Some(Duplex::Full) => rx.utilization.zip(tx.utilization).map(|(rx, tx)| rx.max(tx)),
        _ => share(rx.bytes.zip(tx.bytes).map(|(rx, tx)| rx + tx)),
    };
    let rate = |field: fn(&Nic) -> Counter| rates.per_second(field(newer), older.map(field));
    let missed = rates.optional_per_second(newer.rx_missed, older.map(|nic| nic.rx_missed)).unwrap_or(0.0);
    let (collisions, carrier) = (rate(|nic| nic.collisions), rate(|nic| nic.carrier_losses));
    let common = [rate(|nic| nic.rx.dropped), rate(|nic| nic.tx.dropped), rate(|nic| nic.tx.fifo_errors), collisions, carrier];
    let other = match rates.arithmetic {
        Arithmetic::Compat => rx.errors,
        Arithmetic::Fixed => rate(|nic| nic.rx.fifo_errors),
    };
    let saturation = common.into_iter().chain([other]).try_fold(0.0, |sum, piece| Some(sum + piece?));
    let nohandler = rates.optional_per_second(newer.rx_nohandler, older.map(|nic| nic.rx_nohandler)).unwrap_or(0.0);
    let not_taken = Some(if compat { 0.0 } else { nohandler + missed });
    NicLine { id: newer.id.clone(), rx, tx, utilization, saturation, collisions, nocanput: not_taken }
}

fn direction_rates(
    older: Option<&DirectionCounters>,
    newer: &DirectionCounters,
    rates: RateCalculator,
    share: impl Fn(Option<f64>) -> Option<f64>,
) -> DirectionRates {
    let bytes = rates.per_second(newer.bytes, older.map(|side| side.bytes));
    let packets = rates.per_second(newer.packets, older.map(|side| side.packets));
    let each = |(bytes, packets): (f64, f64)| if packets > 0.0 { bytes / packets } else { 0.0 };
    DirectionRates {
        bytes,
        packets,
        average_bytes: bytes.zip(packets).map(each),
        utilization: share(bytes),
        errors: rates.per_second(newer.errors, older.map(|side| side.errors)),
    }
}

/// The line TCP of two readings of the network namespace; since boot without `older`.
pub fn tcp_line(older: Option<&Protocols>, newer: &Protocols, since: Elapsed, arithmetic: Arithmetic) -> TcpLine {
    let rates = RateCalculator { arithmetic, seconds: if older.is_some() { since.since_older } else { since.since_boot } };
    let Ok(now) = &newer.tcp else { return TcpLine::default() };
    // A reading that failed is no reading of 0: no figure can be had from it.
    let Ok(before) = older.map(|older| older.tcp).transpose() else { return TcpLine::default() };
    let rate = |field: fn(&crate::sample::network::Tcp) -> Counter| rates.per_second(field(now), before.as_ref().map(field));
    let sent = rate(|tcp| tcp.segments_out);
    let again = rate(|tcp| tcp.segments_retransmitted);
    let compat = arithmetic == Arithmetic::Compat;
    let ext = |field: fn(&crate::sample::network::TcpExt) -> Option<Counter>| {
        rates.optional_per_second(
            reading_counter(&newer.tcp_ext, field),
            older.map(|older| reading_counter(&older.tcp_ext, field)),
        )
    };
    let octets = |field: fn(&(Counter, Counter)) -> Counter| {
        let octets = |protocols: &Protocols| protocols.ip_octets.as_ref().ok().map(field);
        rates.optional_per_second(octets(newer), older.map(octets)).map(|bytes| bytes / 1024.0)
    };
    let zero = |figure: Option<f64>| if compat { Some(0.0) } else { figure };
    TcpLine {
        kilobytes_in: zero(octets(|octets| octets.0)),
        kilobytes_out: zero(octets(|octets| octets.1)),
        segments_in: rate(|tcp| tcp.segments_in),
        segments_out: sent,
        resets: rate(|tcp| Counter(tcp.established_resets.0.saturating_add(tcp.resets_out.0))),
        attempt_fails: rate(|tcp| tcp.attempt_fails),
        retransmitted_percent: zero(again.zip(sent).map(|(again, sent)| if sent > 0.0 { again * 100.0 / sent } else { 0.0 })),
        connections_in: rate(|tcp| tcp.passive_opens),
        connections_out: rate(|tcp| tcp.active_opens),
        listen_drops: zero(ext(|ext| ext.listen_drops)),
    }
}

/// The line UDP of two readings of the network namespace; since boot without `older`.
pub fn udp_line(older: Option<&Protocols>, newer: &Protocols, since: Elapsed, arithmetic: Arithmetic) -> UdpLine {
    let rates = RateCalculator { arithmetic, seconds: if older.is_some() { since.since_older } else { since.since_boot } };
    let rate = |field: fn(&crate::sample::network::Udp) -> Option<Counter>| {
        rates.optional_per_second(reading_counter(&newer.udp, field), older.map(|older| reading_counter(&older.udp, field)))
    };
    UdpLine {
        datagrams_in: rate(|udp| Some(udp.datagrams_in)),
        datagrams_out: rate(|udp| Some(udp.datagrams_out)),
        errors_in: rate(|udp| Some(udp.errors_in)),
        errors_out: rate(|udp| udp.send_buffer_errors),
    }
}

fn reading_counter<T>(reading: &Reading<T>, field: impl Fn(&T) -> Option<Counter>) -> Option<Counter> {
    reading.as_ref().ok().and_then(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn nic(name: &str, ifindex: u32, bytes: u64, packets: u64) -> Nic {
        let direction = synthetic::traffic(bytes, packets);
        synthetic::nic(ifindex, name).rx(direction).tx(direction).build()
    }

    fn lines(older: &[Nic], newer: &[Nic], arithmetic: Arithmetic, link: Link) -> Vec<NicLine> {
        interface_lines(Some(older), newer, Elapsed { since_older: 2.0, since_boot: 1000.0 }, arithmetic, |_| link)
    }

    #[test]
    fn half_and_unknown_duplex_add_both_directions() {
        let (older, newer) = ([nic("a", 1, 0, 1)], [nic("a", 1, 5_000_000, 1001)]);
        let percent = |duplex| {
            let line = lines(&older, &newer, Arithmetic::Fixed, Link { speed_mbps: Some(100), duplex });
            line[0].utilization.unwrap()
        };
        assert_eq!([Some(Duplex::Full), Some(Duplex::Half), None].map(percent), [20.0, 40.0, 40.0]);
        assert_eq!(lines(&older, &newer, Arithmetic::Fixed, Link::default())[0].utilization, None);
        assert_eq!(lines(&older, &newer, Arithmetic::Compat, Link::default())[0].utilization, Some(0.0));
        let full = Link { speed_mbps: Some(10), duplex: Some(Duplex::Full) };
        assert_eq!(lines(&older, &newer, Arithmetic::Fixed, full)[0].utilization, Some(100.0), "and not 200");
    }

    #[test]
    fn a_counter_that_fell_has_no_rate_and_compat_an_absurd_one() {
        let (older, newer) = ([nic("a", 1, u64::from(u32::MAX), 100)], [nic("a", 1, 1000, 102)]);
        let fixed = &lines(&older, &newer, Arithmetic::Fixed, Link::default())[0];
        assert_eq!((fixed.rx.bytes, fixed.rx.average_bytes, fixed.rx.packets), (None, None, Some(1.0)));
        let compat = &lines(&older, &newer, Arithmetic::Compat, Link::default())[0];
        assert!(compat.rx.bytes.unwrap() > 9e18);
    }

    #[test]
    fn who_appears_has_no_line_yet_and_who_goes_none_any_more() {
        let (older, newer) = ([nic("a", 1, 10, 1), nic("gone", 2, 10, 1)], [nic("a", 1, 10, 1), nic("new", 3, 5000, 5)]);
        let names = |lines: Vec<NicLine>| lines.iter().map(|line| line.id.ifindex).collect::<Vec<_>>();
        assert_eq!(names(lines(&older, &newer, Arithmetic::Fixed, Link::default())), [1]);
        let compat = lines(&older, &newer, Arithmetic::Compat, Link::default());
        assert_eq!(compat[1].rx.bytes, Some(5.0), "since boot");
        // The same name with another index is another interface.
        assert_eq!(names(lines(&[nic("a", 1, 10, 1)], &[nic("a", 9, 20, 2)], Arithmetic::Fixed, Link::default())), [0; 0]);
    }

    #[test]
    fn no_packets_no_average() {
        let line = &lines(&[nic("a", 1, 10, 1)], &[nic("a", 1, 10, 1)], Arithmetic::Fixed, Link::default())[0];
        assert_eq!((line.rx.average_bytes, line.rx.packets), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn saturation_leaves_errors_to_the_extended_form() {
        let older = nic("a", 1, 10, 1);
        let mut newer = older.clone();
        (newer.rx.errors, newer.rx.fifo_errors) = (Counter(200), Counter(20));
        newer.rx.dropped = Counter(2);
        let sat = |arithmetic| {
            lines(std::slice::from_ref(&older), std::slice::from_ref(&newer), arithmetic, Link::default())[0].saturation
        };
        assert_eq!((sat(Arithmetic::Fixed), sat(Arithmetic::Compat)), (Some(11.0), Some(101.0)));
    }
}
