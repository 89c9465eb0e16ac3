//! Where a thread sleeps: read when it is wanted, and what class of wait it is.

use std::sync::Arc;

use super::{Glance, KnownThread};
use crate::kernel::sweep::Eye;
use crate::kernel::task;
use crate::kernel::task::files::ThreadFile;
use crate::sample::task::{SystemCall, TaskState, Wait};
use crate::sample::waits::class::without_compiler_suffix;
use crate::sample::waits::{Call, WaitClass};
use crate::sample::{Absent, Name, Reading};

impl KnownThread {
    /// Reads where it sleeps although it was not seen to work: it may stand behind a blocked thread of its process.
    /// True when something new was learned.
    pub fn examine_parked(&mut self, eye: &mut Eye, glance: Glance) -> bool {
        let unknown = self.state == TaskState::Sleeping && self.wait.channel == Err(Absent::NotRead);
        if unknown {
            self.read_wait(eye, glance, false);
        }
        unknown
    }

    /// Seen for the first time. One that nobody saw go to sleep may have waited for a file system in user space for hours.
    pub fn examine_first(&mut self, eye: &mut Eye, glance: Glance) {
        self.read_wait_if_due(eye, glance, false);
        let may_ask = eye.files.has_user_file_systems && !glance.kernel_thread && glance.permitted;
        if may_ask && self.examine_parked(eye, glance) && self.class != Some(WaitClass::Disk) {
            self.forget_wait();
        }
    }

    /// Reads its wait when the state asks for it and it is not known.
    pub fn read_wait_if_due(&mut self, eye: &mut Eye, glance: Glance, keep: bool) {
        let wanted = match self.state {
            TaskState::Blocked => true,
            TaskState::Sleeping => !glance.kernel_thread && self.is_active(eye.now_ns),
            _ => false,
        };
        let settled = matches!(self.wait.channel, Ok(_) | Err(Absent::Hidden | Absent::NoPermission | Absent::NoSuchFile));
        if wanted && !settled {
            self.read_wait(eye, glance, keep);
        }
    }

    pub(super) fn forget_wait(&mut self) {
        self.wait = Wait::default();
        self.contended = false;
        self.futex = None;
        self.timed = false;
        self.class = class_of(self.state, &self.wait.channel, None);
    }

    /// Where it sleeps says mostly that it sleeps: then its stat, the dearest of its files, need not be read. Should the
    /// freezer hold it there, which shows as D, the next sample reads so.
    pub(super) fn sleeps_again(&mut self, eye: &mut Eye, glance: Glance, keep: bool) -> bool {
        if glance.kernel_thread || !glance.permitted || self.guarded {
            return false;
        }
        let channel = self.read_channel(eye, glance, keep);
        let sleeps = channel.as_ref().is_ok_and(|name| WaitClass::is_asleep_in(name.as_bytes()));
        if sleeps {
            self.state = TaskState::Sleeping;
            self.learn_wait(channel, eye, glance, keep);
        }
        sleeps
    }

    /// Channel and, where the channel alone does not tell, the call. State and channel are read at different moments: a pair
    /// that cannot be is read once again, then dropped.
    fn read_wait(&mut self, eye: &mut Eye, glance: Glance, keep: bool) {
        for _ in 0..2 {
            let channel = self.read_channel(eye, glance, keep);
            self.learn_wait(channel, eye, glance, keep);
            if self.class.is_some() || self.read_stat(eye, glance, keep).is_err() {
                return;
            }
            if !matches!(self.state, TaskState::Sleeping | TaskState::Blocked) {
                return self.forget_wait();
            }
        }
        if self.is_frozen_in_its_sleep(eye, glance) {
            self.class = Some(WaitClass::Frozen);
            return;
        }
        self.wait = Wait { channel: Err(Absent::Vanished), call: Err(Absent::Vanished) };
    }

    /// Since Linux 6.1 the freezer stops many a sleeper where it sleeps: state D, in a function that is never in D. It is no
    /// misreading when the thread did not run since its state was read.
    fn is_frozen_in_its_sleep(&mut self, eye: &mut Eye, glance: Glance) -> bool {
        let before = self.sched;
        let impossible = self.state == TaskState::Blocked && self.wait.channel.is_ok();
        impossible && before.is_some() && self.read_schedstat(eye, glance).is_ok_and(|now| now == before)
    }

    fn learn_wait(&mut self, channel: Reading<Name>, eye: &mut Eye, glance: Glance, keep: bool) {
        let alone = channel.as_ref().ok().and_then(|name| WaitClass::of(self.state, Some(name.as_bytes()), None));
        let call_tells = self.state == TaskState::Blocked
            || matches!(alone, Some(WaitClass::Futex | WaitClass::Lock | WaitClass::Disk | WaitClass::Other));
        let doubtful = channel == Err(Absent::Vanished);
        self.timed = false;
        let call = if glance.kernel_thread || !(call_tells || doubtful) {
            Err(Absent::NotRead)
        } else {
            self.read_call(eye, glance, keep)
        };
        // For those who may see, `0` means "moved on"; but a guarded process answers them, too, like that.
        let found_guarded = doubtful && call == Err(Absent::NoPermission);
        let channel = if found_guarded { Err(Absent::Hidden) } else { channel };
        self.guarded = found_guarded || (self.guarded && channel.is_err());
        let known = call.as_ref().ok().and_then(|&call| Call::from_number(eye.machine.as_bytes(), call));
        self.class = match known {
            None if channel.is_ok() => alone,
            known => class_of(self.state, &channel, known),
        };
        self.contended = self.class == Some(WaitClass::Lock) && self.state == TaskState::Sleeping;
        self.futex = known.and_then(Call::futex);
        self.timed &= self.futex.is_some() || known.is_some_and(|call| call.name == "semtimedop");
        self.wait = Wait { channel, call: call.map(Arc::new) };
    }

    fn read_channel(&mut self, eye: &mut Eye, glance: Glance, keep: bool) -> Reading<Name> {
        // The answer would be `0`; samples ask all the same.
        let permitted = glance.permitted && !self.guarded;
        if !permitted && !glance.full {
            return Err(Absent::Hidden);
        }
        let text = eye.files.thread(glance.pid, self.tid, ThreadFile::Wchan, &mut self.kept, keep)?;
        let symbol = without_compiler_suffix(text.trim_ascii());
        match symbol {
            b"" => Err(Absent::Hidden),
            b"0" if permitted => Err(Absent::Vanished),
            b"0" => Err(Absent::Hidden),
            symbol => Ok(eye.names.shared(symbol)),
        }
    }

    fn read_call(&mut self, eye: &mut Eye, glance: Glance, keep: bool) -> Reading<SystemCall> {
        let text = eye.files.thread(glance.pid, self.tid, ThreadFile::Syscall, &mut self.kept, keep)?;
        self.timed = task::has_time_limit(text);
        task::system_call(text)
    }
}

/// The class of a wait, as far as it is known: `None` where it is not, and where state and channel did not fit together.
pub(super) fn class_of(state: TaskState, channel: &Reading<Name>, call: Option<Call>) -> Option<WaitClass> {
    match channel {
        Ok(name) => WaitClass::of(state, Some(name.as_bytes()), call),
        Err(Absent::Vanished) => None,
        Err(Absent::NotRead) => WaitClass::of(state, None, call).filter(|&class| class != WaitClass::Hidden),
        Err(_) => WaitClass::of(state, None, call),
    }
}
