//! A deadlock as drawn lines: its threads in the order in which each waits for the next one, and the way back to the first.
//!
//! ```text
//! app (700)   2 threads wait for each other, 6 more behind them
//!  ┌─▶ app/701   waits for a mutex that app/702 holds   (the owner field of the mutex (glibc))
//!  │      ▼
//!  │   app/702   waits for a mutex that app/701 holds   (the owner field of the mutex (glibc))
//!  └──────┘
//! ```

use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::StyleRole;
use crate::findings::{Evaluation, Finding, Kind, Subject, lock_known_by, lock_noun, thread_name};
use crate::interval::Interval;
use crate::interval::deadlocks::Deadlock;
use crate::safe;
use crate::units::format;

/// Threads up to which a line with an arrow is between two.
const MAX_ROOMY_THREADS: usize = 4;

/// The cycles of a finding that is active, each drawn in at most this number of cells; empty for other findings.
pub fn lines_of_finding(interval: &Interval, finding: &Finding, width: usize) -> Vec<SafeLine> {
    let (Kind::Deadlock, None, Subject::Group { id, .. }) = (finding.kind, finding.until, &finding.subject) else {
        return Vec::new();
    };
    let of_group = interval.locks.deadlocks.iter().filter(|deadlock| deadlock.group == *id);
    of_group.flat_map(|deadlock| cycle(deadlock, width)).collect()
}

/// Those of the first finding that has some.
pub fn reported_lines(evaluation: &Evaluation, width: usize) -> Vec<SafeLine> {
    let mut drawn = evaluation.active.iter().map(|finding| lines_of_finding(&evaluation.interval, finding, width));
    drawn.find(|lines| !lines.is_empty()).unwrap_or_default()
}

fn cycle(deadlock: &Deadlock, width: usize) -> Vec<SafeLine> {
    let names: Vec<SafeText> = deadlock.threads.iter().map(|thread| SafeText::sanitize(thread_name(thread))).collect();
    let pid = deadlock.threads.first().map_or(0, |thread| thread.wait.task.pid);
    let process = safe!("{} ({pid})", SafeText::from_name(&deadlock.process));
    if deadlock.has_ended() {
        return vec![ended_holder(deadlock, process)];
    }
    let cycle = match names.len() {
        1 => "   1 thread waits for itself".into(),
        2 => "   2 threads wait for each other".into(),
        count => safe!("   {count} threads wait in a cycle"),
    };
    let mut title = SafeLine::new(process, StyleRole::Bold).with(cycle, StyleRole::Plain);
    if deadlock.others >= 0.5 {
        title.push(safe!(", {:.0} more behind them", deadlock.others), StyleRole::Plain);
    }
    let mut lines = vec![title];
    let cells = names.iter().map(SafeText::width).max().unwrap_or(0);
    let next = names.iter().zip(&deadlock.known_by).cycle().skip(1);
    for (at, (waits, (holds, &field))) in names.iter().zip(next).enumerate() {
        if at > 0 && names.len() <= MAX_ROOMY_THREADS {
            lines.push(SafeLine::new(" │      ▼", StyleRole::Blocked));
        }
        let lock = lock_noun(field);
        let mut line = SafeLine::new(if at == 0 { " ┌─▶ " } else { " │   " }, StyleRole::Blocked);
        line.push(safe!("{waits}{}", SafeText::blanks(cells - waits.width())), StyleRole::Bold);
        line.push(
            match names.len() {
                1 => safe!("   waits for a {lock} that it holds itself"),
                _ => safe!("   waits for a {lock} that {holds} holds"),
            },
            StyleRole::Plain,
        );
        let known = safe!("   ({})", lock_known_by(field));
        if line.width() + known.width() <= width {
            line.push(known, StyleRole::Dim);
        }
        lines.push(line);
    }
    lines.push(SafeLine::new(" └──────┘", StyleRole::Blocked));
    lines
}

/// `app (700)   12 threads wait for a mutex that thread 701 held when it ended`
fn ended_holder(deadlock: &Deadlock, process: SafeText) -> SafeLine {
    let holder = deadlock.threads.first().map_or_else(String::new, thread_name);
    let holder = SafeText::sanitize(holder);
    let waiting = format::plural(deadlock.others.round().max(1.0), "thread waits", "threads wait");
    let waiting = safe!("   {waiting} for a mutex that {holder} held when it ended");
    SafeLine::new(process, StyleRole::Bold).with(waiting, StyleRole::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, ProcessId, TaskId};
    use crate::interval::blocked_threads::BlockedThread;
    use crate::interval::deadlocks::CycleKind;
    use crate::sample::waits::OwnerField;
    use crate::state::TerminalCapabilities;
    use crate::view::theme::Theme;

    fn drawn(tids: &[u32], others: f64, width: usize) -> Vec<String> {
        let theme = Theme::new(TerminalCapabilities::default());
        let thread = |&tid: &u32| {
            let task = TaskId { pid: 700, tid, start_ticks: 1 };
            BlockedThread::new(b"x86_64", &crate::synthetic::waits::asleep(task, "app", "futex_do_wait"))
        };
        let deadlock = Deadlock {
            group: GroupId::Process(ProcessId { pid: 700, start_ticks: 1 }),
            threads: tids.iter().map(thread).collect(),
            known_by: vec![OwnerField::GlibcMutex; tids.len()],
            process: "app".into(),
            others,
            kind: CycleKind::Deadlock,
        };
        cycle(&deadlock, width).iter().map(|line| line.styled(theme).to_string()).collect()
    }

    #[test]
    fn a_cycle_leads_back_to_its_first_thread() {
        assert_eq!(
            drawn(&[9, 12], 6.0, 80),
            [
                "app (700)   2 threads wait for each other, 6 more behind them",
                " ┌─▶ app/9    waits for a mutex that app/12 holds",
                " │      ▼",
                " │   app/12   waits for a mutex that app/9 holds",
                " └──────┘",
            ]
        );
        assert!(drawn(&[9, 12], 0.0, 100)[1].ends_with("holds   (the owner field of the mutex (glibc))"));
        assert_eq!(drawn(&[9], 0.0, 60)[1], " ┌─▶ app/9   waits for a mutex that it holds itself");
        assert_eq!(drawn(&[1, 2, 3, 4, 5], 0.0, 60).len(), 7, "without arrows between them");
    }
}
