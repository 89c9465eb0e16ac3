//! The headline of a finding: as much of its sentence as fits into the lines above a screen, the cause first.
//!
//! A sentence consists of clauses. Those that do not fit are left out as a whole: nothing is cut in the cause. Idle-but-blocked has
//! clauses of its own, from the interval that the screen shows, so that its figures are those of the bar and the tables.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::findings::Evaluation;
use crate::findings::finding::{Finding, Kind};
use crate::findings::formatting::{count, cpus, latency, lossy_name, multiple, plural, short_path, significant_digits};
use crate::findings::rules::begins_with_idle_host;
use crate::findings::wait_chain::bottleneck::{Bottleneck, bottleneck};
use crate::findings::wait_chain::disk_name;
use crate::findings::wait_chain::holder::syscall_name;
use crate::findings::wait_chain::named_holder::describe_named_holder;
use crate::findings::wait_chain::reported_threads::{
    MIN_REPORTED_THREADS, MIN_SECONDARY_SHARE, MIN_SEVERAL_THREADS, ReportedWaiters,
};
use crate::findings::wait_words::wait_words;
use crate::ids::DiskId;
use crate::interval::disk::Operation;
use crate::interval::idle_blocked::{BlockedGroup, IdleBlocked};

/// A clause, and the separator before it if it is not the first.
type Clause = (&'static str, String);

/// The separator before what a cause leads to.
const RESULT: &str = " → ";

/// As many clauses of a finding as fit into this number of characters; at least the first one.
pub fn headline(evaluation: &Evaluation, finding: &Finding, characters: usize) -> String {
    let own = (finding.kind == Kind::IdleButBlocked && finding.until.is_none())
        .then(|| evaluation.interval.idle_blocked.as_ref())
        .flatten()
        .and_then(|blocked| idle_but_blocked(evaluation, blocked));
    let clauses = own.unwrap_or_else(|| {
        let mut clauses = clauses_of(&finding.sentence);
        // The share of the host, which its sentence begins with, is no cause.
        if finding.kind == Kind::IdleButBlocked && clauses.len() > 1 {
            let (_, share) = clauses.remove(0);
            clauses.push(("; ", share));
        }
        // Where there is little room, the cgroup and its quota say that it is throttled.
        if begins_with_idle_host(finding)
            && let Some((_, first)) = clauses.first_mut()
            && length(beginning(first, characters)) > characters
            && let Some((_, cause)) = first.split_once(": ")
        {
            *first = cause.to_owned();
        }
        clauses
    });
    fitting(clauses, characters)
}

fn fitting(clauses: Vec<Clause>, characters: usize) -> String {
    let mut words = String::new();
    for (separator, clause) in clauses {
        let separator = if words.is_empty() { "" } else { separator };
        let room = characters.saturating_sub(length(&words) + length(separator));
        // `idle, blocked` without its end would say the contrary.
        let is_whole = length(&clause) <= room || separator == RESULT;
        let part = if is_whole { clause.as_str() } else { beginning(&clause, room) };
        if length(part) <= room {
            words.push_str(separator);
            words.push_str(part);
        } else if words.is_empty() {
            // Of the first clause at least this remains.
            words.push_str(before_colon(part, room));
        }
    }
    words
}

/// Whether a parenthesis begins here after which the part ends.
fn ends_in_parenthesis(rest: &str) -> bool {
    let after = rest.strip_prefix(" (").and_then(|inside| inside.split_once(')')).map(|(_, after)| after);
    after.is_some_and(|after| after.is_empty() || after.starts_with(", "))
}

fn length(words: &str) -> usize {
    words.chars().count()
}

/// Minimum length of the first part in bytes: a cut after `idle host` would lose the cause.
const MIN_PART: usize = 16;

/// As many parts of a clause as fit into the room, at least the first: a part ends before a comma or a parenthesis, but not within
/// one.
fn beginning(clause: &str, room: usize) -> &str {
    let mut depth = 0_u32;
    let mut end = None;
    for (at, character) in clause.char_indices() {
        let rest = clause.get(at..).unwrap_or_default();
        if depth == 0 && at >= MIN_PART && (rest.starts_with(", ") || ends_in_parenthesis(rest)) {
            let head = clause.get(..at).unwrap_or_default();
            if end.is_some() && length(head) > room {
                break;
            }
            end = Some(at);
        }
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    end.and_then(|end| clause.get(..end)).unwrap_or(clause)
}

/// A part that ends before its last colon that leaves half of the room filled, or the whole part where there is none.
fn before_colon(part: &str, room: usize) -> &str {
    let heads = part.match_indices(": ").filter_map(|(at, _)| part.get(..at));
    heads.filter(|head| (room / 2..=room).contains(&length(head))).last().unwrap_or(part)
}

/// The clauses of a sentence: between semicolons outside of parentheses, and its further sentences. A parenthesis of a name that has no
/// partner is none.
fn clauses_of(sentence: &str) -> Vec<Clause> {
    let sentence = sentence.trim_end_matches('.');
    let inside = parentheses(sentence);
    let is_inside = |at: usize| inside.iter().any(|range| range.contains(&at));
    let separators =
        ["; ", ". "].into_iter().flat_map(|separator| sentence.match_indices(separator).map(move |(at, _)| (at, separator)));
    let mut clauses: Vec<Clause> = Vec::new();
    let (mut begin, mut before) = (0, "; ");
    for (at, separator) in separators.filter(|&(at, _)| !is_inside(at)).collect::<BTreeMap<_, _>>() {
        clauses.push((before, sentence.get(begin..at).unwrap_or_default().to_owned()));
        (begin, before) = (at + separator.len(), separator);
    }
    clauses.push((before, sentence.get(begin..).unwrap_or_default().to_owned()));
    clauses
}

/// From each opening parenthesis to the one that closes it.
fn parentheses(sentence: &str) -> Vec<Range<usize>> {
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    for (at, character) in sentence.char_indices() {
        match character {
            '(' => open.push(at),
            ')' => closed.extend(open.pop().map(|begin| begin..at)),
            _ => {}
        }
    }
    closed
}

/// `postgres: 63 threads wait behind 1 in fdatasync, pg_wal on loop0: flush 40.3 ms, 24.8/s → 1.56 of 2 CPUs idle, blocked`
fn idle_but_blocked(evaluation: &Evaluation, blocked: &IdleBlocked) -> Option<Vec<Clause>> {
    let group = blocked.groups.first().filter(|_| blocked.ratio > 0.0)?;
    let mut clauses = vec![("", format!("{}: {}", group_name(group), describe_waiters(evaluation, group)))];
    if let Some(limit) = limit(evaluation, group) {
        clauses.push((": ", limit));
    }
    let least = if blocked.lower_bound { "≥ " } else { "" };
    let all = cpus(evaluation.interval.online_cpus().max(1));
    clauses.push((RESULT, format!("{least}{} of {all} idle, blocked", significant_digits(blocked.cpus))));
    if let Some(many) = group.waiting_connections.as_ref().ok().filter(|_| group.connections_behind() >= 1.0) {
        clauses.push(("; ", format!("{many} connections wait for it")));
    }
    let others: Vec<String> = blocked
        .groups
        .iter()
        .skip(1)
        .filter(|other| other.ratio >= blocked.ratio * MIN_SECONDARY_SHARE)
        .map(|other| format!("{} ({})", group_name(other), count(other.blocked_threads())))
        .take(2)
        .collect();
    if !others.is_empty() {
        clauses.push(("; ", format!("also blocked: {}", others.join(", "))));
    }
    Some(clauses)
}

fn group_name(group: &BlockedGroup) -> String {
    match (group.name.as_bytes().is_empty(), group.pid) {
        (true, Some(pid)) => format!("process {pid}"),
        _ => lossy_name(&group.name),
    }
}

/// `63 threads wait behind 1 in fdatasync, pg_wal on loop0`, `32 threads in pread64, data on sda`
fn describe_waiters(evaluation: &Evaluation, group: &BlockedGroup) -> String {
    let on_storage = group.storage + group.hidden;
    let behind = group.behind_lock() + group.behind_ipc_peer;
    // Most of them may wait for work instead.
    let basis = if group.lock_inferred > behind * MAX_UNSAID_INFERENCE { " (inferred)" } else { "" };
    let waiting = |threads: f64| format!("{}{basis}", plural(threads, "thread waits", "threads wait"));
    let device = group.holder_device.map(|(device, _)| disk_name(&evaluation.interval, device));
    let ends: Vec<(f64, String)> = [
        (on_storage, storage_words(evaluation, group, device.as_deref())),
        (
            group.aio,
            format!("asleep for asynchronous I/O{}", device.as_ref().map_or_else(String::new, |name| format!(" on {name}"))),
        ),
        (group.memory, "in memory reclaim".to_owned()),
    ]
    .into_iter()
    .filter(|(threads, _)| *threads >= MIN_REPORTED_THREADS)
    .collect();
    let is_queue = ReportedWaiters::new(group).any();
    if let Some(holder) = group.holder_off_storage().filter(|_| ReportedWaiters::new(group).lock) {
        return format!("{} behind {}", waiting(behind), describe_named_holder(&evaluation.interval, holder));
    }
    let mut ends = ends.into_iter();
    let first = match (ends.next(), is_queue) {
        (Some((threads, place)), true) if threads >= MIN_SEVERAL_THREADS => {
            format!("{} behind one of {threads:.0} {place}", waiting(behind))
        }
        (Some((_, place)), true) => format!("{} behind 1 {place}", waiting(behind)),
        (Some((threads, place)), false) => format!("{} {place}", plural(threads, "thread", "threads")),
        (None, _) => format!("{} behind storage", waiting(behind)),
    };
    ends.fold(first, |words, (threads, place)| format!("{words} and {} {place}", count(threads)))
}

/// Share of the threads behind a lock that are so by inference up to which a headline does not say it. docs/metrics.md, "Fixed thresholds".
const MAX_UNSAID_INFERENCE: f64 = 0.5;

/// `in fdatasync, pg_wal on loop0`
fn storage_words(evaluation: &Evaluation, group: &BlockedGroup, device: Option<&str>) -> String {
    let Some(holder) = &group.holder else {
        let place = if group.hidden > group.storage { "in D (wait not readable)" } else { "on storage" };
        return device.map_or_else(|| place.to_owned(), |name| format!("{place}, {name}"));
    };
    let call = syscall_name(&evaluation.interval, holder).map(|call| format!("in {call}"));
    let words = call.unwrap_or_else(|| {
        let channel = holder.wait.wchan.as_ref().map(|channel| channel.as_bytes()).unwrap_or_default();
        wait_words(channel).unwrap_or("on storage").to_owned()
    });
    // A device file is the device.
    let file = holder.wait.file.as_ref().filter(|file| device.is_none() || !file.as_bytes().starts_with(b"/dev/"));
    match (file.map(short_path), device) {
        (Some(file), Some(name)) => format!("{words}, {file} on {name}"),
        (Some(file), None) => format!("{words}, {file}"),
        (None, Some(name)) => format!("{words} on {name}"),
        (None, None) => words,
    }
}

/// The device, and its operation, that the headline of idle-but-blocked names as the limit. `None` while that is not found.
pub fn limiting_operation(evaluation: &Evaluation) -> Option<(DiskId, Operation)> {
    let found = |finding: &Finding| finding.kind == Kind::IdleButBlocked && finding.until.is_none();
    let blocked = evaluation.interval.idle_blocked.as_ref().filter(|_| evaluation.active.iter().any(found))?;
    let (device, limit) = limit_of(evaluation, blocked.groups.first()?)?;
    Some((device, limit.operation))
}

fn limit_of<'a>(evaluation: &'a Evaluation, group: &BlockedGroup) -> Option<(DiskId, Bottleneck<'a>)> {
    let (device, _) = group.holder_device?;
    let limit = bottleneck(&evaluation.interval, &evaluation.latency_statuses, device, group.holder.as_ref())?;
    Some((device, limit))
}

/// What limits the group: `flush 40.3 ms, 24.8/s`, `read 79.9 ms = 13.9× its baseline, 401/s`
fn limit(evaluation: &Evaluation, group: &BlockedGroup) -> Option<String> {
    let (_, found) = limit_of(evaluation, group)?;
    let Bottleneck { operation, span, status } = found;
    let time = latency(span.r#await?);
    let rate = significant_digits(span.rate.0);
    // A provisional baseline is an estimate: its multiple is for the details.
    let learned = status.is_some_and(|status| !status.provisional);
    let slow = found.multiple().filter(|&times| learned && times >= MIN_REPORTED_MULTIPLE);
    let times = slow.map_or_else(String::new, |times| format!(" = {} its baseline", multiple(times)));
    Some(format!("{} {time}{times}, {rate}/s", operation.as_str()))
}

/// A multiple of the baseline from which a headline says it.
const MIN_REPORTED_MULTIPLE: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(sentence: &str, characters: usize) -> String {
        fitting(clauses_of(sentence), characters)
    }

    #[test]
    fn whole_clauses_are_left_out_from_the_end() {
        let sentence = "CPUs 100 % used: 5 wait; most: rustc (1) 0.9 CPU; bash (2) waits 50 % of the time.";
        assert_eq!(fit(sentence, 200), sentence.trim_end_matches('.'));
        assert_eq!(fit(sentence, 50), "CPUs 100 % used: 5 wait; most: rustc (1) 0.9 CPU");
        assert_eq!(fit(sentence, 60), "CPUs 100 % used: 5 wait; most: rustc (1) 0.9 CPU");
        assert_eq!(fit(sentence, 36), "CPUs 100 % used: 5 wait");
        assert_eq!(fit(sentence, 5), "CPUs 100 % used: 5 wait", "the first clause is never left out");
    }

    #[test]
    fn a_parenthesis_is_not_divided() {
        let sentence = "load 8.11 (1-min average); now 2 running, 3 in D (2 on disk; 1 in vfork: harmless); 4 % busy";
        assert_eq!(fit(sentence, 60), "load 8.11 (1-min average); now 2 running, 3 in D; 4 % busy");
        assert_eq!(fit(sentence, 200), sentence);
    }

    #[test]
    fn a_parenthesis_of_a_name_hides_no_clause() {
        let sentence =
            "(install-very-l (123) uses 99 % of one CPU: at its limit; the host is 50 % busy (1 of 2 CPUs); 1 CPU is idle";
        assert_eq!(fit(sentence, 72), "(install-very-l (123) uses 99 % of one CPU: at its limit; 1 CPU is idle");
        let sentence = "very-long-name) (123) waits; most CPU time: (sd-pam) (7) 0.50 CPU; bash (2) waits";
        assert_eq!(fit(sentence, 45), "very-long-name) (123) waits; bash (2) waits");
    }

    #[test]
    fn a_name_with_a_separator_is_in_one_clause() {
        use crate::sample::Name;
        let name = |text: &str| lossy_name(&Name::from(text));
        let sentence = format!("{} (7) waits for {}; b waits", name("a; b. c"), name("/srv/x; y"));
        assert_eq!(clauses_of(&sentence).len(), 2, "{sentence}");
        assert_eq!(name("kworker/0:1-ev; events.").as_str(), "kworker/0:1-ev;\u{a0}events.");
    }

    #[test]
    fn a_short_clause_after_a_long_one_is_kept() {
        assert_eq!(fit("a is slow; this is a very long explanation; b waits", 20), "a is slow; b waits");
    }

    #[test]
    fn a_clause_that_does_not_fit_ends_before_a_comma_outside_of_parentheses() {
        let sentence = "labA: 23 packets wait, 2084 dropped/s (rx 1, tx 2), 7 overlimits/s";
        assert_eq!(fit(sentence, 40), "labA: 23 packets wait, 2084 dropped/s");
        assert_eq!(fit(sentence, 51), "labA: 23 packets wait, 2084 dropped/s (rx 1, tx 2)");
        assert_eq!(fit(sentence, 3), "labA: 23 packets wait", "at least the first part");
        let sentence = "idle host, throttled: app is limited to 0.20 CPU, throttled 80 %; in it: spin";
        assert_eq!(fit(sentence, 50), "idle host, throttled: app is limited to 0.20 CPU");
    }

    #[test]
    fn a_first_clause_that_does_not_fit_ends_before_a_colon() {
        let sentence = "labA: tx is limited by its queueing discipline (tbf): 9 packets (38.7 KiB) wait, 1 dropped/s";
        assert_eq!(fit(sentence, 65), "labA: tx is limited by its queueing discipline (tbf)");
        assert_eq!(fit(sentence, 80), "labA: tx is limited by its queueing discipline (tbf): 9 packets (38.7 KiB) wait");
        let sentence = "a-container-with-a-long-name: 20 threads wait for the lock of another container that runs";
        assert_eq!(fit(sentence, 70), sentence, "the name of what waits says too little");
    }
}
