//! Protobuf messages for facts that change rarely: stored like names, by number, or in the meta frame. A tag is never reused for
//! another field.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;

use super::columns::{Columns, absent_code, absent_from_code};
use super::names::{Interner, Names};
use super::shared_facts::shared_message;
use super::wire::Malformed;
use crate::ids::{CgroupId, CgroupVersion, CpuId, DiskId};
use crate::sample::cgroup::Memberships;
use crate::sample::disk::DiskFacts;
use crate::sample::host::{CpuTopology, Privilege};
use crate::sample::network::{Duplex, NicFacts};
use crate::sample::{Absent, Host, Name, Reading};

macro_rules! facts_cell {
    ($type:ty, $known:ident, $encode:path, $decode:path) => {
        impl Columns for Arc<$type> {
            const WIDTH: usize = 1;

            fn write(&self, row: &mut [u64], names: &mut Interner) {
                names.facts(self, $encode).write(row, names);
            }

            fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
                shared_message(&names.facts.$known, names.name(u64::read(row, names)?)?, $decode)
            }
        }
    };
}

facts_cell!(DiskFacts, disks, encode_disk, decode_disk);
facts_cell!(NicFacts, nics, encode_nic, decode_nic);
facts_cell!(BTreeMap<u32, Name>, users, encode_users, decode_users);
facts_cell!(Memberships, memberships, encode_memberships, decode_memberships);

#[derive(Message)]
struct DiskFactsMessage {
    #[prost(bool, optional, tag = "1")]
    rotational: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "2")]
    scheduler: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    model: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    serial: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "5")]
    size_bytes: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "6")]
    backing_file: Option<Vec<u8>>,
    /// major, minor, major, minor, …
    #[prost(uint32, repeated, tag = "7")]
    slaves: Vec<u32>,
    #[prost(uint32, repeated, tag = "8")]
    partitions: Vec<u32>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    mounts: Vec<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "10")]
    path: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "11")]
    suspended: Option<bool>,
    #[prost(uint64, optional, tag = "12")]
    timeout_s: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "13")]
    sync_action: Option<Vec<u8>>,
}

fn encode_disk(facts: &DiskFacts) -> Vec<u8> {
    let pairs = |ids: &[DiskId]| ids.iter().flat_map(|id| [id.major, id.minor]).collect();
    DiskFactsMessage {
        rotational: facts.rotational,
        scheduler: facts.scheduler.as_ref().map(bytes),
        model: facts.model.as_ref().map(bytes),
        serial: facts.serial.as_ref().map(bytes),
        size_bytes: facts.size_bytes,
        backing_file: facts.backing_file.as_ref().map(bytes),
        slaves: pairs(&facts.slaves),
        partitions: pairs(&facts.partitions),
        mounts: facts.mount_points.iter().map(bytes).collect(),
        path: facts.sysfs_path.as_ref().map(bytes),
        suspended: facts.suspended,
        timeout_s: facts.timeout_s,
        sync_action: facts.sync_action.as_ref().map(bytes),
    }
    .encode_to_vec()
}

fn decode_disk(bytes: &[u8]) -> Result<DiskFacts, Malformed> {
    let message = DiskFactsMessage::decode(bytes).map_err(|_| Malformed("a disk's facts are not a message"))?;
    let ids = |pairs: &[u32]| {
        pairs.chunks_exact(2).filter_map(|pair| Some(DiskId { major: *pair.first()?, minor: *pair.get(1)? })).collect()
    };
    Ok(DiskFacts {
        rotational: message.rotational,
        scheduler: message.scheduler.as_deref().map(Name::from),
        model: message.model.as_deref().map(Name::from),
        serial: message.serial.as_deref().map(Name::from),
        size_bytes: message.size_bytes,
        backing_file: message.backing_file.as_deref().map(Name::from),
        slaves: ids(&message.slaves),
        partitions: ids(&message.partitions),
        mount_points: message.mounts.iter().map(|mount| Name::from(mount.as_slice())).collect(),
        sysfs_path: message.path.as_deref().map(Name::from),
        suspended: message.suspended,
        timeout_s: message.timeout_s,
        sync_action: message.sync_action.as_deref().map(Name::from),
    })
}

/// A reading of a number: the value, or why there is none.
#[derive(Message)]
struct NumberMessage {
    #[prost(uint64, optional, tag = "1")]
    value: Option<u64>,
    #[prost(uint64, tag = "2")]
    absent: u64,
    #[prost(sint32, tag = "3")]
    errno: i32,
}

fn number(reading: Reading<u64>) -> Option<NumberMessage> {
    Some(match reading {
        Ok(value) => NumberMessage { value: Some(value), absent: 0, errno: 0 },
        Err(why) => {
            let (absent, errno) = absent_code(why);
            NumberMessage { value: None, absent, errno }
        }
    })
}

fn reading(message: Option<NumberMessage>) -> Reading<u64> {
    let message = message.ok_or(Absent::NotRead)?;
    message.value.ok_or(absent_from_code(message.absent, message.errno))
}

#[derive(Message)]
struct NicFactsMessage {
    #[prost(message, optional, tag = "1")]
    speed_mbps: Option<NumberMessage>,
    /// 1 half, 2 full
    #[prost(message, optional, tag = "2")]
    duplex: Option<NumberMessage>,
    #[prost(bool, optional, tag = "3")]
    up: Option<bool>,
    #[prost(bool, tag = "4")]
    loopback: bool,
    #[prost(bool, tag = "5")]
    virtual_device: bool,
}

fn encode_nic(facts: &NicFacts) -> Vec<u8> {
    NicFactsMessage {
        speed_mbps: number(facts.speed_mbps.map(u64::from)),
        duplex: number(facts.duplex.map(|duplex| match duplex {
            Duplex::Half => 1,
            Duplex::Full => 2,
        })),
        up: facts.up,
        loopback: facts.loopback,
        virtual_device: facts.virtual_device,
    }
    .encode_to_vec()
}

fn decode_nic(bytes: &[u8]) -> Result<NicFacts, Malformed> {
    let message = NicFactsMessage::decode(bytes).map_err(|_| Malformed("an interface's facts are not a message"))?;
    Ok(NicFacts {
        speed_mbps: reading(message.speed_mbps).and_then(|speed| u32::try_from(speed).map_err(|_| Absent::Malformed)),
        duplex: reading(message.duplex).and_then(|duplex| match duplex {
            1 => Ok(Duplex::Half),
            2 => Ok(Duplex::Full),
            _ => Err(Absent::Malformed),
        }),
        up: message.up,
        loopback: message.loopback,
        virtual_device: message.virtual_device,
    })
}

#[derive(Message)]
struct UsersMessage {
    #[prost(uint32, repeated, tag = "1")]
    uids: Vec<u32>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    names: Vec<Vec<u8>>,
}

fn encode_users(users: &BTreeMap<u32, Name>) -> Vec<u8> {
    UsersMessage { uids: users.keys().copied().collect(), names: users.values().map(bytes).collect() }.encode_to_vec()
}

fn decode_users(bytes: &[u8]) -> Result<BTreeMap<u32, Name>, Malformed> {
    let message = UsersMessage::decode(bytes).map_err(|_| Malformed("the users are not a message"))?;
    Ok(message.uids.into_iter().zip(&message.names).map(|(uid, name)| (uid, Name::from(name.as_slice()))).collect())
}

/// A cgroup: version 1 or 2, and path.
#[derive(Message)]
struct CgroupMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    path: Vec<u8>,
}

#[derive(Message)]
struct MembershipsMessage {
    #[prost(message, optional, tag = "1")]
    memory: Option<CgroupMessage>,
    #[prost(message, optional, tag = "2")]
    io: Option<CgroupMessage>,
    #[prost(message, optional, tag = "3")]
    cpuset: Option<CgroupMessage>,
    #[prost(message, optional, tag = "4")]
    pids: Option<CgroupMessage>,
}

fn encode_memberships(memberships: &Memberships) -> Vec<u8> {
    let group = |id: &Option<CgroupId>| {
        let id = id.as_ref()?;
        let version = if id.version == CgroupVersion::V1 { 1 } else { 2 };
        Some(CgroupMessage { version, path: bytes(&id.path) })
    };
    MembershipsMessage {
        memory: group(&memberships.memory),
        io: group(&memberships.io),
        cpuset: group(&memberships.cpuset),
        pids: group(&memberships.pids),
    }
    .encode_to_vec()
}

fn decode_memberships(bytes: &[u8]) -> Result<Memberships, Malformed> {
    let message = MembershipsMessage::decode(bytes).map_err(|_| Malformed("a process's groups are not a message"))?;
    let group = |group: Option<CgroupMessage>| {
        let group = group?;
        let version = if group.version == 1 { CgroupVersion::V1 } else { CgroupVersion::V2 };
        Some(CgroupId { version, path: Name::from(group.path.as_slice()) })
    };
    Ok(Memberships {
        memory: group(message.memory),
        io: group(message.io),
        cpuset: group(message.cpuset),
        pids: group(message.pids),
    })
}

/// `sample::Host` in the meta frame.
#[derive(Message)]
pub struct HostMessage {
    #[prost(bytes = "vec", tag = "1")]
    hostname: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    kernel: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    machine: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    boot_id: Vec<u8>,
    #[prost(uint64, optional, tag = "5")]
    boot_time_s: Option<u64>,
    #[prost(uint64, tag = "6")]
    page_size: u64,
    #[prost(uint64, tag = "7")]
    ticks_per_second: u64,
    /// cpu, node, package, core of each CPU
    #[prost(uint32, repeated, tag = "8")]
    topology: Vec<u32>,
    #[prost(uint32, tag = "9")]
    effective_uid: u32,
    #[prost(bool, tag = "10")]
    sees_other_users: bool,
    #[prost(message, optional, tag = "11")]
    delay_accounting: Option<NumberMessage>,
    #[prost(bool, tag = "12")]
    hidepid: bool,
    #[prost(bool, optional, tag = "13")]
    has_hypervisor: Option<bool>,
}

impl HostMessage {
    pub fn from_host(host: &Host) -> HostMessage {
        HostMessage {
            hostname: bytes(&host.hostname),
            kernel: bytes(&host.kernel),
            machine: bytes(&host.machine),
            boot_id: bytes(&host.boot_id),
            boot_time_s: host.boot_time_s,
            page_size: host.page_size,
            ticks_per_second: host.ticks_per_second,
            topology: host.topology.iter().flat_map(|place| [place.cpu.0, place.node, place.package, place.core]).collect(),
            effective_uid: host.privilege.effective_uid,
            sees_other_users: host.privilege.has_cap_sys_ptrace,
            delay_accounting: number(host.privilege.delay_accounting.map(u64::from)),
            hidepid: host.privilege.hidepid,
            has_hypervisor: host.has_hypervisor,
        }
    }

    pub fn into_host(self) -> Host {
        let name = |bytes: &[u8]| Name::from(bytes);
        let place = |place: &[u32]| match *place {
            [cpu, node, package, core] => Some(CpuTopology { cpu: CpuId(cpu), node, package, core }),
            _ => None,
        };
        Host {
            hostname: name(&self.hostname),
            kernel: name(&self.kernel),
            machine: name(&self.machine),
            boot_id: name(&self.boot_id),
            boot_time_s: self.boot_time_s,
            page_size: self.page_size,
            ticks_per_second: self.ticks_per_second,
            topology: self.topology.chunks_exact(4).filter_map(place).collect(),
            privilege: Privilege {
                effective_uid: self.effective_uid,
                has_cap_sys_ptrace: self.sees_other_users,
                delay_accounting: reading(self.delay_accounting).map(|on| on != 0),
                hidepid: self.hidepid,
            },
            has_hypervisor: self.has_hypervisor,
        }
    }
}

fn bytes(name: &Name) -> Vec<u8> {
    name.as_bytes().to_vec()
}
