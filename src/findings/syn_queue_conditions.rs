//! Whether connection requests (SYN) find a full SYN queue, and why: unfinished handshakes, or a server that does not accept.
//!
//! A request stays in the SYN queue until its handshake is finished; then the connection goes into the accept queue. If the
//! accept queue is full, finished requests stay in the SYN queue and fill it, too: then the server is the cause.

use super::network_scope::NetworkScope;
use crate::sample::network::Listener;

/// Requests per second that found a full SYN queue and no full accept queue: answered with a cookie, or dropped. `None` if the
/// kernel counts neither.
pub fn syn_queue_full_rate(scope: &NetworkScope) -> Option<f64> {
    let protocols = scope.protocols;
    let rate = |rate: Option<crate::units::PerSecond>| rate.map(|rate| rate.0);
    let cookies = rate(protocols.syn_cookies_sent);
    let dropped = dropped_rate(scope);
    (cookies.is_some() || dropped.is_some()).then(|| cookies.unwrap_or(0.0) + dropped.unwrap_or(0.0))
}

/// Requests per second that were dropped without a cookie, but not at a full accept queue. With net.ipv4.tcp_syncookies 0 the kernel
/// counts some of them in ListenDrops only.
pub fn dropped_rate(scope: &NetworkScope) -> Option<f64> {
    let protocols = scope.protocols;
    let counted = protocols.syn_queue_full_drops.map(|rate| rate.0);
    let other = protocols.listen_drops.zip(protocols.listen_overflows).map(|(drops, overflows)| drops.0 - overflows.0);
    let dropped = counted.unwrap_or(0.0).max(other.unwrap_or(0.0));
    (counted.is_some() || other.is_some()).then_some(if is_accept_queue_full(scope) { 0.0 } else { dropped })
}

/// Whether the accept queue of a listening socket is full, or at least half full: the server may have accepted some connections since it
/// overflowed.
pub fn is_nearly_full(listener: &Listener) -> bool {
    u64::from(listener.accept_queue) * 2 > u64::from(listener.backlog_limit)
}

/// Whether a listening socket overflowed: its connections are established, and it does not accept them. Without the counter
/// ListenOverflows any listen drop is taken for one.
pub fn is_accept_queue_full(scope: &NetworkScope) -> bool {
    let protocols = scope.protocols;
    let drops = protocols.listen_drops.map_or(0.0, |rate| rate.0);
    match protocols.listen_overflows {
        Some(overflows) if overflows.0 > 0.0 => true,
        Some(_) => drops > 0.0 && scope.listeners().iter().any(|listener| listener.accept_queue > listener.backlog_limit),
        None => drops > 0.0,
    }
}
