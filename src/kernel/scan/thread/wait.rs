//! Reads what a thread waits in: its wait channel (`task::wait_channel`) and, if that is not enough, syscall. `kernel/waits` counts the
//! result in each sub-sample.

use std::sync::Arc;

use super::{JavaWait, KnownThread, ReadOptions};
use crate::kernel::scan::ScanContext;
use crate::kernel::task;
use crate::kernel::task::files::{AfterRead, ThreadFile};
use crate::kernel::task::wait_channel::WaitChannelFile;
use crate::sample::task::{RawSyscall, TaskState, WaitState};
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Absent, Name, Reading};

impl KnownThread {
    /// Reads the wait of a thread that was not seen to run: it may wait for a blocked thread of its process. True if the wait was
    /// unknown before.
    pub fn read_parked_wait(&mut self, context: &mut ScanContext, options: ReadOptions) -> bool {
        let unknown = self.state == TaskState::Sleeping && self.wait.wchan == Err(Absent::NotRead);
        if unknown {
            self.read_wait(context, options, AfterRead::Close);
        }
        unknown
    }

    /// Reads the wait of a thread seen for the first time: it may have been waiting for a FUSE file system, for a file lock, or, if its
    /// process is multithreaded, for a mutex, for hours.
    pub fn read_first_wait(&mut self, context: &mut ScanContext, options: ReadOptions, multithreaded: bool) {
        self.read_wait_if_due(context, options, AfterRead::Close);
        let of_file_lock = context.file_lock_pids.contains(&options.pid);
        // A process of a database may wait for a lock of that.
        let may_wait_for_lock = multithreaded || task::is_postgres(&self.comm);
        let wanted = context.files.has_fuse_mounts || of_file_lock || (may_wait_for_lock && context.may_read_first_wait());
        let may_ask = wanted && !options.kernel_thread && options.may_read_waits;
        if may_ask && self.read_parked_wait(context, options) {
            let is_blocked = of_file_lock || matches!(self.wait_class, Some(WaitClass::Disk | WaitClass::Lock));
            if !is_blocked && !self.waits_in_semaphore() && !self.may_wait_for_rw_lock() {
                self.clear_wait();
            }
        }
    }

    /// Reads its wait if it is in D, or active and asleep, and the wait is not known.
    pub fn read_wait_if_due(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) {
        let wanted = match self.state {
            TaskState::Blocked => true,
            TaskState::Sleeping => {
                !options.kernel_thread && (self.is_active(context.now_ns) || self.java_wait.lock().is_some())
            }
            _ => false,
        };
        let settled = matches!(self.wait.wchan, Ok(_) | Err(Absent::Hidden | Absent::NoPermission | Absent::NoSuchFile));
        if wanted && !settled {
            self.read_wait(context, options, after);
        }
    }

    pub(super) fn clear_wait(&mut self) {
        self.wait = WaitState::default();
        self.futex_wait = None;
        self.wait_event = None;
        self.java_wait = JavaWait::NotRead;
        self.unconfirmed_rw_lock = 0;
        self.has_timeout = false;
        self.wait_class = classify_wait(self.state, &self.wait.wchan, None);
    }

    /// Whether its wait channel alone shows that it sleeps, so that its stat, the most expensive of its files, need not be read. A
    /// frozen thread may look the same, but in D; the next sample reads that.
    pub(super) fn is_asleep_again(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) -> bool {
        // stack also has a function of a thread that was woken and waits for a CPU.
        let shows_state = context.files.wait_channel_file == WaitChannelFile::Wchan;
        if !shows_state || options.kernel_thread || !options.may_read_waits || self.wchan_is_hidden {
            return false;
        }
        let channel = self.read_wchan(context, options, after);
        let sleeps = channel.as_ref().is_ok_and(|name| WaitClass::wchan_is_interruptible(name.as_bytes()));
        if sleeps {
            self.state = TaskState::Sleeping;
            self.set_wait(channel, context, options, after);
        }
        sleeps
    }

    /// Reads wchan, and syscall if wchan alone does not say what it waits for. State and wchan are read at different moments: a pair that
    /// cannot be is read once more, then dropped.
    fn read_wait(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) {
        for _ in 0..2 {
            let channel = self.read_wchan(context, options, after);
            self.set_wait(channel, context, options, after);
            if self.wait_class.is_some() || self.read_stat(context, options, after).is_err() {
                return;
            }
            if !matches!(self.state, TaskState::Sleeping | TaskState::Blocked) {
                return self.clear_wait();
            }
        }
        if self.has_not_run(context, options) {
            let call = self.wait.syscall().ok().and_then(|call| Syscall::from_number(context.machine.as_bytes(), call));
            let channel = self.wait.wchan.as_ref().ok().map(Name::as_bytes);
            self.wait_class = Some(WaitClass::classify_settled(self.state, channel, call));
            return;
        }
        self.wait = WaitState { wchan: Err(Absent::Vanished), syscall: Err(Absent::Vanished) };
    }

    /// Whether it is in D in a function in which threads sleep in S, and that is no reading error: it did not run since its state was read.
    /// Since Linux 6.1 the freezer puts threads into D where they sleep.
    fn has_not_run(&mut self, context: &mut ScanContext, options: ReadOptions) -> bool {
        let before = self.schedstat;
        let impossible = self.state == TaskState::Blocked && self.wait.wchan.is_ok();
        impossible && before.is_some() && self.read_schedstat(context, options).is_ok_and(|now| now == before)
    }

    fn set_wait(&mut self, channel: Reading<Name>, context: &mut ScanContext, options: ReadOptions, after: AfterRead) {
        let alone = channel.as_ref().ok().and_then(|name| WaitClass::classify(self.state, Some(name.as_bytes()), None));
        let call_tells = self.state == TaskState::Blocked
            || matches!(alone, Some(WaitClass::Futex | WaitClass::Lock | WaitClass::Disk | WaitClass::Other));
        let doubtful = matches!(channel, Err(Absent::Vanished | Absent::NoSuchFile));
        self.has_timeout = false;
        self.wait_event = None;
        self.java_wait = JavaWait::NotRead;
        self.unconfirmed_rw_lock = 0;
        let call = if options.kernel_thread || !(call_tells || doubtful) {
            Err(Absent::NotRead)
        } else {
            self.read_syscall(context, options, after)
        };
        // Without wait channels the system call shows that it moved on.
        let channel = match (channel, &call) {
            (Err(Absent::NoSuchFile), Err(Absent::Vanished)) => Err(Absent::Vanished),
            (channel, _) => channel,
        };
        // A privileged user reads `0` of a thread that moved on, and also of a protected process. For others Yama forbids syscall of
        // all processes.
        let found_guarded = doubtful && call == Err(Absent::NoPermission) && context.has_cap_sys_ptrace();
        let channel = if found_guarded { Err(Absent::Hidden) } else { channel };
        self.wchan_is_hidden = found_guarded || (self.wchan_is_hidden && channel.is_err());
        let known = call.as_ref().ok().and_then(|&call| Syscall::from_number(context.machine.as_bytes(), call));
        self.wait_class = match known {
            None if channel.is_ok() => alone,
            known => classify_wait(self.state, &channel, known),
        };
        self.has_timeout &= known.is_some_and(Syscall::may_have_timeout);
        self.futex_wait = known.and_then(|call| context.futex_wait(call, self.has_timeout));
        self.wait = WaitState { wchan: channel, syscall: call.map(Arc::new) };
    }

    fn read_wchan(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) -> Reading<Name> {
        // The kernel would answer `0`; samples try all the same.
        let permitted = options.may_read_waits && !self.wchan_is_hidden;
        if !permitted && !options.for_sample {
            return Err(Absent::Hidden);
        }
        let file = context.files.wait_channel_file;
        if file == WaitChannelFile::Unavailable {
            return Err(if permitted { Absent::NoSuchFile } else { Absent::Hidden });
        }
        let descriptors = &mut self.descriptors;
        let symbol =
            file.symbol(context.files.read_thread_file(options.pid, self.tid, ThreadFile::WaitChannel, descriptors, after)?);
        match symbol {
            b"" => Err(Absent::Hidden),
            b"0" if permitted => Err(Absent::Vanished),
            b"0" => Err(Absent::Hidden),
            symbol => Ok(context.interner.intern(symbol)),
        }
    }

    fn read_syscall(&mut self, context: &mut ScanContext, options: ReadOptions, after: AfterRead) -> Reading<RawSyscall> {
        let text = context.files.read_thread_file(options.pid, self.tid, ThreadFile::Syscall, &mut self.descriptors, after)?;
        self.has_timeout = task::syscall_has_timeout(text);
        task::parse_syscall(text)
    }
}

/// The class of a wait; `None` if it is unknown, or if state and wait channel contradict each other.
pub(super) fn classify_wait(state: TaskState, channel: &Reading<Name>, call: Option<Syscall>) -> Option<WaitClass> {
    match channel {
        Ok(name) => WaitClass::classify(state, Some(name.as_bytes()), call),
        Err(Absent::Vanished) => None,
        Err(Absent::NotRead) => WaitClass::classify(state, None, call).filter(|&class| class != WaitClass::Hidden),
        Err(_) => WaitClass::classify(state, None, call),
    }
}
