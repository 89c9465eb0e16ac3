//! Rule hung-task: a thread has been in one single uninterruptible wait for seconds.

use crate::findings::device_waiters::leads_to_device;
use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{count, duration, lossy_name, plural, significant_digits, singular_or_plural};
use crate::findings::hung_kernel_threads::{hung_kernel_threads, kernel_thread_evidence, kernel_thread_names};
use crate::findings::hung_threads::{hung_threads, waited_seconds, waits_for_fuse};
use crate::findings::kernel_thread_tracker::HungKernelThread;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_lock_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::blocked_tasks::MIN_BUSY_REQUESTS;
use crate::findings::wait_chain::holder::syscall_name;
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink};
use crate::findings::wait_chain::named_holder::{describe_named_holder, holder_confidence, known_by};
use crate::findings::wait_chain::stacks::stack_of;
use crate::findings::wait_chain::user_stacks::user_stack_of;
use crate::ids::{DiskId, GroupId};
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::disk::DiskSpan;
use crate::interval::idle_blocked::kernel_locks::is_frozen_file_system;
use crate::interval::lock_holders::holder_of_group;
use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::sample::task::{TaskState, Thread};
use crate::sample::waits::class::{KernelLock, is_tape, strip_compiler_suffix};
use crate::sample::waits::{MAX_BLOCKED_THREADS, Syscall, WaitClass};

pub const HUNG_TASK: Rule = Rule {
    kind: Kind::HungTask,
    title: "Hung task",
    meaning: "A thread has been in uninterruptible sleep (D) in one single wait for seconds: it cannot be killed, and \
              everything that waits for it waits too. A thread that waits for a file system in user space (FUSE) sleeps in S \
              and can be killed.",
    computed: "In D, or asleep for the answer of a file system in user space (FUSE), for at least 5 s without any CPU time. \
               vfork parents and frozen tasks are left out. Critical from 120 s, except behind a core dump of their process, which is named. A device of the device mapper that is suspended is named (dm/suspended, read every 30 s). Kernel threads that enter D and hang at the \
               same time are named with it; alone they are reported from 120 s, as a note; if a device completes nothing, \
               that finding names them. Kernel threads that are in D from the start are learned by name (10 s in which \
               nothing else hangs) and left out.",
    caveats: "One very large request (a discard of a device, a sync of gigabytes to a slow disk) is real work.",
    next_steps: &[
        "its wait channel and file: a frozen file system, a server that does not answer, a stalled device",
        "a disk-stalled finding at the same time",
        "/proc/PID/stack as root",
        "a core dump: coredumpctl, or kernel.core_pattern; its size is limited by RLIMIT_CORE and /proc/PID/coredump_filter",
        "FUSE: whether its server runs; /sys/fs/fuse/connections/N/waiting, and writing to abort beside it ends the wait",
    ],
    reference: "Wait classes",
    hysteresis: Hysteresis::Immediate,
    evaluate: hung_task,
};

fn hung_task(context: &RuleContext) -> Vec<Candidate> {
    let newer = &context.interval.newer;
    let waited = |thread: &BlockedThread| waited_seconds(context.interval, thread.wait.blocked_since_ns);
    let hung: Vec<&BlockedThread> = hung_threads(context.interval, context.thresholds).collect();
    let of_kernel = hung_kernel_threads(context);
    let mut found: Vec<Candidate> = Vec::new();
    for (index, id) in newer.waits.groups.iter().enumerate() {
        let of_group = hung.iter().filter(|thread| usize::from(thread.wait.group) == index);
        // Threads that wait for a core dump say nothing of what it, or another process of the group, waits for.
        let rank = |thread: &BlockedThread| (thread.class != WaitClass::CoreDump, waited(thread));
        let by_rank =
            |a: &&&BlockedThread, b: &&&BlockedThread| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1));
        let Some(longest) = of_group.clone().max_by(by_rank) else { continue };
        let threads = of_group.count();
        let longest_s = waited(longest);
        let (thread_name, label) = context.task_label(longest.wait.task);
        let place = longest.wait.wchan.as_ref().map_or_else(|| "a wait that is not readable".into(), lossy_name);
        // The kernel's function says more than the system call: both are named.
        let call = match syscall_name(context.interval, longest) {
            Some(call) => format!("in {call} ({place})"),
            None => format!("in {place}"),
        };
        let on = match (&longest.wait.file, &longest.wait.mount) {
            (Some(file), _) => format!(" on {}", lossy_name(file)),
            (None, Some(mount)) => format!(" on {}", lossy_name(mount)),
            (None, None) => String::new(),
        };
        let others = match threads {
            1 => String::new(),
            many if context.interval.blocked_threads.len() < MAX_BLOCKED_THREADS => {
                format!(" and {} more of its group", many - 1)
            }
            many => format!(" and at least {} more of its group", many - 1),
        };
        let of_kernel = match stalled_device(context, longest) {
            // The finding about the stalled device names them.
            Some(_) => [].as_slice(),
            None => of_kernel.as_slice(),
        };
        let beside = match of_kernel {
            [] => String::new(),
            threads => format!("; hung kernel threads at the same time: {}", kernel_thread_names(threads)),
        };
        let (cause, basis, confidence) = hang_cause(context, longest);
        let dumps_core = longest.class == WaitClass::CoreDump;
        let sentence = match dumps_core {
            true => core_dump_sentence(context, longest, longest_s),
            false => format!(
                "{label}{others} {} stuck{} for {} without a break, {call}{on}: {cause}{beside}",
                singular_or_plural(threads, "has been", "have been"),
                if waits_for_fuse(longest) { "" } else { " in D" },
                duration(longest_s),
            ),
        };
        let subject = match has_one_thread(context, id) {
            true => Subject::Task { id: longest.wait.task, name: thread_name },
            false => Subject::Group {
                id: id.clone(),
                name: context.process(longest.wait.task.pid).map(|p| p.comm.clone()).unwrap_or_default(),
            },
        };
        found.push(Candidate {
            // The process has crashed, and its threads end with the dump.
            severity: if longest_s >= context.thresholds.hung_critical_seconds && !dumps_core {
                Severity::Critical
            } else {
                Severity::Warning
            },
            subject,
            value: longest_s,
            threshold: context.thresholds.hung_seconds,
            unit: "seconds",
            sentence,
            evidence: vec![
                evidence_number("stuck_seconds", longest_s),
                evidence_number("stuck_threads", threads as f64),
                evidence_text("wait_channel", place.as_str()),
                evidence_text("wait_class", longest.class.as_str()),
                longest.wait.file.clone().map_or(evidence_optional("file", None), |file| evidence_text("file", file)),
                longest.wait.mount.clone().map_or(evidence_optional("mount", None), |mount| evidence_text("mount", mount)),
                longest.wait.disk.map_or(evidence_optional("device", None), |disk| {
                    evidence_text("device", context.disk_name(disk).as_str())
                }),
                evidence_optional("in_flight", in_flight(context, longest.wait.disk)),
                kernel_thread_evidence(of_kernel),
            ]
            .into_iter()
            .chain(evidence_lock_chain(
                [ChainLink::new(format!("{label}{others}: {call} for {}", duration(longest_s)), "the wait channel and state")]
                    .into_iter()
                    .chain(on.strip_prefix(" on ").map(|file| ChainLink::new(file, "the descriptor of its system call")))
                    .chain([ChainLink::new(cause, basis)]),
                confidence,
            ))
            .chain(stack_of(context.interval, longest).map(|stack| evidence_text("kernel_stack", stack.as_str())))
            .chain(user_stack_of(context.interval, longest).map(|stack| evidence_text("user_stack", stack.as_str())))
            .collect(),
            explained_share: 0.0,
        });
    }
    found.extend(standalone_candidate(context, &of_kernel));
    found
}

/// `java (4711) is writing a core dump (it crashed); 199 threads have waited 12 s for it`
fn core_dump_sentence(context: &RuleContext, longest: &BlockedThread, seconds: f64) -> String {
    let process = context.process(longest.wait.task.pid);
    let name = process.map_or_else(|| lossy_name(&longest.wait.comm), |process| lossy_name(&process.comm));
    let waits =
        |thread: &&Thread| thread.state == TaskState::Blocked && thread.wait.wchan.as_ref().ok() == longest.wait.wchan.as_ref();
    let threads = process.map_or(0, |process| process.threads.iter().filter(waits).count()).max(1);
    format!(
        "{name} ({}) is writing a core dump (it crashed); {} {} waited {} for it",
        longest.wait.task.pid,
        plural(threads as f64, "thread", "threads"),
        singular_or_plural(threads, "has", "have"),
        duration(seconds),
    )
}

/// Whether the group has only one thread. Otherwise the finding is about the group.
fn has_one_thread(context: &RuleContext, group: &GroupId) -> bool {
    let Ok(tasks) = &context.interval.newer.tasks else { return true };
    tasks.members(group).map(|process| process.threads.len()).sum::<usize>() <= 1
}

/// Requests in flight on that device, or on all devices if it is not known.
fn in_flight(context: &RuleContext, device: Option<DiskId>) -> Option<f64> {
    let disks = context.interval.newer.disks.as_ref().ok()?;
    let concerned = disks.iter().filter(|disk| device.is_none_or(|device| device == disk.id));
    Some(concerned.map(|disk| f64::from(disk.in_flight)).sum())
}

/// Requests that the device completes per second; all devices if it is not known.
fn completions_per_second(context: &RuleContext, device: Option<DiskId>) -> Option<f64> {
    let concerned = context.interval.disks.iter().filter(|span| device.is_none_or(|device| device == span.id));
    Some(concerned.map(DiskSpan::completed_per_second).sum())
}

/// The device that the thread waits for, if it completes nothing.
fn stalled_device<'a>(context: &'a RuleContext, thread: &BlockedThread) -> Option<&'a DiskSpan> {
    context.interval.disks.iter().find(|span| span.stalled && thread.wait.disk.is_none_or(|disk| disk == span.id))
}

/// Whether the file of the thread is not known, while another thread hangs because a server does not answer.
fn may_wait_for_server(context: &RuleContext, thread: &BlockedThread) -> bool {
    let is_unknown = thread.wait.disk.is_none() && thread.wait.mount.is_none();
    is_unknown && hung_threads(context.interval, context.thresholds).any(BlockedThread::is_non_block_storage)
}

/// The suspended device (dm) of the thread's file, or below it; where that is not known the only one that is suspended.
fn suspended_device<'a>(context: &RuleContext<'a>, thread: &BlockedThread) -> Option<&'a Disk> {
    let interval: &'a Interval = context.interval;
    let disks = interval.newer.disks.as_ref().ok()?;
    let mut suspended = disks.iter().filter(|disk| disk.facts.suspended == Some(true));
    let mounted = |mount: &Name| disks.iter().find(|disk| disk.facts.mount_points.contains(mount)).map(|disk| disk.id);
    match (thread.wait.disk, &thread.wait.mount) {
        (Some(disk), _) => suspended.find(|below| leads_to_device(interval, disk, below.id)),
        (None, Some(mount)) => {
            mounted(mount).and_then(|disk| suspended.find(|below| leads_to_device(interval, disk, below.id)))
        }
        (None, None) => suspended.next().filter(|_| suspended.next().is_none()),
    }
}

/// The suspended device that keeps a thread on storage waiting, or one in a file system that does not let writes begin (`frozen`).
fn suspended_cause(context: &RuleContext, thread: &BlockedThread, frozen: bool) -> Option<HangCause> {
    let waits_for_storage = thread.class == WaitClass::Disk && !thread.is_non_block_storage();
    let device = suspended_device(context, thread).filter(|_| waits_for_storage || frozen)?;
    let is_known = thread.wait.disk.is_some() || thread.wait.mount.is_some();
    if !is_known && (stalled_device(context, thread).is_some() || may_wait_for_server(context, thread)) {
        return None;
    }
    let name = lossy_name(&device.name);
    Some(match is_known {
        true => (
            format!("{name} is suspended (device mapper), so that no request reaches the device below: dmsetup resume {name}"),
            "dm/suspended of the device in sysfs",
            ChainConfidence::High,
        ),
        false => (
            format!("most likely it waits for {name}, which is suspended (device mapper): dmsetup resume {name}"),
            "inference: dm/suspended of the device in sysfs",
            ChainConfidence::Medium,
        ),
    })
}

/// The cause in words, how it is known, and how sure that is.
type HangCause = (String, &'static str, ChainConfidence);

fn hang_cause(context: &RuleContext, thread: &BlockedThread) -> HangCause {
    let stalled = stalled_device(context, thread);
    let requests = in_flight(context, thread.wait.disk);
    let idle = requests.is_some_and(|requests| requests < MIN_BUSY_REQUESTS);
    let call = thread.wait.syscall.and_then(|call| Syscall::from_number(context.interval.host.machine.as_bytes(), call));
    let frozen = thread.wait.wchan.as_ref().is_some_and(|channel| is_frozen_file_system(channel.as_bytes(), call));
    let lock =
        thread.wait.wchan.as_ref().and_then(|channel| KernelLock::of_function(strip_compiler_suffix(channel.as_bytes())));
    // In the same wait, but in a call that needs no file system: the lock of cgroups against new tasks.
    let makes_task =
        !frozen && thread.wait.wchan.as_ref().is_some_and(|channel| is_frozen_file_system(channel.as_bytes(), None));
    if let Some(cause) = suspended_cause(context, thread, frozen) {
        return cause;
    }
    let holder = holder_of_group(&context.interval.locks.kernel_holders, usize::from(thread.wait.group));
    let holder = holder.filter(|holder| !frozen && holder.has_one_lock());
    let known = |basis| (basis, ChainConfidence::High);
    let (basis, confidence) = match (thread.class, holder) {
        (WaitClass::CoreDump, _) => known("the wait channel, CoreDumping of /proc/PID/status"),
        _ if thread.is_non_block_storage() => known("the type of the mount, or the wait channel"),
        (WaitClass::Disk, _) if stalled.is_some() && thread.wait.disk.is_some() => known("/proc/diskstats"),
        (WaitClass::Lock, Some(holder)) if !lock.is_some_and(KernelLock::is_of_program) => {
            (known_by(holder.field), holder_confidence(holder))
        }
        _ => ("inference: the wait channel, the mount, requests in flight", ChainConfidence::Medium),
    };
    let cause = match thread.class {
        WaitClass::CoreDump => "another thread writes the core dump of the process, which has crashed".into(),
        _ if thread.is_non_block_storage() => "a server (or a user-space file system) that does not answer".into(),
        WaitClass::Disk if stalled.is_some() => {
            let device = stalled.map(|span| context.disk_name(span.id)).unwrap_or_default();
            format!("{device} completes nothing")
        }
        WaitClass::Disk if may_wait_for_server(context, thread) => {
            "most likely it waits for the server (or the user-space file system) that does not answer".into()
        }
        WaitClass::Lock if let Some(lock) = lock.filter(|lock| lock.is_of_program()) => {
            format!("the kernel waits for {}", lock.description())
        }
        WaitClass::Lock if let Some(holder) = holder => {
            format!("a lock inside the kernel, held by {}", describe_named_holder(context.interval, holder))
        }
        WaitClass::Lock if idle && frozen => match &thread.wait.mount {
            Some(mount) => format!("no I/O is in flight: the file system on {} is frozen, not slow", lossy_name(mount)),
            None => "no I/O is in flight: a frozen file system, not a slow device".into(),
        },
        WaitClass::Lock if makes_task => "a lock inside the kernel without which no task can start or end".into(),
        WaitClass::Lock if let Some(lock) = lock.filter(|_| idle) => {
            format!("no I/O is in flight: it waits for {} inside the kernel, not for a slow device", lock.description())
        }
        WaitClass::Lock if idle => {
            "no I/O is in flight: a frozen file system or a lock inside the kernel, not a slow device".into()
        }
        WaitClass::Other if thread.wait.wchan.as_ref().is_some_and(|channel| is_tape(channel.as_bytes())) => {
            "a tape drive: to rewind or to space takes minutes".into()
        }
        WaitClass::Other if let Some(channel) = &thread.wait.wchan => {
            format!("{}; what {} waits for is not known", in_flight_words(requests), lossy_name(channel))
        }
        WaitClass::Disk if idle => "no I/O is in flight: throttled above the device, or lost".into(),
        WaitClass::Memory => "memory reclaim".into(),
        WaitClass::Lock if let Some(lock) = lock => format!("it waits for {} inside the kernel", lock.description()),
        WaitClass::Lock => "a lock inside the kernel".into(),
        WaitClass::Disk => {
            let requests = requests.map_or_else(|| "-".into(), count);
            // A sync waits for all earlier writes, not for one request of its own.
            match completions_per_second(context, thread.wait.disk) {
                Some(rate) if rate > 0.0 => format!(
                    "{} meanwhile ({} requests per second, {requests} in flight): it waits for many of them, or for one that takes \
                     that long",
                    if thread.wait.disk.is_some() { "the device works" } else { "devices work" },
                    significant_digits(rate)
                ),
                _ => format!("one request that takes that long ({requests} in flight)"),
            }
        }
        _ => in_flight_words(requests),
    };
    (cause, basis, confidence)
}

/// `no I/O is in flight`, `3 requests in flight`
fn in_flight_words(requests: Option<f64>) -> String {
    match requests {
        Some(requests) if requests < MIN_BUSY_REQUESTS => "no I/O is in flight".into(),
        _ => format!("{} in flight", requests.map_or_else(|| "-".into(), |requests| plural(requests, "request", "requests"))),
    }
}

/// Kernel threads that hang longer than `hung_critical_seconds` while no device is stalled and no program hangs: no known
/// harm.
pub fn standalone_candidate(context: &RuleContext, threads: &[&HungKernelThread]) -> Option<Candidate> {
    let longest = threads.first()?;
    let stuck = waited_seconds(context.interval, longest.since_ns);
    let beside = context.interval.disks.iter().any(|span| span.stalled)
        || hung_threads(context.interval, context.thresholds).next().is_some();
    if beside || stuck < context.thresholds.hung_critical_seconds {
        return None;
    }
    let place = longest.channel.as_ref().map_or_else(|| "an unknown wait channel".into(), lossy_name);
    let others = match threads.len() {
        1 => String::new(),
        many => format!(" and {} more kernel threads", many - 1),
    };
    Some(Candidate {
        severity: Severity::Note,
        subject: Subject::Task { id: longest.task, name: longest.name.clone() },
        value: stuck,
        threshold: context.thresholds.hung_critical_seconds,
        unit: "seconds",
        sentence: format!(
            "kernel thread {} ({}){others} {} stuck in D for {} without a break, in {place}; no program hangs with it",
            lossy_name(&longest.name),
            longest.task.tid,
            singular_or_plural(threads.len(), "has been", "have been"),
            duration(stuck),
        ),
        evidence: vec![
            evidence_number("stuck_seconds", stuck),
            evidence_number("stuck_threads", threads.len() as f64),
            evidence_text("wait_channel", place.as_str()),
            kernel_thread_evidence(threads),
        ],
        explained_share: 0.0,
    })
}
