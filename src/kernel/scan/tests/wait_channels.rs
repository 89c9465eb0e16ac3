//! Kernels that write `0` to wchan: the first line of stack is read instead, or the system call alone.

use super::machine::{Machine, ThreadFiles, one, only};
use crate::kernel::sys_admin;
use crate::kernel::task::wait_channel::WaitChannelFile;
use crate::sample::Absent;
use crate::sample::waits::{Syscall, WaitClass};

/// A thread behind a mutex of glibc.
const BEHIND_LOCK: ThreadFiles<'static> =
    ThreadFiles { wchan: "0", syscall: "202 0x7000 0x80 0x2 0x0", ..ThreadFiles::sleeping(0) };

#[test]
fn the_first_line_of_stack_is_the_wait_channel() {
    // Also the stack of a captured tree is read with it.
    if let Err(why) = sys_admin::check_permitted() {
        return println!("skipped: no CAP_SYS_ADMIN: {why:?}");
    }
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 30_000_000, &[ThreadFiles { tid: 40, ..BEHIND_LOCK }]);
    machine.write("40/task/40/stack", "[<0>] futex_wait_queue_me+0xb8/0x120\n[<0>] do_futex+0x144/0x570\n");
    machine.set_wait_channel_file(WaitChannelFile::Stack);
    machine.scan();
    machine.put(40, "server", 5, 40_000_000, &[ThreadFiles { tid: 40, timeslices: 6, ..BEHIND_LOCK }]);
    let tasks = machine.scan();
    let (_, thread) = only(&tasks, 40);
    assert_eq!(thread.wait.wchan, Ok("futex_wait_queue_me".into()));
    assert_eq!(tasks.hidden.wait_channels, 0);
}

#[test]
fn without_stack_the_system_call_alone_says_what_a_thread_waits_for() {
    let mut machine = Machine::new(true);
    let sleeps = ThreadFiles { wchan: "0", ..one(50) };
    machine.put(40, "server", 5, 30_000_000, &[ThreadFiles { tid: 40, ..BEHIND_LOCK }]);
    machine.put(50, "sleep", 5, 30_000_000, &[sleeps]);
    machine.set_wait_channel_file(WaitChannelFile::Unavailable);
    machine.scan();
    machine.put(40, "server", 5, 40_000_000, &[ThreadFiles { tid: 40, timeslices: 6, ..BEHIND_LOCK }]);
    machine.put(50, "sleep", 5, 40_000_000, &[ThreadFiles { timeslices: 6, ..sleeps }]);
    let tasks = machine.scan();
    let class = |pid: u32| {
        let (_, thread) = only(&tasks, pid);
        assert_eq!(thread.wait.wchan, Err(Absent::NoSuchFile));
        let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(b"x86_64", call));
        WaitClass::classify(thread.state, None, call)
    };
    assert_eq!((class(40), class(50)), (Some(WaitClass::Lock), Some(WaitClass::Timer)));
    assert_eq!(tasks.hidden.wait_channels, 2, "figures of waits are lower bounds");
}
