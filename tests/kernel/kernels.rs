//! The files of each kernel version, figure by figure where kernels differ.

use stalltop::ids::{CgroupVersion, CpuId, DiskId};
use stalltop::sample::network::{Duplex, Nic};
use stalltop::sample::{Absent, Name};
use stalltop::units::Counter;

use crate::tree::{Everything, TREES};

fn names<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    names.into_iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect()
}

fn disk_names(all: &Everything) -> Vec<String> {
    names(all.disks.as_ref().unwrap().iter().map(|disk| &disk.name))
}

fn speed(nic: &Nic) -> Result<u32, Absent> {
    nic.facts.speed_mbps
}

#[test]
fn every_tree_has_the_figures_that_every_kernel_has() {
    for tree in TREES {
        let all = Everything::read(tree);
        let cpu = all.cpu.as_ref().unwrap();
        assert_eq!(all.total, Ok(cpu.total), "{tree}: the first line alone is the same line");
        assert!(!cpu.cpus.is_empty() && cpu.forks.is_some() && cpu.running.is_some() && cpu.blocked.is_some(), "{tree}");
        assert!(all.load.is_ok() && all.memory.is_ok() && all.disks.is_ok() && all.nics.is_ok(), "{tree}");
        assert!(all.protocols.tcp.is_ok() && all.protocols.udp.is_ok(), "{tree}");
        assert_eq!(all.protocols.listeners, Err(Absent::NotRead), "{tree}: sockets are not in files");
        assert!(!all.host.hostname.as_bytes().is_empty() && !all.host.boot_id.as_bytes().is_empty(), "{tree}");
    }
}

#[test]
fn kernel_3_10() {
    let all = Everything::read("3.10-centos7");
    let cpu = all.cpu.as_ref().unwrap();
    assert_eq!(cpu.total.user_ticks, Counter(10132153));
    assert_eq!(cpu.total.guest_nice_ticks, Some(Counter(21)));
    assert_eq!((cpu.interrupts, cpu.context_switches), (Some(Counter(1462898)), Some(Counter(115315011))));
    assert_eq!((cpu.forks, cpu.running, cpu.blocked), (Some(Counter(86031)), Some(6), Some(2)));

    let memory = all.memory.as_ref().unwrap();
    assert_eq!((memory.total_kb, memory.available_kb), (Some(3881692), None));
    assert_eq!(memory.scanned_kswapd_pages, Some(Counter(35211)), "sum of the zones");
    assert_eq!(memory.scanned_direct_pages, Some(Counter(5941)), "without pgscan_direct_throttle");
    assert_eq!(memory.reclaimed_pages, Some(Counter(37410)));
    assert_eq!((memory.allocation_stalls, memory.oom_kills), (Some(Counter(91)), None));
    assert_eq!(memory.refaulted_pages, None);

    assert_eq!(all.pressure.io, Err(Absent::NoSuchFile));
    assert_eq!(disk_names(&all), ["sda", "dm-0", "dm-1"], "no idle drive, no partition, no line of 7 fields");
    let sda = all.disk("sda");
    assert_eq!(sda.reads.completed, Counter(511012));
    assert_eq!((sda.writes.time_ms, sda.in_flight), (Counter(9001234), 3));
    assert_eq!((sda.io_ticks_ms, sda.time_in_queue_ms), (Counter(6003210), Counter(13006789)));
    assert_eq!((sda.discards, sda.flushes, sda.flush_time_ms), (None, None, None));
    assert_eq!(sda.facts.scheduler, Some("deadline".into()));
    assert_eq!((sda.facts.rotational, sda.facts.size_bytes), (Some(true), Some(488397168 * 512)));
    assert_eq!(sda.facts.model, Some("ST3250318AS".into()));
    assert_eq!(sda.facts.partitions, [DiskId { major: 8, minor: 1 }, DiskId { major: 8, minor: 2 }]);
    assert_eq!(names(&sda.facts.mount_points), ["/boot"]);
    assert_eq!(names(&all.disk("dm-0").facts.mount_points), ["/", "/mnt/with blank"]);
    assert_eq!(all.disk("dm-0").facts.slaves, [sda.id]);
    assert_eq!(all.in_flight, Ok(4), "dm-0 stands on sda: not added up");

    assert_eq!(names(all.nics.as_ref().unwrap().iter().map(|nic| &nic.id.name)), ["lo", "eth0", "eth0:1", "bond0"]);
    let eth0 = all.nic("eth0");
    assert_eq!((eth0.rx.bytes, eth0.tx.packets), (Counter(98765432101), Counter(70123456)));
    assert_eq!((eth0.rx.dropped, eth0.rx.fifo_errors, eth0.tx.dropped), (Counter(61), Counter(7), Counter(2)));
    assert_eq!((eth0.collisions, eth0.carrier_losses, eth0.multicast), (Counter(6), Counter(8), Counter(40021)));
    assert_eq!((speed(eth0), eth0.facts.duplex, eth0.id.ifindex), (Ok(1000), Ok(Duplex::Full), 2));
    assert_eq!((eth0.rx_missed, eth0.rx_nohandler), (Some(Counter(61)), None));
    assert_eq!(all.nic("eth0:1").rx.bytes, Counter(4711));
    assert_eq!(speed(all.nic("bond0")), Ok(1000), "of its one slave, which a bond of this age names in a file");
    assert!(all.nic("bond0").facts.virtual_device && !eth0.facts.virtual_device && all.nic("lo").facts.loopback);

    let cgroups = all.cgroups.as_ref().unwrap();
    assert_eq!(cgroups.len(), 1, "two hierarchies, one group: {cgroups:?}");
    let group = &cgroups[0];
    assert_eq!((group.id.version, &group.id.path), (CgroupVersion::V1, &"/docker/8f3a".into()));
    assert_eq!((group.quota_us, group.period_us), (Some(50000), Some(100000)));
    assert_eq!((group.throttled_periods, group.throttled_ns), (Some(Counter(4321)), Some(Counter(987654321012))));
    assert_eq!(group.usage_ns, Some(Counter(123456789012345)));
    assert_eq!((group.memory_limit_bytes, group.memory_usage_bytes), (Some(536870912), Some(530000000)));
    assert_eq!((group.major_faults, group.refaulted_pages), (Some(Counter(71)), None), "with the groups below it");

    assert_eq!(all.host.boot_time_s, Some(1493020481));
    let privilege = &all.host.privilege;
    assert!(privilege.hidepid && !privilege.has_cap_sys_ptrace);
    assert_eq!((privilege.effective_uid, privilege.delay_accounting), (1000, Err(Absent::NoSuchFile)));
}

#[test]
fn kernel_4_18_with_cpus_taken_out() {
    let all = Everything::read("4.18-rhel8");
    let cpu = all.cpu.as_ref().unwrap();
    assert_eq!(cpu.cpus.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [CpuId(0), CpuId(2), CpuId(5)]);
    assert_eq!(cpu.cpus[2].1.idle_ticks, Counter(20000));
    let places: Vec<_> = all.host.topology.iter().map(|place| (place.cpu.0, place.node, place.package)).collect();
    assert_eq!(places, [(0, 0, 0), (2, 0, 0), (5, 1, 1)]);
    assert!(all.host.privilege.has_cap_sys_ptrace && !all.host.privilege.hidepid);

    let memory = all.memory.as_ref().unwrap();
    assert_eq!((memory.refaulted_pages, memory.allocation_stalls), (Some(Counter(60606)), Some(Counter(66))));
    assert_eq!((memory.reclaimed_pages, memory.oom_kills), (Some(Counter(10000)), Some(Counter(2))));

    assert_eq!(disk_names(&all), ["loop1", "sda"]);
    assert_eq!(all.disk("sda").discards.unwrap().sectors, Counter(8000));
    assert_eq!(all.disk("sda").flushes, None);
    assert_eq!(all.disk("loop1").facts.backing_file, Some("/var/lib/images/a b.img".into()));

    assert_eq!(speed(all.nic("ens1")), Ok(25000));
    assert_eq!(speed(all.nic("ens2")), Err(Absent::Unsupported), "-1");
    assert_eq!(speed(all.nic("bond0")), Err(Absent::Unsupported), "two cards below: no one speed is right");
    assert_eq!(speed(all.nic("ens1.7")), Ok(25000), "of the card that the VLAN is on");
    assert_eq!(all.nic("ens1.7").facts.duplex, Ok(Duplex::Full));
    assert_eq!((all.nic("ens1").facts.up, all.nic("ens2").facts.up, all.nic("lo").facts.up), (Some(true), Some(false), None));

    let cgroups = all.cgroups.as_ref().unwrap();
    assert_eq!(cgroups.len(), 1);
    assert_eq!((cgroups[0].quota_us, cgroups[0].usage_ns), (Some(200000), None));
}

#[test]
fn kernel_5_4() {
    let all = Everything::read("5.4-ubuntu");
    let stall = all.pressure.cpu.unwrap();
    assert_eq!((stall.some.unwrap().total_us, stall.full), (Counter(999888), None));
    assert_eq!(all.pressure.io.unwrap().full.unwrap().avg10, 0.5);
    assert_eq!(all.pressure.irq, Err(Absent::NoSuchFile));

    assert_eq!(disk_names(&all), ["sda", "sdb", "md0"]);
    assert_eq!(
        all.disk("md0").facts.slaves,
        [DiskId { major: 8, minor: 0 }, DiskId { major: 8, minor: 16 }],
        "of sda1 and sdb1"
    );
    assert_eq!(names(&all.disk("md0").facts.mount_points), ["/"]);
    assert_eq!(all.disk("sdb").facts.serial, Some("V6G2".into()));
    assert_eq!(all.in_flight, Ok(3), "partitions are not added up");

    assert_eq!((speed(all.nic("enp3s0")), all.nic("enp3s0").facts.duplex), (Ok(100), Ok(Duplex::Half)));
    assert_eq!((speed(all.nic("br0")), all.nic("br0").facts.duplex), (Ok(100), Ok(Duplex::Half)), "its one card");
    assert!(all.nic("veth1").facts.virtual_device);
    assert_eq!(all.cgroups, Ok(vec![]), "a hierarchy in which nothing is limited");
    assert_eq!(all.host.privilege.effective_uid, 34);
    assert!(all.host.privilege.has_cap_sys_ptrace && !all.host.privilege.hidepid);
    assert_eq!(all.host.topology[0].package, 0, "firmware that says -1 has one package");
}

#[test]
fn kernel_5_15_with_cgroup_v2_only() {
    let all = Everything::read("5.15-debian");
    let memory = all.memory.as_ref().unwrap();
    assert_eq!((memory.refaulted_pages, memory.allocation_stalls), (Some(Counter(733)), Some(Counter(20))));
    assert_eq!((memory.reclaimed_pages, memory.scanned_direct_pages), (Some(Counter(1100)), Some(Counter(140))));
    assert_eq!((memory.thp_fault_fallbacks, memory.compaction_stalls), (Some(Counter(17)), Some(Counter(23))));

    assert_eq!(disk_names(&all), ["zram0", "nvme0n1"]);
    let nvme = all.disk("nvme0n1");
    assert_eq!((nvme.flushes, nvme.flush_time_ms), (Some(Counter(5005)), Some(Counter(606))));
    assert_eq!(nvme.facts.model, Some("Samsung SSD 980 PRO 1TB".into()));
    assert_eq!(nvme.facts.serial, Some("S5GXNF0R123456".into()));
    assert_eq!(names(&nvme.facts.mount_points), ["/boot/efi", "/", "/home"], "btrfs found by its source");

    let seen = names(all.nics.as_ref().unwrap().iter().map(|nic| &nic.id.name));
    assert_eq!(seen, ["lo", "a:b:c 1", "wlp2s0", "tun0"], "lines with -1, 2^64 or too few numbers are left out");
    assert_eq!(all.nic("a:b:c 1").rx.bytes, Counter(5));
    assert_eq!(speed(all.nic("wlp2s0")), Err(Absent::Unsupported), "65535");
    assert_eq!(speed(all.nic("tun0")), Err(Absent::Unsupported), "0");

    let cgroups = all.cgroups.as_ref().unwrap();
    assert_eq!(names(cgroups.iter().map(|group| &group.id.path)), ["/system.slice/web.service", "/user.slice/user-1000.slice"]);
    let web = &cgroups[0];
    assert_eq!((web.id.version, web.quota_us, web.period_us), (CgroupVersion::V2, Some(25000), Some(100000)));
    assert_eq!((web.periods, web.throttled_periods), (Some(Counter(810)), Some(Counter(405))));
    assert_eq!((web.throttled_ns, web.usage_ns), (Some(Counter(70707000)), Some(Counter(6000001000))));
    assert_eq!((web.refaulted_pages, web.major_faults), (Some(Counter(4300)), Some(Counter(88))));
    let user = &cgroups[1];
    assert_eq!((user.quota_us, user.memory_limit_bytes), (None, Some(1073741824)), "memory.high limits too");
    assert_eq!(user.major_faults, None, "far from its limit: not read");

    assert!(all.host.privilege.hidepid, "hidepid=invisible");
    assert_eq!(all.host.privilege.delay_accounting, Ok(false));
}

#[test]
fn protocols_by_name() {
    let protocols = Everything::read("5.15-debian").protocols;
    let (tcp, udp, ext) = (protocols.tcp.unwrap(), protocols.udp.unwrap(), protocols.tcp_ext.unwrap());
    assert_eq!((tcp.active_opens, tcp.passive_opens, tcp.attempt_fails), (Counter(412301), Counter(998822), Counter(3121)));
    assert_eq!((tcp.established_resets, tcp.established, tcp.segments_in), (Counter(8875), 211, Counter(80112233)));
    assert_eq!((tcp.segments_out, tcp.segments_retransmitted), (Counter(90443322), Counter(51234)));
    assert_eq!((tcp.errors_in, tcp.resets_out), (Counter(17), Counter(12345)));
    assert_eq!((udp.datagrams_in, udp.no_ports, udp.errors_in), (Counter(777001), Counter(345), Counter(28)));
    assert_eq!((udp.datagrams_out, udp.receive_buffer_errors), (Counter(666002), Some(Counter(27))));
    assert_eq!(udp.send_buffer_errors, Some(Counter(3)));
    assert_eq!((ext.listen_overflows, ext.listen_drops), (Some(Counter(1771)), Some(Counter(1772))));
    assert_eq!((ext.syn_retransmits, ext.timeouts), (Some(Counter(2808)), Some(Counter(3456))));
    assert_eq!((ext.lost_retransmits, ext.backlog_drops), (Some(Counter(205)), Some(Counter(19))));
    assert_eq!(protocols.ip_octets, Ok((Counter(98765432101), Counter(87654321012))));
}

#[test]
fn a_container_has_fewer_figures_and_none_is_invented() {
    let all = Everything::read("container-lxcfs");
    let cpu = all.cpu.unwrap();
    assert_eq!((cpu.total.steal_ticks, cpu.total.guest_ticks, cpu.interrupts), (None, None, None));
    assert_eq!(all.host.boot_time_s, None);
    assert_eq!(all.host.topology, []);
    assert_eq!(all.disks, Ok(vec![]));
    assert_eq!(all.memory.unwrap().swapped_in_pages, None);
    assert_eq!(all.cgroups, Err(Absent::NoSuchFile));
    assert_eq!(all.protocols.tcp_ext, Err(Absent::NoSuchFile));
    let nics = all.nics.unwrap();
    assert_eq!(nics[1].facts.speed_mbps, Err(Absent::NoSuchFile));
    assert_eq!((nics[1].id.ifindex, nics[1].facts.up), (0, None));
    assert!(nics[0].facts.loopback);
    assert!(!all.host.privilege.has_cap_sys_ptrace, "docker's default capabilities are without CAP_SYS_PTRACE");
}
