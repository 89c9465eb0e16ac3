//! Which file of a task names the kernel function in which it sleeps.
//!
//! Kernels for x86-64 before 5.16 write `0` to wchan of every task, unless they are built with frame pointers, which few are: Debian
//! 11, Ubuntu 20.04 and 22.04, RHEL 8. The first line of stack is the same function; it needs CAP_SYS_ADMIN.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::gettid;

use crate::kernel::root::Root;
use crate::kernel::sys_admin::with_sys_admin;
use crate::kernel::task::parse_stat;
use crate::sample::task::TaskState;
use crate::sample::waits::class::strip_compiler_suffix;

/// The file with a task's wait channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitChannelFile {
    /// /proc/PID/task/TID/wchan
    #[default]
    Wchan,
    /// The first line of /proc/PID/task/TID/stack
    Stack,
    /// This kernel has none that this user may read: waits are known by system call alone.
    Unavailable,
}

/// Readings of a sleeping thread that must agree.
const MIN_READINGS: u32 = 3;
const DETECTION_TIMEOUT: Duration = Duration::from_millis(20);

impl WaitChannelFile {
    /// The file as `try_detect` finds it, or wchan, which most kernels have.
    pub fn detect(root: &Root) -> WaitChannelFile {
        WaitChannelFile::try_detect(root).unwrap_or_default()
    }

    /// Starts a thread that sleeps, and tries its files. `None` if it was not seen asleep in time, as on a busy host. A captured tree has
    /// wchan.
    pub fn try_detect(root: &Root) -> Option<WaitChannelFile> {
        if !root.is_host() {
            return Some(WaitChannelFile::Wchan);
        }
        let (tid, is_done) = (AtomicI32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let sleep = || {
                tid.store(gettid().as_raw(), Ordering::Release);
                while !is_done.load(Ordering::Acquire) {
                    thread::park();
                }
            };
            let Ok(sleeper) = thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, sleep) else {
                return None;
            };
            let file = detect_of_sleeper(root, &tid);
            is_done.store(true, Ordering::Release);
            sleeper.thread().unpark();
            file
        })
    }

    /// Its name in /proc/PID/task/TID.
    pub fn name(self) -> &'static str {
        match self {
            WaitChannelFile::Wchan | WaitChannelFile::Unavailable => "wchan",
            WaitChannelFile::Stack => "stack",
        }
    }

    /// The function, without what the compiler adds to its name; `0` of a task that does not sleep (of stack: that is on a CPU), empty
    /// if it is hidden.
    pub fn symbol(self, text: &[u8]) -> &[u8] {
        let symbol = match self {
            WaitChannelFile::Wchan | WaitChannelFile::Unavailable => text.trim_ascii(),
            WaitChannelFile::Stack => first_function(text).unwrap_or(b"0"),
        };
        strip_compiler_suffix(symbol)
    }
}

/// `futex_wait` of `[<0>] futex_wait+0xb8/0x120`, the first line of stack.
fn first_function(text: &[u8]) -> Option<&[u8]> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let at = line.iter().position(|&byte| byte == b']')?;
    let function = line.get(at + 1..)?.trim_ascii_start().split(|&byte| byte == b'+').next()?;
    // A kernel without names of its functions has addresses.
    (!function.is_empty() && !function.starts_with(b"0x")).then_some(function)
}

fn detect_of_sleeper(root: &Root, tid: &AtomicI32) -> Option<WaitChannelFile> {
    let begin = Instant::now();
    let read = |file: &str| root.read_once(format!("proc/self/task/{}/{file}", tid.load(Ordering::Acquire)));
    let mut readings = 0;
    while begin.elapsed() < DETECTION_TIMEOUT {
        let sleeps = || {
            let stat = read("stat").ok()?;
            Some(parse_stat(&stat)?.state == TaskState::Sleeping)
        };
        if sleeps() == Some(true) {
            match read("wchan") {
                Ok(text) if text.trim_ascii() == b"0" => readings += 1,
                _ => return Some(WaitChannelFile::Wchan),
            }
        }
        if readings >= MIN_READINGS {
            let stack = with_sys_admin(|| read("stack")).flatten().unwrap_or_default();
            return Some(first_function(&stack).map_or(WaitChannelFile::Unavailable, |_| WaitChannelFile::Stack));
        }
        thread::sleep(Duration::from_micros(50));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::{ProcTree, Stat};

    #[test]
    fn the_first_line_of_a_stack_is_the_wait_channel() {
        let symbol = |text: &'static [u8]| WaitChannelFile::Stack.symbol(text);
        assert_eq!(symbol(b"[<0>] futex_wait_queue_me+0xb8/0x120\n[<0>] futex_wait+0x105/0x240\n"), b"futex_wait_queue_me");
        assert_eq!(symbol(b"[<ffffffff810ea71c>] poll_schedule_timeout.constprop.0+0x46/0x70\n"), b"poll_schedule_timeout");
        assert_eq!(symbol(b""), b"0", "it runs");
        assert_eq!(symbol(b"[<0>] 0xffffffff81234567\n"), b"0", "a kernel without names");
        assert_eq!(WaitChannelFile::Wchan.symbol(b"do_select.isra.0\n"), b"do_select");
    }

    #[test]
    fn a_captured_tree_has_wchan() {
        assert_eq!(WaitChannelFile::try_detect(&Root::at_directory("/".into())), Some(WaitChannelFile::Wchan));
    }

    #[test]
    fn a_thread_that_was_not_seen_asleep_decides_nothing() {
        let tree = ProcTree::empty();
        let detected = |state, wchan| {
            let stat = Stat { state, ..Stat::sleeping(7, 7, 1) };
            tree.write("proc/self/task/7/stat", stat.line());
            tree.write("proc/self/task/7/wchan", wchan);
            detect_of_sleeper(&tree.root(), &AtomicI32::new(7))
        };
        assert_eq!(detected('R', "0"), None);
        assert_eq!(detected('S', "futex_do_wait"), Some(WaitChannelFile::Wchan));
        assert_eq!(detected('S', "0"), Some(WaitChannelFile::Unavailable));
    }
}
