//! Selects the connections that wait for their remote end: by state and timer, by the growth of their counters since the previous
//! scan, and by the times at which data was last sent and received. The limits here decide what a sample keeps, which has sums of
//! these few and not all connections; the rules of `findings` decide what is reported.

use std::cmp::Ordering;
use std::net::SocketAddr;

use super::connection::{Connection, TcpInfo, TcpTimer};
use crate::sample::network::waiting_connections::ConnectionWait;

/// Connections that are kept of one scan.
pub const MAX_WAITING_SOCKETS: usize = 512;
/// Share of the time between two scans in which the window, or the send buffer, was full.
const MIN_FULL_SHARE: f64 = 0.8;
/// The window of a receiver that reads slowly is closed for shorter times.
const MIN_CLOSED_WINDOW_NS: u64 = 4_000_000_000;
/// A request that was sent so long ago waits for its answer: most queries and calls of services take less.
const MIN_AWAITED_MS: u32 = 5_000;
/// After a longer time between two scans it is not known how long an answer between them took.
const MAX_ANSWERED_BETWEEN_US: u64 = 60_000_000;
/// Segments with data received for each one sent from which the remote host answers requests: a receiver of logs sends none.
const MIN_ANSWERED_SHARE: f64 = 0.5;

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
    /// `Progress::longest_answer_ms`
    pub longest_answer_ms: Option<u32>,
}

/// The history of a connection over the scans, CLOCK_BOOTTIME nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// When data was last acknowledged
    pub acknowledged_ns: u64,
    /// What it waits for, and since when
    pub waiting: Option<(ConnectionWait, u64)>,
    /// The longest that an answer took, at most; falls by an eighth with each shorter one that a scan sees. `None`: no scan saw one
    pub longest_answer_ms: Option<u32>,
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
        let longest_answer_ms = longest_answer_ms(before, now);
        let is_awaited = || awaits_answer(now) && (longest_answer_ms.is_some() || is_answered(&now.tcp_info));
        let wait = connection_wait(before, now, now_ns.saturating_sub(acknowledged_ns))
            .or_else(|| is_awaited().then_some(ConnectionWait::Answer));
        let since_ns = |wait: ConnectionWait| {
            // The kernel has its time. Another request may have been sent between two scans.
            if wait == ConnectionWait::Answer {
                return ms_ago(u64::from(now.tcp_info.last_data_sent_ms));
            }
            let waited = before.and_then(|before| before.progress.waiting);
            let started_ns = match wait {
                ConnectionWait::Connect => ms_ago(min_connect_seconds(now.retries).saturating_mul(1000)),
                ConnectionWait::Acknowledgement | ConnectionWait::ClosedWindow => acknowledged_ns,
                ConnectionWait::FullWindow
                | ConnectionWait::SendBuffer
                | ConnectionWait::NameServer
                | ConnectionWait::Answer => now_ns,
            };
            // A receiver that reads slowly closes its window now and then.
            let is_same = |other: ConnectionWait| {
                other == wait || (wait == ConnectionWait::FullWindow && other == ConnectionWait::ClosedWindow)
            };
            waited.filter(|(other, _)| is_same(*other)).map_or(started_ns, |(_, since_ns)| since_ns.min(started_ns))
        };
        Progress { acknowledged_ns, waiting: wait.map(|wait| (wait, since_ns(wait))), longest_answer_ms }
    }
}

/// Whether data was last sent long ago, is acknowledged, and no data came since.
fn awaits_answer(now: &Connection) -> bool {
    has_sent_last(now) && now.queued_bytes == 0 && now.tcp_info.last_data_sent_ms >= MIN_AWAITED_MS
}

/// Whether data was sent after data was last received, and all that was received is read.
pub fn has_sent_last(now: &Connection) -> bool {
    let info = &now.tcp_info;
    let is_last = match info.last_data_sent_ms.cmp(&info.last_data_received_ms) {
        Ordering::Less => true,
        // Both in one clock tick: a client that is answered and asks again at once, or one that was answered and is idle.
        Ordering::Equal => is_one_ahead(info.data_segments_out, info.data_segments_in),
        Ordering::Greater => false,
    };
    is_last && now.can_send() && now.unread_bytes == 0
}

/// Whether what was sent on a connection may be requests: with the next answer it has received at least one segment with data for two
/// sent. A log or a stream of metrics gets none.
pub fn may_be_requests(info: &TcpInfo) -> bool {
    let segments = info.data_segments_in.zip(info.data_segments_out);
    segments.is_some_and(|(received, sent)| {
        sent > 0 && f64::from(received.saturating_add(1)) >= f64::from(sent) * MIN_ANSWERED_SHARE
    })
}

/// Whether a request of the other end, which is on this machine, has been read and not been answered for `MIN_AWAITED_MS`, less 100 ms.
pub fn owes_answer(now: &Connection) -> bool {
    let info = &now.tcp_info;
    // The port of a client is usually the higher one.
    let is_server = now.is_local && now.ports.0 < now.ports.1;
    let is_asked = match info.last_data_received_ms.cmp(&info.last_data_sent_ms) {
        Ordering::Less => true,
        Ordering::Equal => is_one_ahead(info.data_segments_in, info.data_segments_out),
        Ordering::Greater => false,
    };
    is_server && is_asked && info.last_data_received_ms >= MIN_AWAITED_MS - 100
}

/// Whether as many segments went one way as the other, and one more: of requests and answers of a segment each the last one.
fn is_one_ahead(ahead: Option<u32>, behind: Option<u32>) -> bool {
    behind.and_then(|behind| behind.checked_add(1)).is_some_and(|next| ahead == Some(next))
}

/// Whether the connection carried about one answer for each request.
fn is_answered(info: &TcpInfo) -> bool {
    let segments = info.data_segments_in.zip(info.data_segments_out);
    segments.is_some_and(|(received, sent)| received > 0 && f64::from(received) >= f64::from(sent) * MIN_ANSWERED_SHARE)
}

/// The longest that an answer took, with the one that this scan shows, if it shows one.
fn longest_answer_ms(before: Option<PreviousScan<'_>>, now: &Connection) -> Option<u32> {
    let earlier = before.and_then(|before| before.progress.longest_answer_ms);
    let info = &now.tcp_info;
    let grew = |of: fn(&TcpInfo) -> Option<u32>| before.is_none_or(|before| of(before.tcp_info) != of(info));
    let has_received = grew(|info| info.data_segments_in) && info.data_segments_in.is_some_and(|received| received > 0);
    let since_sent_ms = info.last_data_sent_ms.checked_sub(info.last_data_received_ms).filter(|&ms| ms > 0);
    let took_ms = match (since_sent_ms, before) {
        _ if !has_received => return earlier,
        (Some(took_ms), _) => took_ms,
        // It was answered between the scans, and asked again.
        (None, Some(before)) if grew(|info| info.data_segments_out) && before.elapsed_us <= MAX_ANSWERED_BETWEEN_US => {
            let older = before.tcp_info;
            let has_waited = older.last_data_sent_ms <= older.last_data_received_ms;
            let elapsed_ms = u32::try_from(before.elapsed_us / 1000).unwrap_or(u32::MAX);
            elapsed_ms.saturating_add(if has_waited { older.last_data_sent_ms } else { 0 })
        }
        _ => return earlier,
    };
    Some(earlier.map_or(took_ms, |earlier| took_ms.max(earlier - earlier / 8)))
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

    /// A connection with so many milliseconds since data was sent and received, and so many segments sent and received.
    fn asked((sent_ms, received_ms): (u32, u32), (sent, received): (u32, u32)) -> Connection {
        let idle = connection(TcpTimer::Other, 0, 5, [0; 3]);
        let tcp_info = TcpInfo {
            last_data_sent_ms: sent_ms,
            last_data_received_ms: received_ms,
            data_segments_out: Some(sent),
            data_segments_in: Some(received),
            ..idle.tcp_info
        };
        Connection { queued_bytes: 0, tcp_info, ..idle }
    }

    #[test]
    fn an_answer_is_awaited_from_a_host_that_answered_before() {
        let answer = |seconds| Some((ConnectionWait::Answer, seconds));
        let waiting = [asked((4_000, 4_300), (10, 9)), asked((5_000, 5_300), (10, 9)), asked((6_000, 6_300), (10, 9))];
        assert_eq!(waits(&waiting), [None, answer(5), answer(6)]);
        // Two requests, of which each scan saw one.
        assert_eq!(waits(&[asked((9_000, 9_300), (10, 9)), asked((6_000, 6_300), (11, 10))]), [answer(9), answer(6)]);
        // Received last: an idle pool, a subscriber.
        assert_eq!(waits(&[asked((9_000, 8_990), (10, 10))]), [None]);
        // Answered in the same tick, and idle; asked again in the same tick.
        assert_eq!(waits(&[asked((9_000, 9_000), (10, 10)), asked((9_000, 9_000), (11, 10))]), [None, answer(9)]);
        // Sends logs, and never got more than the handshake of TLS.
        assert_eq!(waits(&[asked((9_000, 90_000), (1_000, 4))]), [None]);
        let unread = Connection { unread_bytes: 7, ..asked((9_000, 9_300), (10, 9)) };
        let sent = Connection { queued_bytes: 7, ..asked((9_000, 9_300), (10, 9)) };
        assert_eq!(waits(&[unread, sent]), [None, None]);
    }

    #[test]
    fn the_longest_answer_is_known_from_the_scans_and_forgotten_slowly() {
        let scans = [
            (asked((700, 900), (10, 9)), None),
            // Answered after 800 ms, 100 ms ago.
            (asked((900, 100), (10, 10)), Some(800)),
            (asked((1_900, 1_100), (10, 10)), Some(800)),
            // Answered and asked again.
            (asked((300, 400), (11, 11)), Some(1_000)),
            (asked((100, 1_400), (12, 11)), Some(1_000)),
            (asked((50, 10), (13, 12)), Some(875)),
        ];
        let mut before: Option<(TcpInfo, Progress)> = None;
        for (second, (now, longest)) in (100..).zip(&scans) {
            let previous = before.as_ref().map(|(tcp_info, progress)| PreviousScan {
                tcp_info,
                progress: *progress,
                elapsed_us: 1_000_000,
            });
            let progress = Progress::update(previous, now, second * SECOND);
            assert_eq!(progress.longest_answer_ms, *longest, "at {second} s");
            before = Some((now.tcp_info, progress));
        }
    }

    #[test]
    fn the_time_between_two_scans_that_are_far_apart_is_no_answer() {
        let (older, now) = (asked((300, 400), (11, 10)), asked((200, 300), (12, 11)));
        let progress = Progress { acknowledged_ns: 0, waiting: None, longest_answer_ms: Some(70) };
        let longest = |elapsed_us| {
            let before = PreviousScan { tcp_info: &older.tcp_info, progress, elapsed_us };
            Progress::update(Some(before), &now, 20_000 * SECOND).longest_answer_ms
        };
        assert_eq!(longest(1_000_000), Some(1_300));
        assert_eq!(longest(14_400_000_000), Some(70));
    }

    #[test]
    fn the_end_on_this_machine_that_owes_an_answer_is_the_server() {
        let server = Connection { ports: (80, 40_000), ..asked((9_300, 9_000), (9, 10)) };
        assert!(owes_answer(&server));
        assert!(!owes_answer(&Connection { ports: (40_000, 80), ..server.clone() }), "an idle client");
        assert!(!owes_answer(&Connection { is_local: false, ..server }));
        let answered = Connection { ports: (80, 40_000), ..asked((9_000, 9_000), (10, 10)) };
        assert!(!owes_answer(&answered), "it answered in the same clock tick");
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
