//! Parses struct taskstats of include/uapi/linux/taskstats.h. It grows at its end with each version: which fields are read
//! depends on the version and length of the answer, not on the headers at build time.

use std::ops::Range;

/// Version 15 (Linux 6.14 and some 6.15) has fields inserted in the middle; version 16 reverted that.
const SHIFTED_VERSION: u16 = 15;
/// AGROUP of include/uapi/linux/acct.h in ac_flag, since version 12: the last thread of its process exited.
const AGROUP: u8 = 0x20;

// Offsets in bytes: the same on all architectures, since the header aligns 64-bit fields.
const VERSION: usize = 0;
const AC_FLAG: usize = 8;
const CPU: usize = 16;
const BLKIO: usize = 32;
const SWAPIN: usize = 48;
const CPU_RUN_VIRTUAL_TOTAL: usize = 72;
const AC_COMM: Range<usize> = 80..112;
const AC_PID: usize = 128;
const AC_PPID: usize = 132;
const AC_ETIME: usize = 144;
const AC_UTIME: usize = 152;
const AC_STIME: usize = 160;
const FREEPAGES: usize = 312;
const THRASHING: usize = 328;
const COMPACT: usize = 352;
const AC_TGID: usize = 368;
const WPCOPY: usize = 400;
const IRQ: usize = 416;

/// The offsets above for tests/kernel/structs.rs, but for those that Linux 6.1's headers lack.
pub const LAYOUT: &[(&str, &str, usize)] = &[
    ("linux/taskstats.h", "offsetof(struct taskstats, version)", VERSION),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_flag)", AC_FLAG),
    ("linux/taskstats.h", "offsetof(struct taskstats, cpu_count)", CPU),
    ("linux/taskstats.h", "offsetof(struct taskstats, blkio_count)", BLKIO),
    ("linux/taskstats.h", "offsetof(struct taskstats, swapin_count)", SWAPIN),
    ("linux/taskstats.h", "offsetof(struct taskstats, cpu_run_virtual_total)", CPU_RUN_VIRTUAL_TOTAL),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_comm)", AC_COMM.start),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_pid)", AC_PID),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_ppid)", AC_PPID),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_etime)", AC_ETIME),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_utime)", AC_UTIME),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_stime)", AC_STIME),
    ("linux/taskstats.h", "offsetof(struct taskstats, freepages_count)", FREEPAGES),
    ("linux/taskstats.h", "offsetof(struct taskstats, thrashing_count)", THRASHING),
    ("linux/taskstats.h", "offsetof(struct taskstats, compact_count)", COMPACT),
    ("linux/taskstats.h", "offsetof(struct taskstats, ac_tgid)", AC_TGID),
    ("linux/taskstats.h", "offsetof(struct taskstats, wpcopy_count)", WPCOPY),
];

/// Statistics of one task. A field that the kernel's version does not have is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskStats {
    pub version: u16,
    /// ac_pid: the thread's id; 0 in the statistics of a whole process
    pub tid: u32,
    /// ac_tgid, since version 12 (Linux 5.19)
    pub tgid: Option<u32>,
    /// ac_ppid: the parent process
    pub ppid: u32,
    comm: [u8; 32],
    /// AGROUP in ac_flag: the last thread of its process. `None` before version 12
    pub last_of_group: Option<bool>,
    /// ac_etime: elapsed time since its start, µs
    pub elapsed_us: u64,
    /// ac_utime, ac_stime, µs; sampled by the tick where the kernel accounts by ticks
    pub user_us: u64,
    pub system_us: u64,
    /// cpu_run_virtual_total: run time by the scheduler, ns, as of the last tick or context switch. 0 on kernels before 5.14
    /// without delay accounting.
    pub run_ns: u64,
    /// Waiting for a CPU; counted also without delay accounting.
    pub cpu_delay: Delay,
    /// This and the following delays are 0 unless kernel.task_delayacct was on when the task started.
    pub block_io: Delay,
    pub swap_in: Delay,
    pub reclaim: Option<Delay>,
    /// Since version 9 (4.20)
    pub thrashing: Option<Delay>,
    /// Since version 11 (5.17)
    pub compact: Option<Delay>,
    /// Since version 13 (6.0)
    pub write_protect_copy: Option<Delay>,
    /// Since version 14 (6.5)
    pub irq: Option<Delay>,
}

/// How often and how long a task waited for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    pub count: u64,
    pub total_ns: u64,
}

impl TaskStats {
    /// `None` where it is truncated within the basic accounting fields, and for version 15.
    pub fn parse(bytes: &[u8]) -> Option<TaskStats> {
        let version = u16::from_ne_bytes(bytes_at(bytes, VERSION)?);
        if version == SHIFTED_VERSION {
            return None;
        }
        let since = |version_of_field: u16, place: usize| delay_at(bytes, place).filter(|_| version >= version_of_field);
        let tgid = u32_at(bytes, AC_TGID).filter(|_| version >= 12);
        Some(TaskStats {
            version,
            tid: u32_at(bytes, AC_PID)?,
            tgid,
            ppid: u32_at(bytes, AC_PPID)?,
            comm: bytes_at(bytes, AC_COMM.start)?,
            last_of_group: tgid.and_then(|_| Some(bytes.get(AC_FLAG)? & AGROUP != 0)),
            elapsed_us: u64_at(bytes, AC_ETIME)?,
            user_us: u64_at(bytes, AC_UTIME)?,
            system_us: u64_at(bytes, AC_STIME)?,
            run_ns: u64_at(bytes, CPU_RUN_VIRTUAL_TOTAL)?,
            cpu_delay: delay_at(bytes, CPU)?,
            block_io: delay_at(bytes, BLKIO)?,
            swap_in: delay_at(bytes, SWAPIN)?,
            reclaim: since(7, FREEPAGES),
            thrashing: since(9, THRASHING),
            compact: since(11, COMPACT),
            write_protect_copy: since(13, WPCOPY),
            irq: since(14, IRQ),
        })
    }

    /// ac_comm: the last name, any bytes.
    pub fn comm(&self) -> &[u8] {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(self.comm.len());
        self.comm.get(..end).unwrap_or_default()
    }
}

fn delay_at(bytes: &[u8], place: usize) -> Option<Delay> {
    Some(Delay { count: u64_at(bytes, place)?, total_ns: u64_at(bytes, place + 8)? })
}

fn bytes_at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes_at(bytes, place).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    bytes_at(bytes, place).map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each 8 bytes hold their own offset, so that a wrong offset shows.
    fn numbered(version: u16, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..600_usize.div_ceil(8)).flat_map(|place| (place as u64 * 8).to_ne_bytes()).collect();
        bytes[..2].copy_from_slice(&version.to_ne_bytes());
        bytes[AC_FLAG] = AGROUP;
        bytes[AC_COMM].fill(0);
        bytes[AC_COMM.start..AC_COMM.start + 3].copy_from_slice(b"cc1");
        bytes[AC_TGID..AC_TGID + 4].copy_from_slice(&77_u32.to_ne_bytes());
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn fields_are_at_the_offsets_of_the_kernel_header() {
        let account = TaskStats::parse(&numbered(17, 600)).expect("long enough");
        assert_eq!(
            (account.comm(), account.tid, account.tgid, account.last_of_group),
            (&b"cc1"[..], 128, Some(77), Some(true))
        );
        assert_eq!((account.elapsed_us, account.user_us, account.system_us, account.run_ns), (144, 152, 160, 72));
        let pairs =
            [Some(account.cpu_delay), Some(account.block_io), Some(account.swap_in), account.reclaim, account.thrashing];
        let pairs = pairs.into_iter().chain([account.compact, account.write_protect_copy, account.irq]);
        let places: Vec<u64> = pairs.map(|pair| pair.expect("version 17 has it").count).collect();
        assert_eq!(places, [16, 32, 48, 312, 328, 352, 400, 416]);
    }

    #[test]
    fn an_older_version_lacks_later_fields_and_the_shifted_version_is_refused() {
        let older = TaskStats::parse(&numbered(8, 328)).expect("version 8");
        assert_eq!((older.tgid, older.last_of_group, older.thrashing, older.irq), (None, None, None, None));
        assert!(older.reclaim.is_some());
        let longer_than_it_says = TaskStats::parse(&numbered(8, 600)).expect("version 8");
        assert_eq!((longer_than_it_says.tgid, longer_than_it_says.irq), (None, None));
        assert_eq!(TaskStats::parse(&numbered(15, 600)), None);
    }

    #[test]
    fn a_truncated_struct_is_none_or_lacks_fields() {
        let whole = numbered(17, 600);
        for length in 0..whole.len() {
            let account = TaskStats::parse(&whole[..length]);
            assert_eq!(account.is_some(), length >= AC_STIME + 8, "cut at {length}");
            assert_eq!(account.and_then(|account| account.irq).is_some(), length >= IRQ + 16, "cut at {length}");
        }
    }
}
