//! The running machine, with the procfs crate and other tools as oracles.

use std::time::{Duration, Instant};

use procfs::prelude::*;
use stalltop::kernel::cgroup::CgroupReader;
use stalltop::kernel::cpu::CpuReader;
use stalltop::kernel::disk::DiskReader;
use stalltop::kernel::host;
use stalltop::kernel::memory::MemoryReader;
use stalltop::kernel::network::NetworkReader;
use stalltop::kernel::pressure::PressureReader;
use stalltop::kernel::root::Root;

#[test]
#[ignore]
fn show() {
    let root = Root::host();
    println!("{:#?}", host::read(&root));
    let (mut cpu, mut memory, mut pressure, mut disk, mut network, mut cgroup) = (
        CpuReader::default(),
        MemoryReader::default(),
        PressureReader::default(),
        DiskReader::default(),
        NetworkReader::default(),
        CgroupReader::default(),
    );
    println!(
        "{:?}\n{:?} {:?}\n{:?}\n{:?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}",
        cpu.sample(&root),
        cpu.total_only(&root),
        cpu.load(&root),
        memory.sample(&root),
        pressure.sample(&root),
        disk.sample(&root),
        network.sample(&root),
        network.protocols(&root),
        cgroup.sample(&root)
    );
    const N: u32 = 500;
    let cost = |what: &str, f: &mut dyn FnMut()| {
        f();
        let begin = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        for _ in 0..N {
            f();
        }
        let end = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        println!("{what}: {:?}", (Duration::from(end) - Duration::from(begin)) / N);
    };
    cost("stat", &mut || drop(cpu.sample(&root)));
    cost("total", &mut || drop(cpu.total_only(&root)));
    cost("load", &mut || drop(cpu.load(&root)));
    cost("memory", &mut || drop(memory.sample(&root)));
    cost("pressure", &mut || drop(pressure.sample(&root)));
    cost("disk", &mut || drop(disk.sample(&root)));
    cost("in_flight", &mut || drop(disk.in_flight(&root)));
    cost("nics", &mut || drop(network.sample(&root)));
    cost("protocols", &mut || drop(network.protocols(&root)));
    cost("cgroup", &mut || drop(cgroup.sample(&root)));
    let _ = Instant::now();
    let _ = procfs::KernelStats::current();
}
