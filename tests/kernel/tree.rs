//! The trees in tests/kernel/trees, and everything that the readers make of one.

use std::path::{Path, PathBuf};

use stalltop::kernel::cgroup::CgroupReader;
use stalltop::kernel::cpu::CpuReader;
use stalltop::kernel::disk::DiskReader;
use stalltop::kernel::host;
use stalltop::kernel::memory::MemoryReader;
use stalltop::kernel::network::NetworkReader;
use stalltop::kernel::pressure::PressureReader;
use stalltop::kernel::root::Root;
use stalltop::sample::cgroup::{Cgroup, IoLimit};
use stalltop::sample::cpu::{Cpu, CpuTimes, Load};
use stalltop::sample::disk::Disk;
use stalltop::sample::memory::Memory;
use stalltop::sample::network::{Nic, Protocols};
use stalltop::sample::pressure::Pressure;
use stalltop::sample::{Host, Reading};

pub const TREES: [&str; 6] = ["3.10-centos7", "4.18-rhel8", "5.4-ubuntu", "5.15-debian", "6.18-captured", "container-lxcfs"];

pub fn path(tree: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/trees").join(tree)
}

/// What fresh readers make of a tree.
pub struct Everything {
    pub cpu: Reading<Cpu>,
    pub total: Reading<CpuTimes>,
    pub load: Reading<Load>,
    pub memory: Reading<Memory>,
    pub pressure: Pressure,
    pub disks: Reading<Vec<Disk>>,
    pub in_flight: Reading<u32>,
    pub nics: Reading<Vec<Nic>>,
    pub protocols: Protocols,
    pub cgroups: Reading<Vec<Cgroup>>,
    pub io_limits: Vec<IoLimit>,
    pub host: Host,
}

impl Everything {
    pub fn read(tree: &str) -> Everything {
        Everything::read_directory(path(tree))
    }

    pub fn read_directory(path: PathBuf) -> Everything {
        let root = Root::at_directory(path);
        let (mut cpu, mut disk, mut network) = (CpuReader::default(), DiskReader::default(), NetworkReader::default());
        let mut cgroup = CgroupReader::default();
        let (mut cgroups, mut io_limits) = cgroup.sample(&root);
        while cgroup.is_walking() {
            (cgroups, io_limits) = cgroup.sample(&root);
        }
        Everything {
            cpu: cpu.sample(&root),
            total: cpu.read_total(&root),
            load: cpu.load(&root),
            memory: MemoryReader::default().sample(&root),
            pressure: PressureReader::default().sample(&root),
            disks: disk.sample(&root),
            in_flight: disk.in_flight(&root),
            nics: network.sample(&root),
            protocols: network.protocols(&root),
            cgroups,
            io_limits,
            host: host::read(&root),
        }
    }

    /// Each reading under its subject, as text.
    pub fn subjects(&self) -> [(&'static str, String); 9] {
        [
            ("cpu", format!("{:?} {:?}", self.cpu, self.total)),
            ("load", format!("{:?}", self.load)),
            ("memory", format!("{:?}", self.memory)),
            ("pressure", format!("{:?}", self.pressure)),
            ("disks", format!("{:?} {:?}", self.disks, self.in_flight)),
            ("nics", format!("{:?}", self.nics)),
            ("protocols", format!("{:?}", self.protocols)),
            ("cgroups", format!("{:?} {:?}", self.cgroups, self.io_limits)),
            ("host", format!("{:?}", self.host)),
        ]
    }

    pub fn disk(&self, name: &str) -> &Disk {
        self.disks.as_ref().unwrap().iter().find(|disk| disk.name.as_bytes() == name.as_bytes()).unwrap()
    }

    pub fn nic(&self, name: &str) -> &Nic {
        self.nics.as_ref().unwrap().iter().find(|nic| nic.id.name.as_bytes() == name.as_bytes()).unwrap()
    }
}
