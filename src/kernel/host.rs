//! Facts that do not change while the machine is up (`sample::Host`), read once at the start.

use std::ops::RangeInclusive;

use nix::unistd::{SysconfVar, sysconf};
use procfs::FromRead;
use procfs::process::Status;

use super::cpu::parse_boot_time;
use super::fields::{lines, parse_single_line, parse_single_u64, parse_u32, parse_u64, words};
use super::mounts::{self, Mount};
use super::root::{FileHandle, Root};
use crate::ids::CpuId;
use crate::ids::cpu_list::parse_cpu_list;
use crate::sample::host::{CpuTopology, Host, Privilege};
use crate::sample::{Absent, Name, Reading};

/// CAP_SYS_PTRACE as a bit of CapEff in /proc/self/status.
const CAP_SYS_PTRACE: u64 = 1 << 19;

/// More CPUs than a kernel can have (NR_CPUS): a damaged list ends there.
const MAX_CPUS: usize = 1 << 16;

/// The user of a fixture tree that has no credentials: not root.
const OVERFLOW_UID: u32 = 65534;

/// Reads the facts of the machine and this user. Those that cannot be read remain empty.
pub fn read(root: &Root) -> Host {
    let text = |file: &str| root.read_once(file).ok().as_deref().and_then(parse_single_line);
    Host {
        hostname: text("proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: text("proc/sys/kernel/osrelease").unwrap_or_default(),
        machine: machine_architecture(root).unwrap_or_default(),
        boot_id: text("proc/sys/kernel/random/boot_id").unwrap_or_default(),
        boot_time_s: root.read_once("proc/stat").ok().as_deref().and_then(parse_boot_time),
        page_size: sysconf_value(SysconfVar::PAGE_SIZE).unwrap_or(4096),
        // USER_HZ is 100 on every architecture of today's Linux.
        ticks_per_second: sysconf_value(SysconfVar::CLK_TCK).unwrap_or(100),
        topology: topology(root),
        privilege: privilege(root),
        has_hypervisor: has_hypervisor(root),
    }
}

/// Bytes of /proc/cpuinfo in which the first CPU has its flags: the whole file is a kilobyte for each CPU.
const CPUINFO_PREFIX: usize = 4096;

/// The flag `hypervisor` of the first CPU (x86): CPUID says that this is a virtual machine.
fn has_hypervisor(root: &Root) -> Option<bool> {
    let mut start = [0; CPUINFO_PREFIX];
    let length = FileHandle::new("proc/cpuinfo").read_prefix(root, &mut start).ok()?;
    let flags = lines(start.get(..length)?).find(|line| line.starts_with(b"flags"))?;
    Some(words(flags).any(|word| word == b"hypervisor"))
}

/// What this user may read; it can change while the program runs (a remount of /proc, a sysctl).
pub fn privilege(root: &Root) -> Privilege {
    let status = root.read_once("proc/self/status").ok().and_then(|bytes| parse_credentials(&bytes));
    let mounts = root.read_once("proc/self/mountinfo").map(|bytes| mounts::parse_mountinfo(&bytes)).unwrap_or_default();
    Privilege {
        effective_uid: if root.is_host() {
            nix::unistd::geteuid().as_raw()
        } else {
            status.map_or(OVERFLOW_UID, |(user, _)| user)
        },
        has_cap_sys_ptrace: status.is_some_and(|(_, traces)| traces),
        delay_accounting: read_delay_accounting(root),
        hidepid: mounts.iter().any(hides_processes),
    }
}

/// Parses /proc/self/status: effective user, and whether it has CAP_SYS_PTRACE.
pub fn parse_credentials(bytes: &[u8]) -> Option<(u32, bool)> {
    let (user, capabilities) = match Status::from_read(bytes) {
        Ok(status) => (status.euid, status.capeff),
        // A sandbox (gVisor) leaves out lines that procfs wants, but not these.
        Err(_) => (status_line(bytes, b"Uid:")?.nth(1).and_then(parse_u32)?, capability_line(bytes, b"CapEff:")?),
    };
    Some((user, capabilities & CAP_SYS_PTRACE != 0))
}

/// The words of a line of /proc/self/status.
fn status_line<'a>(status: &'a [u8], name: &[u8]) -> Option<impl Iterator<Item = &'a [u8]>> {
    lines(status).find_map(|line| line.strip_prefix(name)).map(words)
}

/// A line of /proc/self/status with capabilities, as bits.
fn capability_line(status: &[u8], name: &[u8]) -> Option<u64> {
    let word = std::str::from_utf8(status_line(status, name)?.next()?).ok()?;
    u64::from_str_radix(word, 16).ok()
}

/// The capabilities that a program may gain when it is executed, as bits; `None` if they cannot be read.
pub fn bounding_set(root: &Root) -> Option<u64> {
    capability_line(&root.read_once("proc/self/status").ok()?, b"CapBnd:")
}

/// kernel.task_delayacct, since Linux 5.14: off unless the machine was booted with `delayacct`.
pub fn read_delay_accounting(root: &Root) -> Reading<bool> {
    let bytes = root.read_once("proc/sys/kernel/task_delayacct")?;
    parse_single_u64(&bytes).map(|value| value != 0).ok_or(Absent::Malformed)
}

fn hides_processes(mount: &Mount) -> bool {
    let is_proc = mount.fs_type == b"proc" && mount.mount_point.as_os_str() == "/proc";
    is_proc && mount.option(b"hidepid").is_some_and(|value| !matches!(value, b"0" | b"off"))
}

/// `utsname.machine`; `None` if the root is captured files of a kernel that does not report it.
pub fn machine_architecture(root: &Root) -> Option<Name> {
    if root.is_host() {
        return nix::sys::utsname::uname().ok().and_then(|names| names.machine().to_str().map(Name::from));
    }
    // Since 6.1.
    root.read_once("proc/sys/kernel/arch").ok().as_deref().and_then(parse_single_line)
}

fn sysconf_value(variable: SysconfVar) -> Option<u64> {
    sysconf(variable).ok().flatten().and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0)
}

/// Package, core and NUMA node of each CPU that has them in sysfs: an offline CPU has not.
fn topology(root: &Root) -> Vec<CpuTopology> {
    let possible = root.read_once("sys/devices/system/cpu/possible").unwrap_or_default();
    let nodes = numa_nodes(root);
    parse_cpu_list(&possible)
        .flatten()
        .take(MAX_CPUS)
        .filter_map(|cpu| {
            let value = |name: &str| {
                let bytes = root.read_once(format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}")).ok()?;
                parse_u64(lines(&bytes).next()?)
            };
            let core = u32::try_from(value("core_id")?).ok()?;
            // -1 where the firmware does not report it: one package.
            let package = value("physical_package_id").and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
            let node =
                nodes.iter().find(|(_, cpus)| cpus.iter().any(|range| range.contains(&cpu))).map_or(0, |(node, _)| *node);
            Some(CpuTopology { cpu: CpuId(cpu), node, package, core })
        })
        .collect()
}

/// The NUMA nodes with their CPUs; empty on a kernel without NUMA.
fn numa_nodes(root: &Root) -> Vec<(u32, Vec<RangeInclusive<u32>>)> {
    let directory = "sys/devices/system/node";
    let entries = root.list_directory(directory).unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| {
            let node = parse_u32(entry.as_encoded_bytes().strip_prefix(b"node")?)?;
            let cpus = root.read_once(format!("{directory}/node{node}/cpulist")).ok()?;
            Some((node, parse_cpu_list(&cpus).collect()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn a_virtual_machine_has_the_flag_of_its_hypervisor() {
        assert_eq!(has_hypervisor(&ProcTree::empty().root()), None);
        let found = |text: &str| has_hypervisor(&ProcTree::with([("proc/cpuinfo", text)]).root());
        assert_eq!(found("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\nbugs\t\t:\n"), Some(true));
        assert_eq!(found("processor\t: 0\nflags\t\t: fpu vme lahf_lm\n"), Some(false));
        assert_eq!(found("processor\t: 0\nFeatures\t: fp asimd\n"), None);
    }

    #[test]
    fn the_bounding_set_is_that_of_the_kernel() {
        let set = bounding_set(&Root::host()).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(status.contains(&format!("CapBnd:\t{set:016x}\n")), "{set:x}: {status}");
    }

    #[test]
    fn credentials_need_their_own_lines_alone() {
        let status = |capabilities: &str| format!("Name:\tx\nno colon\nUid:\t1000\t7\t1000\t1000\nCapEff:\t{capabilities}\n");
        assert_eq!(parse_credentials(status("0000000000080000").as_bytes()), Some((7, true)));
        assert_eq!(parse_credentials(status("0000000000000001").as_bytes()), Some((7, false)));
        assert_eq!(parse_credentials(status("none").as_bytes()), None);
        let whole = std::fs::read("/proc/self/status").unwrap();
        assert_eq!(parse_credentials(&whole).map(|(user, _)| user), Some(nix::unistd::geteuid().as_raw()));
    }
}
