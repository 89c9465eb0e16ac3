//! Threads that wait for an answer from a remote host, by inference (`kernel/waits/remote_waits.rs`). They are shown beside
//! findings and raise none, since the other host may be slow.

use crate::findings::formatting::{count, lossy_name, plural};
use crate::findings::wait_chain::MIN_REPORTED_THREADS;
use crate::ids::GroupId;
use crate::interval::Interval;
use crate::interval::idle_blocked::group_label;
use crate::sample::Name;
use crate::sample::waits::{WaitQueue, WaitQueueKind};
use std::net::{IpAddr, SocketAddr};

/// What the inference is based on.
pub const KNOWN_BY: &str = "inference: they opened the connection and sent last";

/// A group whose threads wait for an answer.
#[derive(Debug)]
pub struct RemoteWait<'a> {
    pub group: &'a GroupId,
    /// Name for a sentence
    pub group_label: String,
    /// Mean number of its threads that wait
    pub threads: f64,
    /// The host and port that most of them wait for
    pub remote: &'a Name,
    /// All of them wait for it
    is_only_remote: bool,
}

impl RemoteWait<'_> {
    /// `3 wait for an answer from 10.0.0.5:5432: not counted as blocked`
    pub fn describe(&self) -> String {
        let verb = if count(self.threads) == "1" { "waits" } else { "wait" };
        let others = if self.is_only_remote { "" } else { " and others" };
        format!("{} {verb} for an answer from {}{others}: not counted as blocked", count(self.threads), lossy_name(self.remote))
    }
}

/// All such groups, most threads first.
pub fn remote_waits(interval: &Interval) -> Vec<RemoteWait<'_>> {
    let waits = &interval.newer.waits;
    let sub_samples = waits.sub_samples.len().max(1) as f64;
    let of_queue = |queue: &'_ WaitQueue| f64::from(queue.seen_count) / sub_samples;
    let queues =
        waits.wait_queues.iter().filter(|queue| queue.kind == WaitQueueKind::Remote && of_queue(queue) >= MIN_REPORTED_THREADS);
    let mut list: Vec<RemoteWait> = queues
        .filter_map(|queue| {
            let group = waits.groups.get(usize::from(queue.group))?;
            Some(RemoteWait {
                group,
                group_label: group_name(interval, group)?,
                threads: of_queue(queue),
                remote: queue.file.as_ref()?,
                is_only_remote: queue.seen_at_one_address == queue.seen_count,
            })
        })
        .collect();
    list.sort_by(|a, b| b.threads.total_cmp(&a.threads));
    list
}

/// The groups that wait for this host: `app (3 threads)`; `None` if there are none.
pub fn waiting_groups(interval: &Interval, address: IpAddr) -> Option<String> {
    let is_it = |remote: &Name| {
        let text = std::str::from_utf8(remote.as_bytes()).ok();
        text.and_then(|text| text.parse::<SocketAddr>().ok()).is_some_and(|remote| remote.ip() == address)
    };
    let waiting = remote_waits(interval).into_iter().filter(|waiting| is_it(waiting.remote));
    let words: Vec<String> = waiting
        .take(3)
        .map(|waiting| format!("{} ({})", waiting.group_label, plural(waiting.threads, "thread", "threads")))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn group_name(interval: &Interval, group: &GroupId) -> Option<String> {
    Some(lossy_name(&group_label(group, &interval.older, &interval.newer).name)).filter(|words| !words.is_empty())
}
