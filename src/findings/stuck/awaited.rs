//! Who waits for the answers of remote hosts. It is inference (`kernel/waits/remote.rs`), it is told beside what is known
//! otherwise, and raises nothing: a slow answer is the other host's own affair.

use std::net::{IpAddr, SocketAddr};

use super::chain::WORTH_A_WORD;
use crate::findings::words::{count, name, plural};
use crate::ids::GroupId;
use crate::interval::Interval;
use crate::interval::idle_blocked::group_label;
use crate::sample::Name;
use crate::sample::waits::{WaitQueue, WaitQueueKind};

/// What it rests on.
pub const KNOWN_BY: &str = "inference: they made the connection and spoke last";

/// A group whose threads wait for an answer.
#[derive(Debug)]
pub struct Awaiting<'a> {
    pub group: &'a GroupId,
    /// How a sentence calls it
    pub who: String,
    /// Mean number of its threads that wait
    pub threads: f64,
    /// The host and port that most of them wait for
    pub remote: &'a Name,
    /// All of them do
    alone: bool,
}

impl Awaiting<'_> {
    /// `3 wait for an answer of 10.0.0.5:5432: not counted as blocked`
    pub fn words(&self) -> String {
        let verb = if count(self.threads) == "1" { "waits" } else { "wait" };
        let others = if self.alone { "" } else { " and others" };
        format!("{} {verb} for an answer of {}{others}: not counted as blocked", count(self.threads), name(self.remote))
    }
}

/// All such groups, most threads first.
pub fn awaiting(interval: &Interval) -> Vec<Awaiting<'_>> {
    let waits = &interval.newer.waits;
    let looks = waits.sub_samples.len().max(1) as f64;
    let of_queue = |queue: &'_ WaitQueue| f64::from(queue.seen_count) / looks;
    let queues =
        waits.wait_queues.iter().filter(|queue| queue.kind == WaitQueueKind::Remote && of_queue(queue) >= WORTH_A_WORD);
    let mut list: Vec<Awaiting> = queues
        .filter_map(|queue| {
            let group = waits.groups.get(usize::from(queue.group))?;
            Some(Awaiting {
                group,
                who: who(interval, group)?,
                threads: of_queue(queue),
                remote: queue.file.as_ref()?,
                alone: queue.seen_at_one_address == queue.seen_count,
            })
        })
        .collect();
    list.sort_by(|a, b| b.threads.total_cmp(&a.threads));
    list
}

/// Those that wait for this host: `app (3 threads)`; `None` where nobody is known to.
pub fn of_host(interval: &Interval, address: IpAddr) -> Option<String> {
    let is_it = |remote: &Name| {
        let text = std::str::from_utf8(remote.as_bytes()).ok();
        text.and_then(|text| text.parse::<SocketAddr>().ok()).is_some_and(|remote| remote.ip() == address)
    };
    let waiting = awaiting(interval).into_iter().filter(|waiting| is_it(waiting.remote));
    let words: Vec<String> =
        waiting.take(3).map(|waiting| format!("{} ({})", waiting.who, plural(waiting.threads, "thread", "threads"))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn who(interval: &Interval, group: &GroupId) -> Option<String> {
    Some(name(&group_label(group, &interval.older, &interval.newer).name)).filter(|words| !words.is_empty())
}
