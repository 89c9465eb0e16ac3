//! Selects the connections that wait for their remote end: by state and timer, and by the growth of their counters since the previous
//! scan. The limits here decide what a sample keeps; the rules of `findings` decide what is reported.

use std::net::SocketAddr;

use super::connection::{Connection, TcpInfo, TcpTimer};
use crate::sample::network::waiting_connections::ConnectionWait;

/// Connections that are kept of one scan.
pub const MAX_WAITING_SOCKETS: usize = 512;
/// Share of the time between two scans in which the window, or the send buffer, was full.
const MIN_FULL_SHARE: f64 = 0.8;
/// The window of a receiver that reads slowly is closed for shorter times.
const MIN_CLOSED_WINDOW_NS: u64 = 4_000_000_000;

/// A connection that waits for its remote end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingSocket {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub inode: u32,
    pub wait: ConnectionWait,
    /// CLOCK_BOOTTIME
    pub since_ns: u64,
    pub queued_bytes: u32,
    pub retries: u8,
}

/// The history of a connection over the scans, CLOCK_BOOTTIME nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// When data was last acknowledged
    pub acknowledged_ns: u64,
    /// What it waits for, and since when
    pub waiting: Option<(ConnectionWait, u64)>,
}

/// The previous scan of a connection.
#[derive(Clone, Copy, Debug)]
pub struct PreviousScan<'a> {
    pub tcp_info: &'a TcpInfo,
    pub progress: Progress,
    pub elapsed_us: u64,
}

impl Progress {
    /// The history after a scan at `now_ns`. Without a previous scan the times are those that the connection's counters show.
    pub fn update(before: Option<PreviousScan<'_>>, now: &Connection, now_ns: u64) -> Progress {
        let ms_ago = |ms: u64| now_ns.saturating_sub(ms.saturating_mul(1_000_000));
        let acknowledged_ns = match before {
            Some(before) if before.tcp_info.bytes_acked == now.tcp_info.bytes_acked => before.progress.acknowledged_ns,
            Some(_) => now_ns,
            None => ms_ago(u64::from(now.tcp_info.last_data_sent_ms)),
        };
        let wait = connection_wait(before, now, now_ns.saturating_sub(acknowledged_ns));
        let since_ns = |wait: ConnectionWait| {
            let waited = before.and_then(|before| before.progress.waiting);
            let started_ns = match wait {
                ConnectionWait::Connect => ms_ago(min_connect_seconds(now.retries).saturating_mul(1000)),
                ConnectionWait::Acknowledgement | ConnectionWait::ClosedWindow => acknowledged_ns,
                ConnectionWait::FullWindow | ConnectionWait::SendBuffer | ConnectionWait::NameServer => now_ns,
            };
            // A receiver that reads slowly closes its window now and then.
            let is_same = |other: ConnectionWait| {
                other == wait || (wait == ConnectionWait::FullWindow && other == ConnectionWait::ClosedWindow)
            };
            waited.filter(|(other, _)| is_same(*other)).map_or(started_ns, |(_, since_ns)| since_ns.min(started_ns))
        };
        Progress { acknowledged_ns, waiting: wait.map(|wait| (wait, since_ns(wait))) }
    }
}

/// What a connection waits for; `None` if it makes progress.
fn connection_wait(before: Option<PreviousScan<'_>>, now: &Connection, unacknowledged_ns: u64) -> Option<ConnectionWait> {
    if now.is_connecting() {
        return (now.retries > 0).then_some(ConnectionWait::Connect);
    }
    if !now.can_send() || now.queued_bytes == 0 {
        return None;
    }
    let is_stuck = before.map_or(now.retries > 1, |before| before.tcp_info.bytes_acked == now.tcp_info.bytes_acked);
    match now.timer {
        TcpTimer::WindowProbe if unacknowledged_ns >= MIN_CLOSED_WINDOW_NS => return Some(ConnectionWait::ClosedWindow),
        TcpTimer::Retransmit if is_stuck && now.retries > 0 => return Some(ConnectionWait::Acknowledgement),
        _ => {}
    }
    let before = before?;
    let ([_, older_window, older_buffer], [_, window, buffer]) =
        (before.tcp_info.limit_times_us?, now.tcp_info.limit_times_us?);
    let is_limited = |newer: u64, older: u64| {
        before.elapsed_us > 0 && newer.saturating_sub(older) as f64 >= before.elapsed_us as f64 * MIN_FULL_SHARE
    };
    match () {
        () if is_limited(window, older_window) => Some(ConnectionWait::FullWindow),
        () if is_limited(buffer, older_buffer) => Some(ConnectionWait::SendBuffer),
        () => None,
    }
}

/// Seconds until the kernel sends a connection request for the n-th time again: four times after 1 s, then after 1, 2, 4 … s. Before
/// Linux 6.5, and with net.ipv4.tcp_syn_linear_timeouts 0, it takes longer.
fn min_connect_seconds(retries: u8) -> u64 {
    match u64::from(retries) {
        few @ 0..=4 => few,
        many => 3_u64.saturating_add(1 << (many - 4).min(16)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn connection(timer: TcpTimer, retries: u8, acked: u64, limits: [u64; 3]) -> Connection {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Connection {
            cookie: [0; 8],
            remote_address: address,
            local_address: address,
            ports: (40000, 80),
            state: 1,
            timer,
            timer_ms: None,
            retries,
            unread_bytes: 0,
            queued_bytes: 1000,
            inode: 7,
            is_local: true,
            tcp_info: TcpInfo { bytes_acked: Some(acked), limit_times_us: Some(limits), ..TcpInfo::default() },
        }
    }

    /// One scan a second; the wait after each.
    fn waits(scans: &[Connection]) -> Vec<Option<(ConnectionWait, u64)>> {
        let mut before: Option<(TcpInfo, Progress)> = None;
        let mut list = Vec::new();
        for (second, now) in (100..).zip(scans) {
            let previous = before.as_ref().map(|(tcp_info, progress)| PreviousScan {
                tcp_info,
                progress: *progress,
                elapsed_us: 1_000_000,
            });
            let progress = Progress::update(previous, now, second * SECOND);
            list.push(progress.waiting.map(|(wait, since_ns)| (wait, second - since_ns / SECOND)));
            before = Some((now.tcp_info, progress));
        }
        list
    }

    #[test]
    fn a_window_is_closed_after_seconds_without_progress() {
        let probe = || connection(TcpTimer::WindowProbe, 0, 5, [0; 3]);
        let list = waits(&[probe(), probe(), probe(), probe(), probe(), probe()]);
        assert_eq!(
            list,
            [None, None, None, None, Some((ConnectionWait::ClosedWindow, 4)), Some((ConnectionWait::ClosedWindow, 5))]
        );
    }

    #[test]
    fn a_slow_receiver_makes_progress_while_its_window_is_full() {
        let scans: Vec<Connection> =
            (0..4_u64).map(|n| connection(TcpTimer::WindowProbe, 0, n, [n * 1_000_000, n * 990_000, 0])).collect();
        let full = |seconds| Some((ConnectionWait::FullWindow, seconds));
        assert_eq!(waits(&scans), [None, full(0), full(1), full(2)]);
    }

    #[test]
    fn retransmits_without_an_acknowledgement_and_requests_without_an_answer_wait() {
        let again = |retries| connection(TcpTimer::Retransmit, retries, 5, [0; 3]);
        assert_eq!(
            waits(&[again(0), again(1), again(1)]),
            [None, Some((ConnectionWait::Acknowledgement, 1)), Some((ConnectionWait::Acknowledgement, 2))]
        );
        let moving = [connection(TcpTimer::Retransmit, 1, 5, [0; 3]), connection(TcpTimer::Retransmit, 1, 6, [0; 3])];
        assert_eq!(waits(&moving), [None, None]);
        let connecting = |retries| Connection { state: 2, ..again(retries) };
        assert_eq!(waits(&[connecting(0), connecting(7)]), [None, Some((ConnectionWait::Connect, 11))]);
    }
}
