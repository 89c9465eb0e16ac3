//! The format of a scenario file: what a machine does, phase by phase, and the findings that it must
//! raise. README.md in this folder explains every field.

mod expect;
mod host;
mod network;
mod tasks;

use serde::Deserialize;
use stalltop::findings::Kind;

pub use expect::{Expect, Figure};
pub use host::{Cgroup, Container, Core, Disk, Frequency, IoLimit, Limit, Memory, Operation, Pressure, Shares, Weight};
pub use network::{Listen, Namespace, Nic, Peer, Softnet, Tcp, Udp, UdpSocket, UnixSender, Waiting};
pub use tasks::{Exit, Holder, OwnerPeer, Process, Queue};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    pub case: Vec<Case>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    pub title: String,
    /// A rule that a similar case raises, and this one must not
    pub must_not_raise: Option<Kind>,
    #[serde(default = "two")]
    pub cpus: u32,
    /// The processes of other users are hidden
    #[serde(default)]
    pub hidepid: bool,
    /// Whether it is a virtual machine
    pub hypervisor: Option<bool>,
    pub phase: Vec<Phase>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phase {
    #[serde(default = "five")]
    pub intervals: u32,
    /// Length of an interval
    #[serde(default = "one")]
    pub seconds: f64,
    /// Seconds without samples before this phase
    #[serde(default)]
    pub gap_seconds: f64,
    /// Seconds of suspend in the first interval
    #[serde(default)]
    pub suspended_seconds: f64,
    /// Per cent of each CPU that `core` does not name; made to add up to 100
    #[serde(default)]
    pub cpu: Shares,
    #[serde(default)]
    pub core: Vec<Core>,
    #[serde(default)]
    pub process: Vec<Process>,
    #[serde(default)]
    pub disk: Vec<Disk>,
    #[serde(default)]
    pub nic: Vec<Nic>,
    pub tcp: Option<Tcp>,
    pub udp: Option<Udp>,
    pub listen: Option<Listen>,
    #[serde(default)]
    pub peer: Vec<Peer>,
    /// Intervals from one scan of the connections to the next
    #[serde(default = "one_u32")]
    pub connection_scan_interval: u32,
    #[serde(default)]
    pub softnet: Vec<Softnet>,
    #[serde(default)]
    pub waiting: Vec<Waiting>,
    #[serde(default)]
    pub unix_sender: Vec<UnixSender>,
    #[serde(default)]
    pub limit: Vec<Limit>,
    #[serde(default)]
    pub namespace: Vec<Namespace>,
    #[serde(default)]
    pub cgroup: Vec<Cgroup>,
    #[serde(default)]
    pub weight: Vec<Weight>,
    #[serde(default)]
    pub container: Vec<Container>,
    pub memory: Option<Memory>,
    pub frequency: Option<Frequency>,
    /// Per cent of the time
    #[serde(default)]
    pub pressure: Pressure,
    #[serde(default)]
    pub load: f64,
    /// Tasks that can run at each sample, the monitor among them
    pub runnable: Option<u32>,
    /// Processes and threads that begin, per second
    pub forks: Option<f64>,
    /// Exits that are reported; none if it is left out
    pub exits: Option<Vec<Exit>>,
    /// Exits whose messages were lost, per second
    #[serde(default)]
    pub lost: f64,
    #[serde(default)]
    pub expect: Expect,
}

fn two() -> u32 {
    2
}

fn five() -> u32 {
    5
}

fn one() -> f64 {
    1.0
}

fn one_u32() -> u32 {
    1
}
