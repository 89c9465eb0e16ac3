//! Devices, interfaces and cgroups of the running machine that are replaced by others of the same name: no difference is taken
//! between the two.

use std::sync::Arc;

use stalltop::baseline::DeviceIdentity;
use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler};
use stalltop::sample::Sample;
use stalltop::sample::disk::Disk;

use crate::again::{inside, is_root, plays};
use crate::loop_device::LoopDevice;
use crate::quota_group::QuotaGroup;
use crate::succeeds::succeeds;
use crate::until::until;

/// Reads all of the device past the page cache.
fn read_device(device: &LoopDevice) {
    assert!(succeeds(&format!("dd if={} of=/dev/null bs=64k iflag=direct", device.path)));
}

fn disk<'a>(sample: &'a Sample, name: &str) -> &'a Disk {
    sample.disks.as_ref().unwrap().iter().find(|disk| disk.name.as_bytes() == name.as_bytes()).unwrap()
}

#[test]
fn a_loop_device_with_another_file_is_another_device() {
    let directory = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        path
    };
    let (one, other) = (image("one"), image("other"));
    let Some(first) = is_root().then(|| LoopDevice::attach(&one, None)).flatten() else {
        return println!("skipped: needs root and losetup");
    };
    read_device(&first);
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let host = Arc::new(sampler.host().clone());
    let before = Arc::new(sampler.sample());
    let name = first.name().to_owned();
    let backing = |sample: &Sample| disk(sample, &name).facts.backing_file.as_ref().map(|file| file.as_bytes().to_owned());
    assert_eq!(backing(&before).as_deref(), Some(one.as_os_str().as_encoded_bytes()));
    let device = first.path.clone();
    drop(first);
    let Some(second) = LoopDevice::attach(&other, Some(&device)) else {
        return println!("skipped: another program uses {device}");
    };
    // Its counters go on from where those of the other file stood: they alone do not tell.
    read_device(&second);
    let after = Arc::new(sampler.sample());
    assert!(disk(&after, &name).reads.completed > disk(&before, &name).reads.completed);
    assert_eq!(backing(&after).as_deref(), Some(other.as_os_str().as_encoded_bytes()), "known at once");
    let interval = Interval::between(&host, &before, &after).unwrap();
    let id = disk(&after, &name).id;
    assert!(interval.disks.iter().all(|span| span.id != id), "no figure stands between the two");
    // What was learned of the one is not what the other is compared with.
    assert_ne!(DeviceIdentity::from_disk(disk(&before, &name)), DeviceIdentity::from_disk(disk(&after, &name)));
}

#[test]
fn an_interface_that_comes_back_is_another_one() {
    if !is_root() {
        return println!("skipped: a network namespace needs root");
    }
    match inside(&["unshare", "--net", "--mount"], "identities::inside_a_network_namespace") {
        Ok(said) => println!("{said}"),
        Err(why) => println!("skipped: {why}"),
    }
}

/// The other half of the test above.
#[test]
fn inside_a_network_namespace() {
    if !plays("identities::inside_a_network_namespace") {
        return;
    }
    // /sys/class/net shows the network namespace of the mount.
    if !succeeds("mount -t sysfs sysfs /sys") {
        return println!("skipped: no sysfs here");
    }
    let made = |packets: u32| {
        let made = succeeds("ip link add v0 type veth peer name v1")
            && succeeds("ip addr add 10.9.8.7/24 dev v0")
            && succeeds("ip link set v1 up")
            && succeeds("ip link set v0 up")
            && succeeds("ip neigh add 10.9.8.8 lladdr 02:00:00:00:00:01 dev v0");
        let socket = std::net::UdpSocket::bind("10.9.8.7:0");
        for _ in 0..packets {
            let _ = socket.as_ref().map(|socket| socket.send_to(&[0; 600], "10.9.8.8:9"));
        }
        made
    };
    if !made(50) {
        return println!("skipped: no veth here");
    }
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let host = Arc::new(sampler.host().clone());
    let before = Arc::new(sampler.sample());
    assert!(succeeds("ip link del v0") && made(400));
    let after = Arc::new(sampler.sample());
    let nic =
        |sample: &Sample| sample.nics.as_ref().unwrap().iter().find(|nic| nic.id.name.as_bytes() == b"v0").cloned().unwrap();
    let (old, new) = (nic(&before), nic(&after));
    assert!(new.tx.packets > old.tx.packets, "the counters alone do not tell");
    assert_ne!(old.id, new.id);
    let interval = Interval::between(&host, &before, &after).unwrap();
    assert!(interval.network.nics.iter().all(|span| span.id.name.as_bytes() != b"v0"), "no figure stands between the two");
}

/// A group with a quota under a name of its own, which may be made again. It was throttled in so many periods.
fn throttled_group(periods: u64) -> Option<QuotaGroup> {
    let mut group = QuotaGroup::create(&format!("stalltop-again-{}", std::process::id()), 20_000)?;
    group.start_busy_loop();
    group.until_throttled(periods);
    group.end_busy_loop();
    Some(group)
}

#[test]
fn a_cgroup_that_was_created_again_is_another_one() {
    let Some(first) = is_root().then(|| throttled_group(1)).flatten() else {
        return println!("skipped: needs root and a cpu controller that can be written to");
    };
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let host = Arc::new(sampler.host().clone());
    let path = first.path();
    let throttled = |sample: &Sample| {
        let groups = sample.cgroups.as_ref().unwrap();
        groups.iter().find(|group| group.id.path.as_bytes() == path.as_bytes()).map(|group| group.throttled_periods.unwrap().0)
    };
    let mut before = Arc::new(sampler.sample());
    until("group", || {
        before = Arc::new(sampler.sample());
        throttled(&before).is_some()
    });
    drop(first);
    // Throttled more often than the first: its counters alone do not tell.
    let Some(_second) = throttled_group(throttled(&before).unwrap() + 3) else {
        return println!("skipped: the group cannot be made again");
    };
    let after = Arc::new(sampler.sample());
    let interval = Interval::between(&host, &before, &after).unwrap();
    let is_ours = |path_of: &[u8]| path_of == path.as_bytes();
    assert!(
        interval.cgroups.iter().all(|group| !is_ours(group.id.path.as_bytes())),
        "no figure stands between the two: {:?}",
        interval.cgroups
    );
}
