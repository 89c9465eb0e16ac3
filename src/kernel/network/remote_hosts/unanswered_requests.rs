//! Since when a remote address answers no connection request, over the sockets that try it one after the other: a program with a timeout
//! of a second or two closes its socket and opens the next one, so that each of them has waited only for a moment.

use std::net::SocketAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use super::connection::Connection;
use super::waiting_sockets::MAX_WAITING_SOCKETS;

/// A request without an answer for so long is no slow path. docs/metrics.md, "Fixed thresholds".
const MIN_UNANSWERED_MS: u64 = 500;
/// After so long without an unanswered request the program tries no more.
const MAX_PAUSE_NS: u64 = 3_000_000_000;
/// The time after which the kernel sends the first request again (TCP_TIMEOUT_INIT).
const FIRST_TIMEOUT_MS: u64 = 1_000;

/// Remote addresses whose last requests were not answered.
#[derive(Debug, Default)]
pub struct UnansweredRequests {
    known: FxHashMap<SocketAddr, Attempts>,
    /// Of the dump being read: when the first unanswered request to an address was sent, CLOCK_BOOTTIME
    unanswered: FxHashMap<SocketAddr, u64>,
    /// Of the dump being read: addresses that have accepted a connection since the last one
    answered: FxHashSet<SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Attempts {
    since_ns: u64,
    last_seen_ns: u64,
}

impl UnansweredRequests {
    /// Since when requests to this address are not answered, as the dumps before show it.
    pub fn since_ns(&self, remote: SocketAddr) -> Option<u64> {
        self.known.get(&remote).map(|attempts| attempts.since_ns)
    }

    /// Adds a socket in SYN_SENT.
    pub fn add_connecting(&mut self, connection: &Connection, now_ns: u64) {
        let age_ms = request_age_ms(connection);
        if age_ms >= MIN_UNANSWERED_MS && self.unanswered.len() < MAX_WAITING_SOCKETS {
            let sent_ns = now_ns.saturating_sub(age_ms.saturating_mul(1_000_000));
            let first_ns = self.unanswered.entry(connection.remote()).or_insert(sent_ns);
            *first_ns = sent_ns.min(*first_ns);
        }
    }

    /// Adds a connection that was opened since the last dump.
    pub fn add_opened(&mut self, connection: &Connection) {
        if (!self.known.is_empty() || !self.unanswered.is_empty()) && self.answered.len() < MAX_WAITING_SOCKETS {
            self.answered.insert(connection.remote());
        }
    }

    /// Ends a dump.
    pub fn finish_dump(&mut self, now_ns: u64) {
        for (remote, since_ns) in self.unanswered.drain() {
            let attempts = self.known.entry(remote).or_insert(Attempts { since_ns, last_seen_ns: now_ns });
            attempts.last_seen_ns = now_ns;
        }
        let answered = &self.answered;
        self.known.retain(|remote, attempts| {
            !answered.contains(remote) && now_ns.saturating_sub(attempts.last_seen_ns) <= MAX_PAUSE_NS
        });
        self.answered.clear();
    }
}

/// Milliseconds since the first request of the socket, at least; 0 if that is not known.
fn request_age_ms(connection: &Connection) -> u64 {
    match connection.retries {
        0 => connection.timer_ms.map_or(0, |left| FIRST_TIMEOUT_MS.saturating_sub(u64::from(left))),
        _ => FIRST_TIMEOUT_MS,
    }
}
