//! Cgroups: every kind of limit in v2 and in the hybrid layout, nested cgroups, and very many of them.

use std::collections::BTreeMap;

use stalltop::ids::{CgroupVersion, DiskId};
use stalltop::kernel::cgroup::CgroupReader;
use stalltop::sample::cgroup::{Cgroup, IoMax, IoStat};
use stalltop::units::Counter;

use crate::proc_tree::ProcTree;
use crate::tree::Everything;

fn named<'a>(all: &'a Everything, path: &str) -> &'a Cgroup {
    let groups = all.cgroups.as_ref().unwrap();
    groups.iter().find(|group| group.id.path.as_bytes() == path.as_bytes()).unwrap_or_else(|| panic!("{path}: {groups:?}"))
}

#[test]
fn v2_with_a_pod_inside_a_slice() {
    let all = Everything::read("6.6-pods");
    let paths: Vec<_> = all.cgroups.as_ref().unwrap().iter().map(|group| group.id.path.clone()).collect();
    assert_eq!(paths, ["/kubepods.slice".into(), "/kubepods.slice/pod1".into()], "nothing limits the others");
    let slice = named(&all, "/kubepods.slice");
    assert_eq!((slice.cpus.clone(), slice.quota_us), (Some("0-7".into()), None));
    assert_eq!((slice.memory_limit_bytes, slice.refaulted_pages), (Some(8 << 30), None), "far from its limit: not read");
    let pod = named(&all, "/kubepods.slice/pod1");
    assert_eq!((pod.quota_us, pod.throttled_ns), (Some(20000), Some(Counter(9_000_000))));
    assert_eq!(pod.cpus, Some("3".into()), "and app below it is not limited once more");
    assert_eq!((pod.memory_limit_hits, pod.oom_kills), (Some(Counter(701)), Some(Counter(2))), "hits are its own");
    assert_eq!(pod.limit_ooms, Some(Counter(3)), "also where nothing could be killed");
    assert_eq!((pod.refaulted_pages, pod.major_faults), (Some(Counter(4003)), Some(Counter(88))));
    let stall = pod.pressure;
    assert_eq!((stall.cpu_some_us, stall.memory_some_us), (Some(Counter(123_456)), Some(Counter(777))));
    assert_eq!((stall.memory_full_us, stall.io_some_us), (Some(Counter(666)), Some(Counter(55))));
    assert_eq!(stall.io_full_us, Some(Counter(44)));

    let [sdb, nvme] = all.io_limits.as_slice() else { panic!("{:?}", all.io_limits) };
    assert_eq!((&sdb.cgroup, sdb.disk), (&pod.id, DiskId { major: 8, minor: 16 }));
    assert_eq!(sdb.max, IoMax { read_bytes: Some(2_097_152), writes: Some(120), ..IoMax::default() });
    let done = IoStat {
        read_bytes: Some(Counter(90112)),
        write_bytes: Some(Counter(8192)),
        reads: Some(Counter(22)),
        writes: Some(Counter(2)),
    };
    assert_eq!(sdb.stat, done);
    assert_eq!((nvme.disk.major, nvme.max.reads, nvme.stat.reads), (259, Some(50), Some(Counter(1))));
}

#[test]
fn hybrid_has_one_group_in_four_hierarchies() {
    let all = Everything::read("5.10-hybrid");
    assert_eq!(all.cgroups.as_ref().unwrap().len(), 2);
    let group = named(&all, "/docker/a1");
    assert_eq!((group.id.version, group.quota_us, group.usage_ns), (CgroupVersion::V1, Some(150_000), Some(Counter(777))));
    assert_eq!((group.memory_limit_hits, group.oom_kills), (Some(Counter(79170)), Some(Counter(4))));
    assert_eq!((group.refaulted_pages, group.major_faults), (Some(Counter(82720)), Some(Counter(115_137))));
    assert_eq!((group.cpus.clone(), group.pressure), (Some("2-3".into()), Default::default()), "v1 has no pressure files");
    let other = named(&all, "/docker/a2");
    assert_eq!((other.cpus.clone(), other.quota_us, other.memory_limit_bytes), (Some("1".into()), None, None));

    let [lo, sda] = all.io_limits.as_slice() else { panic!("{:?}", all.io_limits) };
    assert_eq!(lo.max, IoMax { reads: Some(50), write_bytes: Some(1 << 20), ..IoMax::default() });
    assert_eq!((lo.stat.reads, lo.stat.write_bytes), (Some(Counter(500)), Some(Counter(36864))));
    assert_eq!((sda.disk.major, sda.max.write_bytes, sda.stat.writes), (8, Some(2 << 20), None));
}

/// A tree of so many groups, each with a quota, and the numbers of throttled periods of some.
fn many(count: usize) -> ProcTree {
    let tree = ProcTree::empty();
    tree.write("proc/self/mountinfo", "26 21 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    for number in 0..count {
        tree.write(format!("sys/fs/cgroup/g{number:05}/cpu.max"), "20000 100000\n");
        throttle(&tree, number, 7);
    }
    tree
}

fn throttle(tree: &ProcTree, number: usize, periods: u64) {
    let text = format!("usage_usec 1\nnr_periods {periods}\nnr_throttled {periods}\nthrottled_usec {periods}\n");
    tree.write(format!("sys/fs/cgroup/g{number:05}/cpu.stat"), text);
}

#[test]
fn ten_times_as_many_groups_cost_no_more_and_each_is_read_in_turn() {
    const MOST_READ: usize = 512;
    let tree = many(3000);
    let root = tree.root();
    let mut reader = CgroupReader::default();
    reader.sample(&root).0.unwrap();
    while reader.is_walking() {
        reader.sample(&root).0.unwrap();
    }
    // From now on one of them is throttled in each interval.
    let hot = 2222;
    let mut last: Vec<Cgroup> = Vec::new();
    let mut paired: BTreeMap<String, u32> = BTreeMap::new();
    let mut in_a_row = 0;
    for round in 0..60 {
        throttle(&tree, hot, 8 + round);
        let groups = reader.sample(&root).0.unwrap();
        assert!(groups.len() <= MOST_READ && groups.is_sorted_by(|a, b| a.id < b.id), "{} groups", groups.len());
        for group in &groups {
            if last.iter().any(|other| other.id == group.id) {
                *paired.entry(String::from_utf8_lossy(group.id.path.as_bytes()).into_owned()).or_default() += 1;
            }
        }
        let is_there = groups.iter().any(|group| group.id.path.as_bytes() == format!("/g{hot:05}").as_bytes());
        in_a_row = if is_there { in_a_row + 1 } else { 0 };
        last = groups;
    }
    assert_eq!(paired.len(), 3000, "each was read twice in a row");
    assert!(in_a_row > 20, "once seen to be throttled it is read each time: {in_a_row} times in a row");
}
