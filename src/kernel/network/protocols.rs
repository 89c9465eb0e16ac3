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
    let mut counters = Udp6::default();
    let mut is_complete = false;
    for line in lines(snmp6).filter(|line| line.starts_with(b"Udp6")) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(parse_u64).map(Counter)) else { continue };
        match name {
            b"Udp6InDatagrams" => (counters.datagrams_in, is_complete) = (value, true),
            b"Udp6InErrors" => counters.errors_in = value,
            b"Udp6OutDatagrams" => counters.datagrams_out = value,
            b"Udp6RcvbufErrors" => counters.receive_buffer_errors = Some(value),
            b"Udp6SndbufErrors" => counters.send_buffer_errors = Some(value),
            _ => {}
        }
    }
    if is_complete { Ok(counters) } else { Err(Absent::Malformed) }
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
