//! Samples for tests and benchmarks, the same ones for the same seed: strange ones that hold any value a field can, and
//! plausible ones that move as a machine's do.
//!
//! It stays beside `synthetic` because its values are random, so that encoders meet every value; plausible rows are built there.

#![allow(dead_code, reason = "each user of this file uses a part of it")]

#[path = "generator/dice.rs"]
mod dice;
#[path = "generator/running.rs"]
mod running;
#[path = "generator/running_tasks.rs"]
mod running_tasks;
#[path = "generator/strange.rs"]
mod strange;
#[path = "generator/strange_host.rs"]
mod strange_host;
#[path = "generator/strange_network.rs"]
mod strange_network;
#[path = "generator/strange_tasks.rs"]
mod strange_tasks;
#[path = "generator/strange_waits.rs"]
mod strange_waits;

use std::time::Duration;

use stalltop::ids::CpuId;
use stalltop::recording::{Meta, Redaction};
use stalltop::sample::cgroup::ContainerName;
use stalltop::sample::host::{CpuTopology, Privilege};
use stalltop::sample::{Absent, Host, Name};

use super::synthetic;

#[allow(unused_imports, reason = "as above")]
pub use dice::Dice;
pub use running::Machine;
#[allow(unused_imports, reason = "as above")]
pub use strange::{strange_sample, strange_samples};

/// A container with a name.
pub fn container_names() -> Vec<ContainerName> {
    vec![synthetic::docker_name("4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970", "web-1")]
}

pub fn meta() -> Meta {
    Meta {
        version: "0.1.0".to_owned(),
        host: Host {
            hostname: Name::from("db1"),
            kernel: Name::from("6.18.0"),
            machine: Name::from("x86_64"),
            boot_id: Name::from("5c2d5e8a-3f0b-4a55-9f60-1f6f2a0c7b11"),
            boot_time_s: Some(1_759_000_000),
            topology: (0..2).map(|cpu| CpuTopology { cpu: CpuId(cpu), node: 0, package: 0, core: cpu }).collect(),
            privilege: Privilege {
                effective_uid: 0,
                has_cap_sys_ptrace: true,
                delay_accounting: Err(Absent::NoSuchFile),
                hidepid: false,
            },
            ..synthetic::host()
        },
        interval: Duration::from_secs(1),
        redaction: Redaction::Nothing,
        absent: vec![("/proc/pressure/io".to_owned(), Absent::Unsupported)],
    }
}
