//! Rule deadlock: threads wait for each other's mutexes, or locks inside the kernel. `interval::deadlocks` finds them.

use crate::findings::finding::{Evidence, Kind, Severity, Subject, Value};
use crate::findings::formatting::{lossy_name, plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_text};
use crate::findings::wait_chain::link::{CHAIN_CONFIDENCE, ChainConfidence, ChainLink};
use crate::findings::wait_chain::named_holder::{known_by, lock_noun, thread_name};
use crate::findings::wait_chain::reported_threads::MIN_SEVERAL_THREADS;
use crate::findings::wait_chain::stacks::stacks_of_threads;
use crate::findings::wait_chain::user_stacks::user_stacks_of_threads;
use crate::interval::Interval;
use crate::interval::deadlocks::Deadlock;
use crate::sample::waits::OwnerField;

pub const DEADLOCK: Rule = Rule {
    kind: Kind::Deadlock,
    title: "Deadlock",
    meaning: "Threads of a process wait for each other: each holds a mutex (or a read-write lock, or a lock of Java) and waits for that of the next one. None of \
              them ever proceeds, nor does a thread that waits for one of these mutexes. The same of locks inside the \
              kernel, which is an error of the kernel. Or a thread has ended and did not unlock a mutex: threads that wait for it \
              never proceed either.",
    computed: "The mutexes themselves name their owners (`pthread_mutex_t.__owner` and `pthread_rwlock_t.__cur_writer` of glibc; the futex word of a lock with priority \
               inheritance; `ObjectMonitor::_owner` and `exclusiveOwnerThread` of Java), read in each sub-sample before and after the owner's state; so do mutexes and rw-semaphores of the kernel. \
               Following the owner of each mutex to the mutex \
               that this thread waits for leads back to the first thread, in at least 80 % of the readings; or no process has a \
               thread with the number in the mutex any more.",
    caveats: "Only mutexes of glibc and the writers of its read-write locks, robust mutexes, those of musl but plain ones, futexes with priority inheritance, monitors and locks of java.util.concurrent \
              (HotSpot) and locks inside the kernel name their owner; deadlocks of file locks are reported as file-lock-queue. Without permission to \
              read the memory of the process nothing is known. A cycle in which a thread waits with a timeout \
              (pthread_mutex_timedlock) is no deadlock: idle-but-blocked says so. Where another thread unlocks a mutex, as with one that is used as a \
              semaphore, its holder may have ended with good reason. Of a read-write lock whose writer has ended nothing is said.",
    next_steps: &[
        "what each of these threads called: the stacks on its page, or gdb -p PID, thread apply all bt; of Java: jcmd PID Thread.print",
        "the order in which the program takes these mutexes: it must be the same everywhere",
        "where a holder has ended: returns and exceptions between lock and unlock, threads that are cancelled",
        "the process has to be restarted: a deadlock does not end by itself",
    ],
    reference: "Lock holders",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: deadlock,
};

fn deadlock(context: &RuleContext) -> Vec<Candidate> {
    context.interval.locks.deadlocks.iter().map(|deadlock| candidate(context.interval, deadlock)).collect()
}

/// The locks of a cycle: one, and several
fn lock_nouns(fields: &[OwnerField]) -> (&'static str, &'static str) {
    let mut kinds: Vec<&str> = fields.iter().map(|&field| lock_noun(field)).collect();
    kinds.dedup();
    match kinds.as_slice() {
        ["lock inside the kernel"] => ("lock inside the kernel", "locks inside the kernel"),
        ["read-write lock"] => ("read-write lock", "read-write locks"),
        ["Java monitor"] => ("Java monitor", "Java monitors"),
        ["java.util.concurrent lock"] => ("java.util.concurrent lock", "java.util.concurrent locks"),
        ["mutex"] => ("mutex", "mutexes"),
        _ => ("lock", "locks"),
    }
}

fn candidate(interval: &Interval, deadlock: &Deadlock) -> Candidate {
    let Deadlock { group, threads, known_by: fields, process, others, .. } = deadlock;
    let has_ended = deadlock.has_ended();
    let pid = threads.first().map_or(0, |thread| thread.wait.task.pid);
    let label = format!("{} ({pid})", lossy_name(process));
    let names: Vec<String> = threads.iter().map(thread_name).collect();
    let (lock, locks) = lock_nouns(fields);
    // A mean, of at least one thread.
    let behind_ended = others.round().max(1.0);
    let what = match names.as_slice() {
        [one] if has_ended => {
            let waiting = plural(behind_ended, "thread waits", "threads wait");
            format!("{waiting} for a {lock} that {one} held when it ended: none proceeds")
        }
        [one] => format!("{one} waits for a {lock} that it holds itself, and never proceeds"),
        [] => String::new(),
        [first, second] => {
            format!("{first} waits for a {lock} that {second} holds, and {second} for one that {first} holds: neither proceeds")
        }
        names @ [first, ..] => format!(
            "{} threads wait for each other's {locks} in a cycle, and none proceeds: {} → {first}",
            names.len(),
            names.join(" → ")
        ),
    };
    let behind = match *others >= MIN_SEVERAL_THREADS && !has_ended {
        true => format!("; {} wait for these {locks}", plural(*others, "more thread", "more threads")),
        false => String::new(),
    };
    let holders = names.iter().zip(fields).cycle().skip(1);
    let links = names.iter().zip(holders).map(|(waits, (holds, &field))| ChainLink {
        what: match has_ended {
            true => format!("{process} waits for a {lock} that {holds} held when it ended", process = lossy_name(process)),
            false => format!("{waits} waits for a {lock} that {holds} holds"),
        },
        known_by: known_by(field).into(),
    });
    let (deadlocked, others) = if has_ended { (behind_ended, 0.0) } else { (threads.len() as f64, *others) };
    let evidence = vec![
        evidence_text("group", process.clone()),
        evidence_number("pid", f64::from(pid)),
        evidence_number("deadlocked_threads", deadlocked),
        evidence_number("other_waiting_threads", others),
        evidence_text(CHAIN_CONFIDENCE, ChainConfidence::High.as_str()),
        Evidence { name: "chain", value: Value::Chain(links.collect()) },
    ];
    let kernel = fields.iter().any(|field| field.is_of_kernel()).then(|| stacks_of_threads(interval, threads.iter()));
    let stacks = [("kernel_stack", kernel.flatten()), ("user_stack", user_stacks_of_threads(interval, threads.iter()))];
    let stacks = stacks.into_iter().filter_map(|(name, stack)| Some(evidence_text(name, stack?.as_str())));
    Candidate {
        severity: Severity::Critical,
        subject: Subject::Group { id: group.clone(), name: process.clone() },
        value: deadlocked,
        threshold: 1.0,
        unit: "threads",
        sentence: format!("deadlock in {label}: {what}{behind}"),
        evidence: evidence.into_iter().chain(stacks).collect(),
        explained_share: 0.0,
    }
}
