//! The CPU clock of another process (clock_getcpuclockid(3)). Reading it takes 0.24 µs and shows whether any of its threads ran.

use std::collections::BTreeMap;
use std::path::Path;

use nix::time::ClockId;

use crate::kernel::root::Root;

/// Where CPU clocks of processes come from.
#[derive(Debug)]
pub enum ProcessClocks {
    /// The kernel: the pids in /proc are those of this process's pid namespace.
    Kernel,
    /// Nowhere: a captured tree, or /proc of another pid namespace. Every process must be read at each scan.
    Unavailable,
    /// A fixture tree: by pid
    Fixed(BTreeMap<u32, u64>),
}

impl ProcessClocks {
    /// The clocks of the processes in the tree at `root`.
    pub fn for_root(root: &Root) -> ProcessClocks {
        let own = std::process::id().to_string();
        let same_namespace = root.read_link("proc/self").is_ok_and(|link| link == Path::new(&own));
        if root.is_host() && same_namespace { ProcessClocks::Kernel } else { ProcessClocks::Unavailable }
    }

    /// CPU time of all threads of the process, ended ones included, ns. `None` if there is no such process or no clock.
    pub fn cpu_ns(&self, pid: u32) -> Option<u64> {
        match self {
            ProcessClocks::Kernel => {
                // MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of include/linux/posix-timers.h
                let clock = (!i32::try_from(pid).ok()?).checked_shl(3)? | 2;
                read_clock_ns(ClockId::from_raw(clock))
            }
            ProcessClocks::Unavailable => None,
            ProcessClocks::Fixed(clocks) => clocks.get(&pid).copied(),
        }
    }

    /// For a fixture tree: sets the clock of a process, ns; `None`: the process has ended. Clocks that were not set do not exist.
    pub fn set_fixed(&mut self, pid: u32, cpu_ns: Option<u64>) {
        let mut clocks = match std::mem::replace(self, ProcessClocks::Unavailable) {
            ProcessClocks::Fixed(clocks) => clocks,
            ProcessClocks::Kernel | ProcessClocks::Unavailable => BTreeMap::new(),
        };
        match cpu_ns {
            Some(cpu_ns) => drop(clocks.insert(pid, cpu_ns)),
            None => drop(clocks.remove(&pid)),
        }
        *self = ProcessClocks::Fixed(clocks);
    }

    /// Whether clocks can be read at all.
    pub fn are_available(&self) -> bool {
        !matches!(self, ProcessClocks::Unavailable)
    }
}

/// The time of a clock, ns; `None` if the kernel does not have it.
pub fn read_clock_ns(clock: ClockId) -> Option<u64> {
    let time = clock.now().ok()?;
    let (seconds, rest) = (u64::try_from(time.tv_sec()).ok()?, u64::try_from(time.tv_nsec()).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_clock_moves_and_that_of_no_process_does_not_exist() {
        let clocks = ProcessClocks::for_root(&Root::host());
        if !clocks.are_available() {
            println!("skipped: /proc is another namespace's");
            return;
        }
        let before = clocks.cpu_ns(std::process::id()).unwrap();
        let mut sum = 0_u64;
        for number in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        assert!(clocks.cpu_ns(std::process::id()).unwrap() > before);
        assert_eq!(clocks.cpu_ns(u32::MAX), None);
    }
}
