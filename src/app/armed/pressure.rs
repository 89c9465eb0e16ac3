//! Pressure triggers of the kernel: a thread waits in poll(2) on files of /proc/pressure, and wakes when tasks have stalled for long
//! enough within a window, whenever the next sample is due. Documentation/accounting/psi.rst.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::inbox::Inbox;
use super::trigger::TriggerCause;
use crate::app::program::exit::Failure;
use crate::app::program::{priority, privileges, stdio, threads};
use crate::cli::pressure_trigger::PressureTrigger;
use crate::kernel::pressure::parse_pressure;

/// Without CAP_SYS_RESOURCE, windows must be multiples of this (Linux 6.5 and later; before, there are none).
const UNPRIVILEGED_WINDOW: Duration = Duration::from_secs(2);

/// The longest window that the kernel takes.
const MAX_WINDOW: Duration = Duration::from_secs(10);

/// The triggers that the kernel has accepted.
pub struct PressureTriggers {
    registered: Vec<RegisteredTrigger>,
}

/// A trigger of the kernel, which is removed when its file is closed.
struct RegisteredTrigger {
    trigger: PressureTrigger,
    file: File,
    /// When it was registered, and the time of stall since boot then, until its first event. On Linux 6.18, without CAP_SYS_RESOURCE,
    /// a first event came though less had stalled since the registration: probably the kernel's first window begins with the boot.
    unconfirmed: Option<(Instant, Duration)>,
}

impl RegisteredTrigger {
    /// One that was registered just now.
    fn new(trigger: PressureTrigger, file: File) -> RegisteredTrigger {
        RegisteredTrigger { trigger, file, unconfirmed: total_stall(trigger).map(|total| (Instant::now(), total)) }
    }

    /// Whether tasks stalled as long as the trigger says. Checked for the first event only: the kernel may report it at once.
    fn confirm(&mut self) -> bool {
        let Some((since, before)) = self.unconfirmed.take() else { return true };
        // The kernel looks every 2 s: what it reports is of one or two windows.
        let windows = (since.elapsed().as_secs_f64() / self.trigger.window.as_secs_f64()).clamp(1.0, 2.0);
        let wanted = self.trigger.stall.mul_f64(windows);
        total_stall(self.trigger).is_none_or(|now| now.saturating_sub(before) >= wanted)
    }
}

impl PressureTriggers {
    /// Registers the triggers, and drops the capability that is needed only for that: to be called before other threads are started.
    /// The lines say which were refused or changed, and why.
    pub fn register(triggers: &[PressureTrigger]) -> (PressureTriggers, Vec<String>) {
        let (mut registered, mut problems) = (Vec::new(), Vec::new());
        for trigger in triggers {
            match register(*trigger) {
                Ok((accepted, file)) => {
                    if accepted != *trigger {
                        let why = "without CAP_SYS_RESOURCE a window is a multiple of 2s";
                        problems.push(format!("the pressure trigger '{trigger}' is '{accepted}' here: {why}"));
                    }
                    registered.push(RegisteredTrigger::new(accepted, file));
                }
                Err(error) => {
                    problems.push(format!("no pressure trigger '{trigger}': {}: armed without it", refusal(&error)));
                }
            }
        }
        privileges::drop_resource_capability();
        (PressureTriggers { registered }, problems)
    }

    /// Starts the thread, which lasts until the program ends.
    pub fn watch(self, inbox: Inbox) -> Result<(), Failure> {
        if self.registered.is_empty() {
            return Ok(());
        }
        let body = move || {
            // It must run when nothing else does.
            priority::raise();
            wait(self.registered, &inbox, stdio::print_stderr);
        };
        threads::spawn("pressure", body).map(drop)
    }
}

/// Registers the trigger; with a longer window where the kernel refuses this one.
fn register(trigger: PressureTrigger) -> io::Result<(PressureTrigger, File)> {
    let window_ns = trigger.window.as_nanos().next_multiple_of(UNPRIVILEGED_WINDOW.as_nanos());
    let wider = PressureTrigger { window: Duration::from_nanos(u64::try_from(window_ns).unwrap_or(u64::MAX)), ..trigger };
    match open(trigger) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && wider != trigger && wider.window <= MAX_WINDOW => {
            Ok((wider, open(wider)?))
        }
        file => Ok((trigger, file?)),
    }
}

fn open(trigger: PressureTrigger) -> io::Result<File> {
    let path = Path::new("/proc/pressure").join(trigger.resource.name());
    let mut file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    // One write: the file takes one trigger.
    let mut line = trigger.kernel_line().into_bytes();
    line.push(0);
    file.write_all(&line)?;
    Ok(file)
}

/// Why there is no trigger, and what would change it.
fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "this kernel has no PSI (CONFIG_PSI, or psi=1 on its command line)".to_owned(),
        io::ErrorKind::PermissionDenied => "not permitted (before Linux 6.5 it needs CAP_SYS_RESOURCE)".to_owned(),
        _ if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            "PSI is disabled (psi=1 on the kernel's command line)".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Time of stall since boot: `total` in the file.
fn total_stall(trigger: PressureTrigger) -> Option<Duration> {
    let bytes = std::fs::read(Path::new("/proc/pressure").join(trigger.resource.name())).ok()?;
    let stall = parse_pressure(&bytes)?;
    let line = if trigger.full { stall.full } else { stall.some };
    line.map(|line| Duration::from_micros(line.total_us.0))
}

/// Passes on each event, until no trigger is left. Says which trigger is lost, and why.
fn wait(mut registered: Vec<RegisteredTrigger>, inbox: &Inbox, say: impl Fn(&str)) {
    while !registered.is_empty() {
        let mut fds: Vec<PollFd> = registered.iter().map(|one| PollFd::new(one.file.as_fd(), PollFlags::POLLPRI)).collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => {
                registered
                    .iter()
                    .for_each(|one| say(&format!("the pressure trigger '{}' is lost: poll: {error}", one.trigger)));
                break;
            }
        }
        let events: Vec<PollFlags> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        drop(fds);
        for (one, events) in registered.iter_mut().zip(&events) {
            if events.contains(PollFlags::POLLPRI) && !is_lost(*events) && one.confirm() {
                // Where the inbox is full, enough has triggered.
                inbox.add(TriggerCause::Pressure(one.trigger));
            }
        }
        let mut events = events.into_iter();
        registered.retain(|one| {
            let lost = events.next().is_none_or(is_lost);
            if lost {
                say(&format!(
                    "the pressure trigger '{}' is lost: the kernel has removed it, as when PSI is disabled",
                    one.trigger
                ));
            }
            !lost
        });
    }
    say("no pressure trigger is left: armed without them");
}

/// The kernel reports POLLPRI with it.
fn is_lost(events: PollFlags) -> bool {
    events.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::app::sampling::SamplerControl;

    /// A total of this machine's last hour is no event.
    #[test]
    fn a_first_event_without_stall_since_the_registration_is_none() {
        let trigger =
            PressureTrigger { stall: Duration::from_secs(10), window: Duration::from_secs(10), ..PressureTrigger::DEFAULT };
        if total_stall(trigger).is_none() {
            return println!("skipped: no PSI");
        }
        let mut registered = RegisteredTrigger::new(trigger, File::open("/dev/null").unwrap());
        assert_eq!([registered.confirm(), registered.confirm()], [false, true]);
    }

    #[test]
    fn a_trigger_that_is_lost_is_said_and_triggers_nothing() {
        // Without a reader the end to write to has POLLERR, as a trigger that the kernel has removed.
        let file = File::from(nix::unistd::pipe().unwrap().1);
        let registered = vec![RegisteredTrigger::new(PressureTrigger::DEFAULT, file)];
        let (control, commands) = SamplerControl::for_test();
        let said = RefCell::new(Vec::new());
        wait(registered, &Inbox::new(control), |line| said.borrow_mut().push(line.to_owned()));
        let said = said.into_inner();
        assert!(said[0].starts_with(&format!("the pressure trigger '{}' is lost", PressureTrigger::DEFAULT)), "{said:?}");
        assert_eq!(said.last().map(String::as_str), Some("no pressure trigger is left: armed without them"));
        assert!(commands.try_recv().is_err());
    }
}
