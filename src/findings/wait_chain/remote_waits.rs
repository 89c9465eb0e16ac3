//! Threads that wait for an answer from a remote host, by inference (`interval::remote_waits`). They are shown beside
//! findings and raise none, since the other host may be slow. Many that wait for seconds are the finding `answer-blocked`.

use crate::findings::formatting::{count, lossy_name, plural};
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::ids::GroupId;
use crate::interval::Interval;
use crate::interval::group_label::group_label;
use crate::interval::remote_waits::{RemoteQueue, remote_queues};
use crate::units::SmallSort;
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
    pub remote: SocketAddr,
    /// All of them wait for it
    is_only_remote: bool,
}

impl RemoteWait<'_> {
    /// `3 wait for an answer from 10.0.0.5:5432: not counted as blocked`
    pub fn describe(&self) -> String {
        let verb = if count(self.threads) == "1" { "waits" } else { "wait" };
        let others = if self.is_only_remote { "" } else { " and others" };
        format!("{} {verb} for an answer from {}{others}: not counted as blocked", count(self.threads), self.remote)
    }
}

/// All such groups, most threads first.
pub fn remote_waits(interval: &Interval) -> Vec<RemoteWait<'_>> {
    let waits = &interval.newer.waits;
    let queues = remote_queues(waits, &interval.wait_counts).into_iter().filter(|queue| queue.threads >= MIN_REPORTED_THREADS);
    let mut list: Vec<RemoteWait> = queues
        .filter_map(|RemoteQueue { group, threads, remote, is_only_remote }| {
            let group = waits.groups.get(usize::from(group))?;
            Some(RemoteWait { group, group_label: group_name(interval, group)?, threads, remote, is_only_remote })
        })
        .collect();
    list.small_sort_by(|a, b| b.threads.total_cmp(&a.threads));
    list
}

/// The groups that wait for this host: `app (3 threads)`; `None` if there are none.
pub fn waiting_groups(interval: &Interval, address: IpAddr) -> Option<String> {
    let waiting = remote_waits(interval).into_iter().filter(|waiting| waiting.remote.ip() == address);
    let words: Vec<String> = waiting
        .take(3)
        .map(|waiting| format!("{} ({})", waiting.group_label, plural(waiting.threads, "thread", "threads")))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn group_name(interval: &Interval, group: &GroupId) -> Option<String> {
    Some(lossy_name(&group_label(group, &interval.older, &interval.newer).name)).filter(|words| !words.is_empty())
}
