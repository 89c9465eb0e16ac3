//! What the holder of a lock does meanwhile, as words of a sentence.

use crate::findings::formatting::lossy_name;
use crate::findings::rule_context::RuleContext;
use crate::findings::wait_chain::holder::{describe_halt, syscall_of};
use crate::interval::stuck_servers::Halt;
use crate::sample::Name;
use crate::sample::task::Process;
use crate::sample::waits::{Syscall, WaitClass};

/// `backup (4711), which sleeps in clock_nanosleep`, of the process that holds a lock.
pub fn describe_lock_holder(context: &RuleContext, pid: u32) -> String {
    let Some(process) = context.process(pid) else { return format!("process {pid}") };
    let label = format!("{} ({pid})", lossy_name(&process.comm));
    match Halt::from_process(process) {
        Some(halt) => format!("{label}, which is {}", describe_halt(halt)),
        None => format!("{label}, which {}", activity(context, process)),
    }
}

/// What a process does: of its only thread by its system call, of several threads only that none runs.
fn activity(context: &RuleContext, process: &Process) -> String {
    let counts = &context.interval.wait_counts;
    let seen_count =
        |class: WaitClass| counts.process_threads(process.pid).iter().map(|thread| thread.count(class)).sum::<u32>();
    let blocked = context.interval.blocked_threads.iter().find(|thread| thread.wait.task.pid == process.pid);
    let is_most = |class| f64::from(seen_count(class)) >= counts.sub_samples.len().max(1) as f64 / 2.0;
    if is_most(WaitClass::Running) {
        return "uses a CPU".into();
    }
    let [thread] = &*process.threads else {
        return match blocked {
            Some(_) => "has a thread in D".into(),
            None => "sleeps".into(),
        };
    };
    let call = blocked.and_then(|blocked| blocked.wait.syscall).or(thread.wait.syscall().ok());
    if let Some(name) = call.and_then(|call| syscall_of(context.interval, call)) {
        return if blocked.is_some() { format!("is in {name}") } else { format!("sleeps in {name}") };
    }
    let call = call.and_then(|call| Syscall::from_number(context.interval.host.machine.as_bytes(), call));
    let wchan = thread.wait.wchan.as_ref().ok().map(Name::as_bytes);
    match WaitClass::classify(thread.state, wchan, call) {
        Some(WaitClass::Timer) => "sleeps for a fixed time".into(),
        Some(WaitClass::Poll) => "waits for events".into(),
        Some(WaitClass::Net) => "waits in a socket".into(),
        Some(WaitClass::Pipe) => "waits in a pipe".into(),
        Some(WaitClass::Child) => "waits for a child process".into(),
        Some(WaitClass::Lock) => "waits for a lock itself".into(),
        _ => "sleeps".into(),
    }
}
