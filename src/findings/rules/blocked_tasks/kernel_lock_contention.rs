//! Rule kernel-lock-contention: threads wait for locks inside the kernel, not for storage, while CPUs are idle.
//! `interval::idle_blocked::kernel_locks` counts them.

use crate::findings::finding::{Evidence, Kind, Severity, Subject};
use crate::findings::formatting::{count, lossy_name, plural, significant_digits, singular_or_plural};
use crate::findings::hung_threads::hung_threads;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_lock_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::holder::{describe_process_group, syscall_of};
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::named_holder::{
    describe_named_holder, holder_confidence, holder_links, known_by, other_locks_evidence,
};
use crate::findings::wait_chain::reported_threads::{MIN_REPORTED_THREADS, MIN_SECONDARY_SHARE, MIN_SEVERAL_THREADS};
use crate::findings::wait_chain::stacks;
use crate::findings::wait_chain::user_stacks::user_stack_of;
use crate::ids::GroupId;
use crate::interval::cpu_affinity::AffinityWaiters;
use crate::interval::idle_blocked::kernel_locks::{KernelLockGroup, KernelLockWait, KernelLocks, is_frozen_file_system};
use crate::sample::Name;
use crate::sample::waits::class::KernelLock;
use crate::units::reaches_threshold;

pub const KERNEL_LOCK_CONTENTION: Rule = Rule {
    kind: Kind::KernelLockContention,
    title: "Kernel lock contention",
    meaning: "Threads wait for a lock inside the kernel (mmap_lock of their process, the lock of a directory or an inode, a lock inside a file system, a mutex of \
              cgroups, mounts, namespaces or modules), for a frozen file system (fsfreeze, a snapshot), or for an RCU grace period (umount, removal of a cgroup or of a network namespace), \
              or the kernel waits for a program for them (fanotify: a virus scanner; the automounter; the audit daemon), \
              not for storage, while CPUs are idle. More CPUs will not help: the threads get a lock one at a time, and a grace period takes \
              milliseconds whatever the load is. The idle time that it explains is an upper bound of what can be gained.",
    computed: "At each sub-sample: user threads in D in a function of the kernel that waits for a lock, or, while no device has \
               requests in flight, in a function that is not known; and the smaller of their number and of the idle CPUs. \
               Threads whose lock a thread of their group on storage may hold are left out: they count in idle-but-blocked, which may \
               explain the same idle time. rtnl_mutex, cgroup_mutex and others are never held there, mmap_lock only in a page \
               fault or a call that changes the memory map. Reported from a mean of 1.5 threads and 0.25 CPU; a note below 10 % of the host, \
               critical from 50 % of the host with two such threads for each CPU. Connections whose requests a \
               server behind such a lock has not read or not answered count like threads of it. The holder is the thread that the lock itself names \
               (`mutex.owner`, `rw_semaphore.owner`, `semaphore.last_holder`), if that had not run since; threads whose lock is held by a thread on \
               storage or in memory reclaim count in idle-but-blocked instead. Threads in one wait for 5 s are a \
               hung-task finding, and are not reported here, unless they wait for a frozen file system. Where no CPU is idle, cpu-saturated names the lock if more \
               threads than CPUs wait for it and at least a quarter of the busy time is system time.",
    caveats: "Which thread holds the lock is known only to root (CAP_BPF and CAP_PERFMON) with eBPF programs: of mutexes and \
              rw-semaphores since Linux 5.19, there only for waits that begin while threads are seen to wait, of semaphores since 6.16, of \
              mmap_lock also before; a lock held by readers names the one that came \
              last. The name of a lock is that of the function's usual lock. Where wait \
              channels are hidden (other users' tasks, no privilege) such threads are not seen.",
    next_steps: &[
        "the system calls in the sentence: fewer, larger or cached mappings; one directory split into several; fewer short-lived \
         cgroups, namespaces or processes",
        "mmap_lock: tools that read /proc/PID/maps or smaps of the process, and processes with many threads",
        "RCU grace periods: fewer umounts and removals, or several at once; synchronize_rcu in /proc/PID/stack",
        "the kernel waits for a program: whether that runs and has CPU time; auditctl -s (backlog), autofs and its server, the virus scanner",
        "a frozen file system: fsfreeze -u MOUNT thaws it; which backup or snapshot froze it, and whether that still runs",
        "the holder, if it is not named: perf lock contention -ab, or perf trace -s of the process; if it is: /proc/TID/stack as root",
    ],
    reference: "Kernel locks",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: kernel_lock_contention,
};

/// Share of the busy time that must be system time so that cpu-saturated names the lock. docs/metrics.md, "Fixed thresholds".
pub const MIN_SYSTEM_SHARE: f64 = 0.25;

/// Groups and operations that a sentence lists at most.
const MAX_LISTED: usize = 3;

fn kernel_lock_contention(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let Some(blocked) = &context.interval.idle_blocked else { return Vec::new() };
    let Some(locks) = &blocked.kernel_locks else { return Vec::new() };
    let enough = reaches_threshold(locks.waiting(), thresholds.kernel_lock_threads)
        && reaches_threshold(locks.cpus, thresholds.kernel_lock_cpus);
    let Some(top) = locks.groups.first().filter(|_| enough && !is_hung(context, locks)) else { return Vec::new() };
    let available = blocked.available * context.cpu_count();
    let mut sentence = group_summary(context, top, &behind_holder(context, top));
    // Where no group is most of them, the first one alone would say too little.
    if top.threads * 2.0 < locks.threads {
        let groups = locks.groups.len();
        sentence =
            format!("{} of {groups} groups wait inside the kernel: {sentence}", plural(locks.threads, "thread", "threads"));
    }
    let secondary = |group: &&KernelLockGroup| group.threads >= MIN_REPORTED_THREADS.max(top.threads * MIN_SECONDARY_SHARE);
    for group in locks.groups.iter().skip(1).filter(secondary).take(MAX_LISTED - 1) {
        sentence.push_str(&format!("; {}", group_summary(context, group, "")));
    }
    sentence.push_str(&format!(
        ". Meanwhile {} {} idle, up to {} of {} because of this",
        context.of_all_cpus(available),
        if available > 1.0 { "were" } else { "was" },
        significant_digits(locks.cpus),
        if available > 1.0 { "them" } else { "it" },
    ));
    let many = reaches_threshold(locks.waiting(), thresholds.blocked_critical_threads_per_cpu * context.cpu_count());
    let severity = if many && reaches_threshold(locks.ratio_with_connections, thresholds.blocked_critical_ratio) {
        Severity::Critical
    } else if reaches_threshold(locks.ratio_with_connections, thresholds.kernel_lock_warning_ratio) {
        Severity::Warning
    } else {
        Severity::Note
    };
    vec![Candidate {
        severity,
        subject: Subject::Host,
        value: locks.waiting(),
        threshold: thresholds.kernel_lock_threads,
        unit: "threads",
        sentence,
        evidence: evidence(context, locks, top, available),
        explained_share: locks.ratio_with_connections,
    }]
}

/// `; 27 threads of app (4711) wait for the lock of a directory inside the kernel, one at a time: 20 in rename (…)`, where the CPUs are
/// full, in part with system time, and more threads than CPUs wait so: those that run in the kernel spin for the lock, or hold it.
/// `restricted`: of these CPUs, and of a process whose threads are restricted to them.
pub fn kernel_lock_clause(context: &RuleContext, restricted: Option<&AffinityWaiters>) -> Option<String> {
    let cpu = context.interval.cpu.as_ref()?;
    let locks = context.interval.idle_blocked.as_ref()?.kernel_locks.as_ref()?;
    let is_among = |group: &GroupId| {
        let mut waiters = restricted.iter().flat_map(|restricted| &restricted.waiters);
        restricted.is_none()
            || waiters.any(|(task, _)| context.process(task.pid).is_some_and(|process| process.group() == *group))
    };
    let top = locks.groups.iter().find(|locks| is_among(&locks.group))?;
    let (system, busy) = match restricted {
        None => (cpu.total.system, cpu.busy()),
        Some(restricted) => {
            let cores = cpu.cpus.iter().filter(|core| restricted.cpus.contains(&core.id));
            cores.fold((0.0, 0.0), |(system, busy), core| (system + core.shares.system, busy + core.busy()))
        }
    };
    let cpus = restricted.map_or(context.cpu_count(), |restricted| restricted.cpus.len() as f64);
    let is_kernel_time = system >= busy * MIN_SYSTEM_SHARE;
    let is_reported_alone = reaches_threshold(locks.cpus, context.thresholds.kernel_lock_cpus);
    let is_crowd = top.threads > cpus.max(context.thresholds.kernel_lock_threads) && is_mostly_locks(top);
    (is_kernel_time && is_crowd && !is_reported_alone)
        .then(|| format!("; {}", group_summary(context, top, &behind_holder(context, top))))
}

/// Whether most of the threads hang: in one single wait, which has a finding of its own.
/// A frozen file system holds all threads that write to it, so that here they are counted with what waits for them.
fn is_hung(context: &RuleContext, locks: &KernelLocks) -> bool {
    if locks.groups.first().is_some_and(|group| main_lock(group) == Some(KernelLock::FrozenFileSystem)) {
        return false;
    }
    let groups = &context.interval.newer.waits.groups;
    let hung = hung_threads(context.interval, context.thresholds).filter(|thread| {
        let group = groups.get(usize::from(thread.wait.group));
        let mut of_group = locks.groups.iter().filter(|of_locks| Some(&of_locks.group) == group);
        of_group.any(|of_locks| of_locks.waits.iter().any(|wait| thread.wait.wchan.as_ref() == Some(&wait.wchan)))
    });
    hung.count() as f64 * 2.0 >= locks.threads
}

/// `28 threads of app (4711) wait for mmap_lock (the memory map) inside the kernel, one at a time: 14 in munmap (__vm_munmap), …`;
/// `behind`: `behind_holder`, of the group that the sentence begins with.
fn group_summary(context: &RuleContext, group: &KernelLockGroup, behind: &str) -> String {
    let label = describe_process_group(&group.group, &group.label);
    let threads = plural(group.threads, "thread", "threads");
    let verb = singular_or_plural(count(group.threads), "waits", "wait");
    let listed: Vec<String> = group.waits.iter().take(MAX_LISTED).map(|wait| wait_summary(context, wait)).collect();
    let what = awaited(context, group);
    // Connections that a waiting thread serves are said by it.
    let connections = match group.connections_behind() {
        more if more >= 1.0 => format!("; {} connections wait for it", group.connections),
        _ => String::new(),
    };
    format!("{threads} of {label} {verb} {what}{behind}: {}{connections}", listed.join(", "))
}

/// ` behind app/4720, which runs with the lock held`, `, one at a time`; nothing where threads share the lock.
fn behind_holder(context: &RuleContext, group: &KernelLockGroup) -> String {
    if !is_mostly_locks(group) || main_lock(group).is_some_and(KernelLock::is_shared) {
        return String::new();
    }
    match &group.holder {
        Some(holder) => format!(" behind {}", describe_named_holder(context.interval, holder)),
        None => ", one at a time".into(),
    }
}

/// `for mmap_lock (the memory map) inside the kernel`, `for a frozen file system (fsfreeze, a snapshot): /data`
fn awaited(context: &RuleContext, group: &KernelLockGroup) -> String {
    match (main_lock(group), is_mostly_locks(group)) {
        (Some(lock @ KernelLock::FrozenFileSystem), _) => {
            let mount =
                frozen_mount(context, &group.group).map_or_else(String::new, |mount| format!(" on {}", lossy_name(mount)));
            format!("for {}{mount}", lock.description())
        }
        (Some(lock), _) if lock.is_of_program() => format!("for {}", lock.description()),
        (Some(lock), _) => format!("for {} inside the kernel", lock.description()),
        (None, true) => "for locks inside the kernel".into(),
        (None, false) => "in D inside the kernel, not for storage".into(),
    }
}

/// Where the file system is mounted for which a thread of the group waits until it thaws.
fn frozen_mount<'a>(context: &'a RuleContext, group: &GroupId) -> Option<&'a Name> {
    let groups = &context.interval.newer.waits.groups;
    let of_group =
        context.interval.blocked_threads.iter().filter(|thread| groups.get(usize::from(thread.wait.group)) == Some(group));
    of_group
        .filter(|thread| thread.wait.wchan.as_ref().is_some_and(|channel| is_frozen_file_system(channel.as_bytes(), None)))
        .find_map(|thread| thread.wait.mount.as_ref())
}

/// Whether threads of the group wait until a file system thaws.
pub fn waits_for_thaw(locks: &KernelLocks, group: &GroupId) -> bool {
    locks.groups.iter().any(|of_locks| of_locks.group == *group && main_lock(of_locks) == Some(KernelLock::FrozenFileSystem))
}

/// `14 in munmap (__vm_munmap)`
fn wait_summary(context: &RuleContext, wait: &KernelLockWait) -> String {
    let function = lossy_name(&wait.wchan);
    match wait.syscall.and_then(|call| syscall_of(context.interval, call)) {
        Some(call) => format!("{} in {call} ({function})", count(wait.threads)),
        None => format!("{} in {function}", count(wait.threads)),
    }
}

/// Threads of a group that wait for locks, as far as that is known.
fn lock_threads(group: &KernelLockGroup, of: impl Fn(&KernelLockWait) -> bool) -> f64 {
    group.waits.iter().filter(|wait| wait.is_lock && of(wait)).map(|wait| wait.threads).sum()
}

fn is_mostly_locks(group: &KernelLockGroup) -> bool {
    lock_threads(group, |_| true) * 2.0 >= group.threads
}

/// The lock for which more than half of the group's threads wait.
fn main_lock(group: &KernelLockGroup) -> Option<KernelLock> {
    let of_lock = |lock: KernelLock| lock_threads(group, |wait| wait.lock == Some(lock));
    group.waits.iter().filter_map(|wait| wait.lock).find(|&lock| of_lock(lock) * 2.0 > group.threads)
}

fn evidence(context: &RuleContext, locks: &KernelLocks, top: &KernelLockGroup, available: f64) -> Vec<Evidence> {
    let explained = (available > 0.0).then(|| (locks.cpus / available).min(1.0));
    let mut list = vec![
        evidence_number("waiting_threads", locks.threads),
        evidence_number("explained_cpus", locks.cpus),
        evidence_number("explained_host_ratio", locks.ratio),
        evidence_number("available_cpus", available),
        evidence_optional("explained_idle_ratio", explained),
        evidence_text("group", top.label.name.clone()),
        evidence_number("group_threads", top.threads),
        evidence_number("group_waiting_connections", f64::from(top.connections)),
        evidence_number("with_connections_ratio", locks.ratio_with_connections),
    ];
    list.push(match main_lock(top) {
        Some(lock) => evidence_text("lock", lock.description()),
        None => evidence_optional("lock", None),
    });
    for (name, wait) in ["wait_1", "wait_2", "wait_3"].into_iter().zip(&top.waits) {
        list.push(evidence_text(name, wait_summary(context, wait).as_str()));
    }
    if let Some(holder) = &top.holder {
        list.push(evidence_text("lock_holder", describe_named_holder(context.interval, holder).as_str()));
        list.push(evidence_text("lock_holder_basis", known_by(holder.field)));
        list.push(evidence_number("lock_holders_seen", f64::from(holder.holders)));
        list.extend(other_locks_evidence(context.interval, holder));
        list.push(evidence_number("holder_tid", f64::from(holder.thread.wait.task.tid)));
        if let Some(stack) = stacks::stack_of(context.interval, holder.last_thread()) {
            list.push(evidence_text("holder_stack", stack.as_str()));
        }
        if let Some(stack) = user_stack_of(context.interval, holder.last_thread()) {
            list.push(evidence_text("holder_user_stack", stack.as_str()));
        }
    }
    let lock = awaited(context, top);
    let label = describe_process_group(&top.group, &top.label);
    let waits = plural(top.threads, "thread waits", "threads wait");
    let waiting = ChainLink::new(format!("{label}: {waits} {lock}"), "the wait channels");
    let is_held = is_mostly_locks(top) && !main_lock(top).is_some_and(KernelLock::is_shared);
    if let Some(holder) = top.holder.as_ref().filter(|_| is_held) {
        let links = std::iter::once(waiting).chain(holder_links(context.interval, holder));
        list.extend(evidence_lock_chain(links, holder_confidence(holder)));
    }
    let names = context.interval.blocked_threads.iter().filter(|thread| {
        context.interval.newer.waits.groups.get(usize::from(thread.wait.group)) == Some(&top.group)
            && top.waits.iter().any(|wait| Some(&wait.wchan) == thread.wait.wchan.as_ref())
    });
    if let Some(thread) = names.max_by_key(|thread| thread.wait.seen_count).filter(|_| top.threads >= MIN_SEVERAL_THREADS) {
        list.push(evidence_text("thread", thread.wait.comm.clone()));
    }
    list
}
