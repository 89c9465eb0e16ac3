//! Interfaces in a network namespace and a cgroup that the test creates on the running machine. Needs root.

use std::net::UdpSocket;
use std::process::Command;

use stalltop::kernel::cgroup::CgroupReader;
use stalltop::kernel::disk::DiskReader;
use stalltop::kernel::network::NetworkReader;
use stalltop::kernel::root::Root;
use stalltop::sample::cgroup::Cgroup;
use stalltop::sample::network::{Duplex, Nic};

use crate::loop_device::LoopDevice;
use crate::quota_group::QuotaGroup;
use crate::succeeds::succeeds;

const INSIDE: &str = "STALLTOP_TEST_INSIDE_NAMESPACE";

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Deletes the namespace when the test is over, however it ends.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        succeeds(&format!("ip netns del {}", self.0));
    }
}

#[test]
fn interfaces_that_appear_and_vanish() {
    let namespace = Namespace(format!("stalltop-{}", std::process::id()));
    if !is_root() || !succeeds(&format!("ip netns add {}", namespace.0)) {
        return println!("skipped: needs root and `ip netns`");
    }
    if !succeeds(&format!("ip -n {} link add v0 type veth peer name v1", namespace.0)) {
        return println!("skipped: this kernel has no veth");
    }
    let inside = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "made::inside_the_namespace", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&inside.stdout), String::from_utf8_lossy(&inside.stderr));
    assert!(inside.status.success() && said.contains("1 passed"), "{said}");
    println!("{said}");
}

/// The other half of the test above.
#[test]
fn inside_the_namespace() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let root = Root::host();
    let mut reader = NetworkReader::default();
    let mut nic = |name: &str| -> Option<Nic> {
        reader.sample(&root).unwrap().into_iter().find(|nic| nic.id.name.as_bytes() == name.as_bytes())
    };
    assert_eq!(nic("v0").unwrap().facts.up, Some(false));
    for command in ["ip link set v1 up", "ip addr add 10.9.8.7/24 dev v0", "ip link set v0 up"] {
        assert!(succeeds(command), "{command}");
    }
    assert!(succeeds("ip neigh add 10.9.8.8 lladdr 02:00:00:00:00:01 dev v0"));
    assert!(succeeds("ip link add br9 type bridge") && succeeds("ip link set v1 master br9"));
    // The set has changed, and so the facts are new.
    let bridge = nic("br9").unwrap();
    assert!(bridge.facts.virtual_device && !bridge.facts.loopback);
    let veth = nic("v0").unwrap();
    assert_eq!((veth.facts.speed_mbps, veth.facts.duplex), (Ok(10000), Ok(Duplex::Full)), "by ethtool");
    assert!(veth.facts.virtual_device && veth.rx_missed.is_none());
    assert_eq!(veth.id.ifindex, nix::net::if_::if_nametoindex("v0").unwrap());

    if succeeds("tc qdisc add dev v0 root handle 1: tbf rate 100kbit burst 2kb latency 200ms") {
        let socket = UdpSocket::bind("10.9.8.7:0").unwrap();
        for _ in 0..100 {
            // A full queue refuses, which is what is wanted.
            let _ = socket.send_to(&[0; 1200], "10.9.8.8:9");
        }
        let shaped = nic("v0").unwrap().qdisc.unwrap();
        assert_eq!(shaped.kind.as_bytes(), b"tbf");
        assert!(shaped.backlog_bytes > 0 && shaped.backlog_packets > 0, "{shaped:?}");
        assert!(shaped.dropped.0 > 0 && shaped.overlimits.0 > 0, "{shaped:?}");
    } else {
        println!("skipped: no tbf here");
    }

    assert!(nic("v0").unwrap().tx.packets.0 > 0);
    assert!(succeeds("ip link del v0") && succeeds("ip link add v0 type veth peer name v1"));
    let again = nic("v0").unwrap();
    assert_ne!(again.id.ifindex, veth.id.ifindex, "another interface under the same name");
    assert!(succeeds("ip link del br9"));
    assert!(nic("br9").is_none());
}

#[test]
fn a_throttled_group_is_found_and_removed_when_it_is_gone() {
    let root = Root::host();
    let mut reader = CgroupReader::default();
    let made = || QuotaGroup::create(&format!("stalltop-test-{}", std::process::id()), 10_000);
    let Some(mut group) = is_root().then(made).flatten() else {
        return println!("skipped: needs root and a cpu controller that can be written to");
    };
    group.start_busy_loop();
    let path = group.path();
    let find = |reader: &mut CgroupReader| -> Option<Cgroup> {
        reader.sample(&root).0.unwrap().into_iter().find(|other| other.id.path.as_bytes() == path.as_bytes())
    };
    let first = loop {
        match find(&mut reader) {
            Some(found) => break found,
            None => assert!(reader.is_walking(), "the walk has ended without it"),
        }
    };
    assert_eq!((first.quota_us, first.period_us), (Some(10000), Some(100000)));
    let later = loop {
        let later = find(&mut reader).unwrap();
        if later.throttled_ns.unwrap().since(first.throttled_ns.unwrap()) > Some(50_000_000) {
            break later;
        }
        std::thread::yield_now();
    };
    assert!(later.periods > first.periods && later.throttled_periods > first.throttled_periods, "{later:?}");
    if group.directory.join("cpuacct.usage").exists() || group.directory.join("cpu.max").exists() {
        assert!(later.usage_ns > Some(stalltop::units::Counter(0)), "{later:?}");
    }
    drop(group);
    assert!(find(&mut reader).is_none(), "a group that is gone");
}

#[test]
fn a_loop_device_has_its_backing_file() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    std::fs::write(&image, vec![7; 1 << 20]).unwrap();
    let Some(device) = is_root().then(|| LoopDevice::attach(&image, None)).flatten() else {
        return println!("skipped: needs root and losetup");
    };
    assert_eq!(std::fs::read(&device.path).unwrap().len(), 1 << 20);
    let disks = DiskReader::default().sample(&Root::host()).unwrap();
    let disk = disks.iter().find(|disk| disk.name.as_bytes() == device.name().as_bytes()).unwrap();
    assert_eq!(disk.facts.size_bytes, Some(1 << 20));
    assert_eq!(disk.facts.backing_file.as_ref().unwrap().as_bytes(), image.as_os_str().as_encoded_bytes());
    assert!(disk.reads.sectors.0 >= 2048);
}
