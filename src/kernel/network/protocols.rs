//! Parses /proc/net/snmp and /proc/net/netstat, which have a line of names and a line of values for each prefix, and /proc/net/snmp6,
//! which has a line for each counter.

use crate::kernel::fields::{lines, parse_u64, words};
use crate::sample::network::{Tcp, TcpExt, Udp, Udp6};
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// The lines `Tcp:` of /proc/net/snmp.
pub fn parse_tcp(snmp: &[u8]) -> Reading<Tcp> {
    let table = NamedValues::parse(snmp, b"Tcp:")?;
    table
        .read_into(|counter| {
            Some(Tcp {
                active_opens: counter("ActiveOpens")?,
                passive_opens: counter("PassiveOpens")?,
                attempt_fails: counter("AttemptFails")?,
                established_resets: counter("EstabResets")?,
                established: counter("CurrEstab")?.0,
                segments_in: counter("InSegs")?,
                segments_out: counter("OutSegs")?,
                segments_retransmitted: counter("RetransSegs")?,
                errors_in: counter("InErrs")?,
                resets_out: counter("OutRsts")?,
            })
        })
        .ok_or(Absent::Malformed)
}

/// The lines `Udp:` of /proc/net/snmp.
pub fn parse_udp(snmp: &[u8]) -> Reading<Udp> {
    let table = NamedValues::parse(snmp, b"Udp:")?;
    table
        .read_into(|counter| {
            Some(Udp {
                datagrams_in: counter("InDatagrams")?,
                no_ports: counter("NoPorts")?,
                errors_in: counter("InErrors")?,
                datagrams_out: counter("OutDatagrams")?,
                receive_buffer_errors: counter("RcvbufErrors"),
                send_buffer_errors: counter("SndbufErrors"),
            })
        })
        .ok_or(Absent::Malformed)
}

/// The lines `TcpExt:` of /proc/net/netstat.
pub fn parse_tcp_ext(netstat: &[u8]) -> Reading<TcpExt> {
    let table = NamedValues::parse(netstat, b"TcpExt:")?;
    table
        .read_into(|counter| {
            Some(TcpExt {
                listen_overflows: counter("ListenOverflows"),
                listen_drops: counter("ListenDrops"),
                syn_retransmits: counter("TCPSynRetrans"),
                timeouts: counter("TCPTimeouts"),
                lost_retransmits: counter("TCPLostRetransmit"),
                backlog_drops: counter("TCPBacklogDrop"),
                syn_cookies_sent: counter("SyncookiesSent"),
                syn_cookies_received: counter("SyncookiesRecv"),
                syn_cookies_failed: counter("SyncookiesFailed"),
                syn_queue_full_cookies: counter("TCPReqQFullDoCookies"),
                syn_queue_full_drops: counter("TCPReqQFullDrop"),
            })
        })
        .ok_or(Absent::Malformed)
}

/// TCPWinProbe of the lines `TcpExt:` of /proc/net/netstat: probes of a closed window.
pub fn parse_window_probes(netstat: &[u8]) -> Option<Counter> {
    NamedValues::parse(netstat, b"TcpExt:").ok()?.read_into(|counter| counter("TCPWinProbe"))
}

/// InOctets and OutOctets of the lines `IpExt:` of /proc/net/netstat.
pub fn parse_ip_octets(netstat: &[u8]) -> Reading<(Counter, Counter)> {
    let table = NamedValues::parse(netstat, b"IpExt:")?;
    table.read_into(|counter| Some((counter("InOctets")?, counter("OutOctets")?))).ok_or(Absent::Malformed)
}

/// UDP over IPv6: the lines `Udp6…` of /proc/net/snmp6.
pub fn parse_udp6(snmp6: &[u8]) -> Reading<Udp6> {
    const NAMES: [&[u8]; 5] =
        [b"Udp6InDatagrams", b"Udp6InErrors", b"Udp6OutDatagrams", b"Udp6RcvbufErrors", b"Udp6SndbufErrors"];
    let mut counters = [None; NAMES.len()];
    for line in lines(snmp6).filter(|line| line.starts_with(b"Udp6")) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(parse_u64).map(Counter)) else { continue };
        if let Some((_, counter)) = NAMES.iter().zip(&mut counters).find(|(known, _)| **known == name) {
            *counter = Some(value);
        }
    }
    let [Some(datagrams_in), Some(errors_in), Some(datagrams_out), receive_buffer_errors, send_buffer_errors] = counters else {
        return Err(Absent::Malformed);
    };
    Ok(Udp6 { datagrams_in, errors_in, datagrams_out, receive_buffer_errors, send_buffer_errors })
}

/// The names of one prefix and their values.
struct NamedValues<'a> {
    cells: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> NamedValues<'a> {
    /// `None` unless both lines have the same number of words: values belong to names by position.
    fn parse(bytes: &'a [u8], prefix: &[u8]) -> Reading<NamedValues<'a>> {
        let mut lines = lines(bytes).filter_map(|line| line.strip_prefix(prefix));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return Err(Absent::NoSuchFile) };
        let (names, values): (Vec<_>, Vec<_>) = (words(names).collect(), words(values).collect());
        if names.len() != values.len() {
            return Err(Absent::Malformed);
        }
        Ok(NamedValues { cells: names.into_iter().zip(values).collect() })
    }

    fn read_into<T>(&self, fill: impl FnOnce(&dyn Fn(&str) -> Option<Counter>) -> Option<T>) -> Option<T> {
        fill(&|name| {
            let (_, value) = self.cells.iter().find(|(other, _)| *other == name.as_bytes())?;
            parse_u64(value).map(Counter)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that is missing once would begin at 0 in the next sample.
    #[test]
    fn udp6_without_one_of_its_counters_is_malformed() {
        let lines = ["Udp6InDatagrams 100", "Udp6InErrors 4", "Udp6OutDatagrams 90", "Udp6RcvbufErrors 3"];
        let without = |left_out: usize| {
            let kept: Vec<&str> = lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
            parse_udp6(format!("{}\nUdp6InErrors x\n", kept.join("\n")).as_bytes())
        };
        let whole = without(lines.len()).unwrap();
        assert_eq!((whole.datagrams_in, whole.errors_in, whole.datagrams_out), (Counter(100), Counter(4), Counter(90)));
        assert_eq!((whole.receive_buffer_errors, whole.send_buffer_errors), (Some(Counter(3)), None));
        assert!((0..3).all(|left_out| without(left_out) == Err(Absent::Malformed)));
        assert_eq!(without(3).unwrap().receive_buffer_errors, None);
    }
}
