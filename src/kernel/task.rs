//! Parses the files of a task in /proc: stat, schedstat, syscall, io, cgroup, status. They are read hundreds of times a second,
//! so the parsers do not allocate. tests/scan.rs compares them with the crate `procfs`.
//!
//! Nothing is opened here (`files` does that); `memory` reads the memory of a process; `read_watch` watches both. Text that cannot be parsed is `None`.

pub mod files;
pub mod memory;
mod numbers;
pub mod read_watch;
pub mod wait_channel;

use std::ops::Range;

use self::numbers::{find_last_parenthesis, parse_decimal, parse_decimals};
use crate::ids::CgroupVersion;
use crate::kernel::fields::parse_prefixed_hexadecimal;
use crate::sample::context_switches::ContextSwitches;
use crate::sample::task::{
    ChildrenCpuTime, RawSyscall, SCHED_BATCH, SCHED_IDLE, SCHED_OTHER, Schedstat, Scheduling, TaskIo, TaskState,
};
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// PF_KTHREAD of include/linux/sched.h in stat field 9.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The fields in use of /proc/PID/stat and /proc/PID/task/TID/stat. Counters of the former are sums over the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    pub comm: &'a [u8],
    pub state: TaskState,
    pub ppid: u32,
    pub kernel_thread: bool,
    pub minor_faults: Counter,
    pub major_faults: Counter,
    pub user_ticks: Counter,
    pub system_ticks: Counter,
    /// CPU time of children that exited and that it waited for, and of theirs
    pub children_cpu: ChildrenCpuTime,
    pub thread_count: u32,
    pub start_ticks: u64,
    pub resident_pages: u64,
    pub virtual_bytes: u64,
    pub processor: u32,
    pub block_io_delay_ticks: Counter,
    pub guest_ticks: Counter,
    /// SCHED_IDLE, or nice 19
    pub background: bool,
    pub scheduling: Scheduling,
    /// Address of its command line, which execve changes; 0 if this user may not read it
    pub arg_start: u64,
}

/// A thread of this nice value gets 1/69 of a CPU beside one of nice 0.
const MAX_NICE: u64 = 19;

/// `None` for a truncated text, whose last number may be truncated too.
fn without_final_newline(text: &[u8]) -> Option<&[u8]> {
    text.strip_suffix(b"\n")
}

/// The lines of a text, without the last one if that is truncated.
fn complete_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').filter_map(without_final_newline)
}

/// Parses stat. The name in parentheses may contain any byte, also `)` and newlines: the last `)` ends it.
pub fn parse_stat(text: &[u8]) -> Option<Stat<'_>> {
    let text = without_final_newline(text)?;
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = find_last_parenthesis(text)?;
    let comm = text.get(open + 1..close)?;
    let (state, numbers) = text.get(close + 1..)?.trim_ascii_start().split_first()?;
    let state = TaskState::from_stat_char(*state);
    // Fields 4 to 48 of proc(5); older kernels end earlier, at 41 or more.
    let mut fields = [0_u64; 49];
    if parse_decimals(fields.get_mut(4..)?, numbers)? < 20 {
        return None;
    }
    let policy = u8::try_from(fields[41]).unwrap_or(u8::MAX);
    // Other policies do not use the nice value.
    let uses_nice = matches!(policy, SCHED_OTHER | SCHED_BATCH);
    Some(Stat {
        comm,
        state,
        ppid: u32::try_from(fields[4]).ok()?,
        kernel_thread: fields[9] & PF_KTHREAD != 0,
        minor_faults: Counter(fields[10]),
        major_faults: Counter(fields[12]),
        user_ticks: Counter(fields[14]),
        system_ticks: Counter(fields[15]),
        children_cpu: ChildrenCpuTime { user_ticks: Counter(fields[16]), system_ticks: Counter(fields[17]) },
        thread_count: u32::try_from(fields[20]).ok()?,
        start_ticks: fields[22],
        resident_pages: fields[24],
        virtual_bytes: fields[23],
        processor: u32::try_from(fields[39]).ok()?,
        block_io_delay_ticks: Counter(fields[42]),
        guest_ticks: Counter(fields[43]),
        background: policy == SCHED_IDLE || (fields[19] == MAX_NICE && uses_nice),
        scheduling: Scheduling {
            policy,
            nice: i8::try_from(fields[19].cast_signed()).unwrap_or(0),
            rt_priority: u8::try_from(fields[40]).unwrap_or(0),
        },
        arg_start: fields[48],
    })
}

/// Whether a process or thread with this name is one of PostgreSQL's. The units of RHEL and Fedora start it as `postmaster`.
pub fn is_postgres(comm: &Name) -> bool {
    matches!(comm.as_bytes(), b"postgres" | b"postmaster")
}

/// Parses the three numbers of schedstat.
pub fn parse_schedstat(text: &[u8]) -> Option<Schedstat> {
    let mut words =
        without_final_newline(text)?.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(parse_decimal);
    let mut next = || words.next().flatten().map(Counter);
    Some(Schedstat { run_ns: next()?, run_delay_ns: next()?, timeslices: next()? })
}

/// Parses /proc/PID/task/TID/syscall: `running`, or number and arguments, or `-1` without arguments.
pub fn parse_syscall(text: &[u8]) -> Reading<RawSyscall> {
    let text = without_final_newline(text).ok_or(Absent::Malformed)?;
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next().ok_or(Absent::Malformed)?;
    if first == b"running" {
        return Err(Absent::Vanished);
    }
    let number = std::str::from_utf8(first).ok().and_then(|word| word.parse().ok()).ok_or(Absent::Malformed)?;
    let mut arguments = [0; 3];
    if number != -1 {
        for argument in &mut arguments {
            *argument = words.next().and_then(parse_prefixed_hexadecimal).ok_or(Absent::Malformed)?;
        }
    }
    let call = RawSyscall { number, arguments };
    Ok(if is_in_32_bit_program(text) { call.of_32_bit_program() } else { call })
}

/// Where stack and code of a 32-bit program are: the stack of a 64-bit program is above. Nothing can be mapped below.
const ADDRESSES_32_BIT: Range<u64> = 0x1_0000..0x1_0000_0000;

/// Whether the line of `syscall`, a number, six arguments, stack pointer and program counter, is of a 32-bit program.
fn is_in_32_bit_program(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(parse_prefixed_hexadecimal).skip(1);
    let has_low_arguments = words.by_ref().take(6).all(|argument| argument.is_some_and(|value| value < ADDRESSES_32_BIT.end));
    let mut is_low = || words.next().flatten().is_some_and(|address| ADDRESSES_32_BIT.contains(&address));
    has_low_arguments && is_low() && is_low()
}

/// The number of futex_wait(2), since Linux 6.7, on every machine that `Syscall` knows
const FUTEX_WAIT_NUMBER: &[u8] = b"455";

/// Whether the line of `syscall` is of a call with a timeout: the fourth argument of futex, futex_waitv and semtimedop is not 0, or the
/// fifth one of futex_wait.
pub fn syscall_has_timeout(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let before = if words.next() == Some(FUTEX_WAIT_NUMBER) { 4 } else { 3 };
    without_final_newline(text).is_some()
        && words.nth(before).and_then(parse_prefixed_hexadecimal).is_some_and(|address| address != 0)
}

/// The pid of the process of a thread: the line `Tgid:` of its status.
pub fn parse_tgid(status: &[u8]) -> Option<u32> {
    let line = complete_lines(status).find_map(|line| line.strip_prefix(b"Tgid:"))?;
    u32::try_from(parse_decimal(line.trim_ascii())?).ok()
}

/// Field 3 of /proc/PID/statm, in pages.
pub fn parse_shared_pages(text: &[u8]) -> Option<u64> {
    parse_decimal(text.trim_ascii().split(|&byte| byte == b' ').nth(2)?)
}

/// /proc/PID/io, by field name.
pub fn parse_io(text: &[u8]) -> Option<TaskIo> {
    const NAMES: [&[u8]; 5] = [b"syscr:", b"syscw:", b"read_bytes:", b"write_bytes:", b"cancelled_write_bytes:"];
    let mut figures = [None; NAMES.len()];
    for line in without_final_newline(text)?.split(|&byte| byte == b'\n') {
        let value = NAMES.iter().zip(&mut figures).find_map(|(name, figure)| Some((line.strip_prefix(*name)?, figure)));
        if let Some((value, figure)) = value {
            *figure = Some(Counter(parse_decimal(value.trim_ascii())?));
        }
    }
    let [read_calls, write_calls, read_bytes, write_bytes, cancelled_write_bytes] = figures;
    Some(TaskIo {
        read_bytes: read_bytes?,
        write_bytes: write_bytes?,
        cancelled_write_bytes: cancelled_write_bytes?,
        read_syscalls: read_calls?,
        write_syscalls: write_calls?,
    })
}

/// The cgroups of /proc/PID/cgroup by controller: cpu, memory, io, cpuset, pids. Each is that of the v1 hierarchy with the controller,
/// if there is one, else that of v2.
pub fn parse_cgroups(text: &[u8]) -> [Option<(CgroupVersion, &[u8])>; 5] {
    const CONTROLLERS: [&[u8]; 5] = [b"cpu", b"memory", b"blkio", b"cpuset", b"pids"];
    let mut unified = None;
    let mut found = [None; 5];
    for line in complete_lines(text) {
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if hierarchy == b"0" && controllers.is_empty() {
            unified = Some((CgroupVersion::V2, path));
        }
        for controller in controllers.split(|&byte| byte == b',') {
            for (wanted, place) in CONTROLLERS.iter().zip(&mut found) {
                if controller == *wanted {
                    *place = Some((CgroupVersion::V1, path));
                }
            }
        }
    }
    found.map(|group| group.or(unified))
}

/// Parses Cpus_allowed_list of /proc/PID/task/TID/status: `0-3,8`.
pub fn parse_cpus_allowed_list(text: &[u8]) -> Option<&[u8]> {
    let line = complete_lines(text).find_map(|line| line.strip_prefix(b"Cpus_allowed_list:"))?;
    Some(line.trim_ascii()).filter(|list| !list.is_empty())
}

/// Parses the last two lines of /proc/PID/task/TID/status, the context switches.
pub fn parse_context_switches(text: &[u8]) -> Option<ContextSwitches> {
    let field = |name: &[u8]| {
        let line = without_final_newline(text)?.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| parse_decimal(rest.trim_ascii())).map(Counter)
    };
    Some(ContextSwitches {
        voluntary: field(b"voluntary_ctxt_switches:")?,
        involuntary: field(b"nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &[u8] = b" D 7 9 9 0 -1 4194560 11 0 3 0 41 17 9 4 20 0 2 0 886 12902400 512 18446744073709551615 \
        1 1 0 0 0 0 0 16781312 134217730 0 0 0 17 1 0 0 5 6 0 0 0 0 140736 0 0 0 0\n";

    fn line(comm: &[u8]) -> Vec<u8> {
        [b"42 (", comm, b")", TAIL].concat()
    }

    #[test]
    fn a_name_may_hold_anything() {
        for comm in [&b"plain"[..], b"a) R 1 (b", b"two\nlines", b"\x1b[2J", b")", b"", b"((("] {
            let line = line(comm);
            let stat = parse_stat(&line).unwrap();
            assert_eq!((stat.comm, stat.state, stat.ppid), (comm, TaskState::Blocked, 7));
        }
    }

    #[test]
    fn fields_are_at_the_positions_of_proc_5() {
        let line = line(b"x");
        let stat = parse_stat(&line).unwrap();
        assert_eq!((stat.minor_faults, stat.major_faults), (Counter(11), Counter(3)));
        assert_eq!((stat.user_ticks, stat.system_ticks), (Counter(41), Counter(17)));
        assert_eq!((stat.children_cpu.user_ticks, stat.children_cpu.system_ticks), (Counter(9), Counter(4)));
        assert_eq!((stat.thread_count, stat.start_ticks, stat.resident_pages), (2, 886, 512));
        assert_eq!((stat.processor, stat.arg_start), (1, 140_736));
        assert_eq!((stat.block_io_delay_ticks, stat.guest_ticks), (Counter(5), Counter(6)));
        assert!(!stat.kernel_thread && !stat.background);
        assert_eq!(stat.scheduling, Scheduling::default());
        assert_eq!(stat.virtual_bytes, 12_902_400);
    }

    #[test]
    fn background_threads_are_those_of_sched_idle_or_nice_19() {
        let background = |nice: i64, policy: u32| {
            let text = format!(
                "42 (x) R 7 9 9 0 -1 64 1 0 3 0 41 17 9 4 39 {nice} 2 0 886 1 5 9 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 {policy} 5 6 0\n"
            );
            parse_stat(text.as_bytes()).unwrap().background
        };
        assert_eq!([background(19, 0), background(19, 3), background(0, 5), background(-5, 5)], [true; 4]);
        let scheduling = parse_stat(
            b"42 (x) R 7 9 9 0 -1 64 1 0 3 0 41 17 9 4 15 -5 2 0 886 1 5 9 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 3 5 6 0\n",
        );
        assert_eq!(scheduling.unwrap().scheduling, Scheduling { policy: 3, nice: -5, rt_priority: 0 });
        assert_eq!([background(0, 0), background(18, 0), background(-20, 0), background(19, 1)], [false; 4]);
    }

    #[test]
    fn a_truncated_line_is_none_and_the_shorter_line_of_an_old_kernel_is_not() {
        let line = line(b"x");
        assert_eq!(parse_stat(&line[..40]), None);
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"42 (x) S 1 2 three"), None);
        let old: Vec<&[u8]> = line.split(|&byte| byte == b' ').take(41).collect();
        let old = [&old.join(&b' ')[..], b"\n"].concat();
        assert_eq!(parse_stat(&line[..line.len() - 1]), None, "its last number may be any other");
        assert_eq!(parse_stat(&old).map(|stat| (stat.processor, stat.block_io_delay_ticks)), Some((1, Counter(0))));
    }

    #[test]
    fn a_syscall_line_is_running_a_page_fault_or_a_call() {
        assert_eq!(parse_syscall(b"running\n"), Err(Absent::Vanished));
        assert_eq!(parse_syscall(b"-1 0x7ffe 0x7f1c\n"), Ok(RawSyscall { number: -1, arguments: [0; 3] }));
        let fsync = b"74 0x3 0x10 0x0 0x0 0x0 0x0 0x7ffc 0x7f1c\n";
        assert_eq!(parse_syscall(fsync), Ok(RawSyscall { number: 74, arguments: [3, 16, 0] }));
        let call = |line: &[u8]| parse_syscall(line).map(RawSyscall::number_in_32_bit_program);
        assert_eq!(call(b"240 0xf7c0 0x80 0x2 0x0 0x0 0x0 0xffffd0a0 0xf7fc4579\n"), Ok(Some(240)));
        assert_eq!(call(b"202 0x4c00 0x80 0x2 0x0 0x0 0x0 0x7ffcf7c0d0a0 0x401579\n"), Ok(None), "code at a fixed address");
        assert_eq!(call(b"0 0x3 0x7f10f7c0d0a0 0x2 0x0 0x0 0x0 0xffffd0a0 0x401579\n"), Ok(None), "and a stack mapped low");
        assert_eq!(parse_syscall(b"-1 0xffffd0a0 0xf7fc4579\n").map(RawSyscall::is_page_fault), Ok(true));
        assert_eq!(parse_syscall(b"74 0x3\n"), Err(Absent::Malformed));
        assert_eq!(parse_syscall(b""), Err(Absent::Malformed));
    }

    #[test]
    fn a_futex_with_a_timeout_is_told_from_one_without() {
        assert!(syscall_has_timeout(b"202 0x7f1c 0x89 0x0 0x7f1d 0x0 0xffffffff 0x7ffc 0x7f1c\n"));
        assert!(!syscall_has_timeout(b"202 0x7f1c 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f1c\n"));
        assert!(syscall_has_timeout(b"455 0x7f1c 0x0 0xffffffff 0x2 0x7f1d 0x1 0x7ffc 0x7f1c\n"), "futex_wait");
        assert!(!syscall_has_timeout(b"455 0x7f1c 0x0 0xffffffff 0x2 0x0 0x0 0x7ffc 0x7f1c\n"));
        for other in [&b"running\n"[..], b"-1 0x7ffe 0x7f1c\n", b"202 0x7f1c 0x89 0x0 0x7f1d", b""] {
            assert!(!syscall_has_timeout(other));
        }
    }

    #[test]
    fn io_without_one_of_its_fields_is_none() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        let io_read = parse_io(text).unwrap();
        assert_eq!((io_read.read_syscalls, io_read.write_syscalls), (Counter(3), Counter(4)));
        assert_eq!((io_read.read_bytes, io_read.write_bytes), (Counter(5), Counter(6)));
        assert_eq!(parse_io(&text[..30]), None);
    }

    #[test]
    fn a_task_has_a_group_for_each_kind_of_limit() {
        let all = Some((CgroupVersion::V2, &b"/user.slice"[..]));
        assert_eq!(parse_cgroups(b"0::/user.slice\n"), [all; 5]);
        let (unified, cpu) = (Some((CgroupVersion::V2, &b"/u"[..])), Some((CgroupVersion::V1, &b"/c:d"[..])));
        let memory = Some((CgroupVersion::V1, &b"/m"[..]));
        let hybrid = b"5:memory:/m\n4:cpu,cpuacct:/c:d\n1:name=systemd:/x\n0::/u\n";
        assert_eq!(parse_cgroups(hybrid), [cpu, memory, unified, unified, unified]);
        assert_eq!(parse_cgroups(b"0::/user.sl"), [None; 5], "truncated");
        assert_eq!(parse_cgroups(b"2:cpuset:/\n"), [None, None, None, Some((CgroupVersion::V1, &b"/"[..])), None]);
    }

    #[test]
    fn the_list_of_allowed_cpus_is_parsed() {
        let text = b"Name:\tx\nCpus_allowed:\t8\nCpus_allowed_list:\t0-1,3\nMems_allowed_list:\t0\n";
        assert_eq!(parse_cpus_allowed_list(text), Some(&b"0-1,3"[..]));
        assert_eq!(parse_cpus_allowed_list(b"Cpus_allowed_list:\t\n"), None);
        assert_eq!(parse_cpus_allowed_list(b"Cpus_allowed_list:\t0-1"), None, "truncated: it may be 0-12");
    }

    #[test]
    fn context_switches_are_two_lines() {
        let text = b"Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(parse_context_switches(text), Some(ContextSwitches { voluntary: Counter(150), involuntary: Counter(545) }));
        assert_eq!(parse_context_switches(&text[..text.len() - 1]), None, "its last number may be any other");
        assert_eq!(parse_context_switches(b"Name:\tx\n"), None);
    }

    #[test]
    fn schedstat_has_three_numbers() {
        let sched = Schedstat { run_ns: Counter(5), run_delay_ns: Counter(6), timeslices: Counter(7) };
        assert_eq!(parse_schedstat(b"5 6 7\n"), Some(sched));
        assert_eq!(parse_schedstat(b"5 6\n"), None);
    }
}
