//! What the threads of a group queue for: counted at each look, described at the end of the interval, and then only for
//! groups that had a thread on storage. Of the others nobody asks.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::sample::Name;
use crate::sample::task::SystemCall;
use crate::sample::waits::{GroupWaits, Queue, QueueKind};

/// So many addresses of one group's mutexes are told apart.
const MOST_ADDRESSES: usize = 64;

/// One of those that wait: the last one that was seen to, with what he calls.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub task: TaskId,
    pub channel: Option<Name>,
    pub call: Option<SystemCall>,
}

/// A thread whose futex word says "held and waited for", to be judged when the look is over.
#[derive(Debug)]
pub struct Suspect {
    pub group: u16,
    pub address: u64,
    pub active: bool,
    pub waiter: Waiter,
}

#[derive(Debug)]
struct Tally {
    times: u32,
    addresses: FxHashMap<u64, u32>,
    last: Waiter,
}

/// The queues of the interval that is running.
#[derive(Debug, Default)]
pub struct Queues {
    tallies: FxHashMap<(u16, QueueKind), Tally>,
    /// Of the look that is running.
    suspects: Vec<Suspect>,
}

impl Queues {
    pub fn add(&mut self, group: u16, kind: QueueKind, address: Option<u64>, waiter: Waiter) {
        let tally = self.tallies.entry((group, kind)).or_insert_with(|| Tally {
            times: 0,
            addresses: FxHashMap::default(),
            last: waiter.clone(),
        });
        tally.times = tally.times.saturating_add(1);
        if let Some(address) = address
            && (tally.addresses.len() < MOST_ADDRESSES || tally.addresses.contains_key(&address))
        {
            let times = tally.addresses.entry(address).or_default();
            *times = times.saturating_add(1);
        }
        // The call is not always to be had, and it names the file.
        if waiter.call.is_some() || tally.last.call.is_none() {
            tally.last = waiter;
        }
    }

    pub fn suspect(&mut self, suspect: Suspect) {
        self.suspects.push(suspect);
    }

    /// Ends a look. Value 2 is the word of a contended mutex, and all its waiters share one address. A single waiter at
    /// an address proves nothing: a condition variable of musl gives each of its waiters such a word of its own.
    pub fn judge_suspects(&mut self, counts: &mut [GroupWaits]) {
        let mut at_address: FxHashMap<(u16, u64), u32> = FxHashMap::default();
        for suspect in &self.suspects {
            *at_address.entry((suspect.group, suspect.address)).or_default() += 1;
        }
        for Suspect { group, address, active, waiter } in std::mem::take(&mut self.suspects) {
            let Some(counts) = counts.get_mut(usize::from(group)) else { continue };
            if at_address.get(&(group, address)).is_some_and(|&waiters| waiters > 1) {
                counts.lock_contended = counts.lock_contended.saturating_add(1);
                self.add(group, QueueKind::Mutex, Some(address), waiter);
            } else if active {
                counts.lock_inferred = counts.lock_inferred.saturating_add(1);
                self.add(group, QueueKind::Futex, None, waiter);
            }
        }
    }

    /// Ends the interval: the queues of the groups that `held` names, sorted, each with its last waiter.
    pub fn drain(&mut self, held: &[bool]) -> (Vec<Queue>, Vec<Waiter>) {
        let is_held = |group: u16| held.get(usize::from(group)).copied().unwrap_or(false);
        let mut list: Vec<_> = self.tallies.drain().filter(|((group, _), _)| is_held(*group)).collect();
        list.sort_unstable_by_key(|(key, _)| *key);
        let describe = |((group, kind), tally): ((u16, QueueKind), Tally)| {
            let queue = Queue {
                group,
                kind,
                times: tally.times,
                times_at_one: tally.addresses.into_values().max().unwrap_or(0),
                channel: tally.last.channel.clone(),
                file: None,
                holder: None,
            };
            (queue, tally.last)
        };
        list.into_iter().map(describe).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter() -> Waiter {
        Waiter { task: TaskId { pid: 1, tid: 1, start_ticks: 1 }, channel: Some("futex_do_wait".into()), call: None }
    }

    fn look(queues: &mut Queues, counts: &mut [GroupWaits], waiters: &[(u64, bool)]) {
        for &(address, active) in waiters {
            queues.suspect(Suspect { group: 0, address, active, waiter: waiter() });
        }
        queues.judge_suspects(counts);
    }

    #[test]
    fn one_address_for_several_is_a_mutex_and_for_one_is_a_guess() {
        let (mut queues, mut counts) = (Queues::default(), [GroupWaits::default()]);
        look(&mut queues, &mut counts, &[(16, false), (16, true), (16, false), (32, true), (48, false)]);
        assert_eq!((counts[0].lock_contended, counts[0].lock_inferred), (3, 1));
        let (list, _) = queues.drain(&[true]);
        let short: Vec<_> = list.iter().map(|queue| (queue.kind, queue.times, queue.times_at_one)).collect();
        assert_eq!(short, [(QueueKind::Mutex, 3, 3), (QueueKind::Futex, 1, 0)]);
        assert!(queues.drain(&[true]).0.is_empty());
    }

    #[test]
    fn queues_of_groups_without_a_thread_on_storage_are_not_told() {
        let mut queues = Queues::default();
        queues.add(0, QueueKind::Futex, None, waiter());
        assert!(queues.drain(&[false]).0.is_empty());
    }
}
