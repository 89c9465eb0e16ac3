//! The network namespaces of an interval, so that one rule evaluates each: that of stalltop, and those of containers and other
//! processes.

use super::finding::Subject;
use super::formatting::lossy_name;
use crate::ids::NicId;
use crate::interval::Interval;
use crate::interval::cgroup_names::{CgroupName, NameKind};
use crate::interval::network::namespaces::{NamespaceSpan, drop_rate};
use crate::interval::network::{NicSpan, ProtocolSpan};
use crate::sample::network::namespaces::{NetworkNamespace, RetransmitHost};
use crate::sample::network::{Listener, Nic, SynQueue, UdpSocket};
use crate::sample::{Name, Sample};
use crate::units::{PerSecond, SmallSort};

/// One network namespace in an interval.
#[derive(Clone, Copy)]
pub struct NetworkScope<'a> {
    /// `None`: that of stalltop
    pub namespace: Option<&'a NetworkNamespace>,
    pub protocols: &'a ProtocolSpan,
    pub nics: &'a [NicSpan],
    interval: &'a Interval,
}

impl<'a> NetworkScope<'a> {
    /// The network namespace of stalltop.
    pub fn own(interval: &'a Interval) -> NetworkScope<'a> {
        NetworkScope { namespace: None, protocols: &interval.network.protocols, nics: &interval.network.nics, interval }
    }

    /// That of stalltop first, then the others.
    pub fn all(interval: &'a Interval) -> impl Iterator<Item = NetworkScope<'a>> {
        let other = |span: &'a NamespaceSpan| {
            let namespace = interval.newer.network_namespaces.as_ref().ok()?.namespace(span.inode);
            namespace.map(|row| NetworkScope { namespace: Some(row), protocols: &span.protocols, nics: &span.nics, interval })
        };
        [NetworkScope::own(interval)].into_iter().chain(interval.network.namespaces.iter().filter_map(other))
    }

    /// The inode of the namespace; `None`: that of stalltop.
    pub fn inode(&self) -> Option<u64> {
        self.namespace.map(|namespace| namespace.inode)
    }

    /// The interface of these figures, as it was last seen.
    pub fn nic(&self, span: &NicSpan) -> Option<&'a Nic> {
        self.interval.nic(span)
    }

    /// Listening sockets with connections in their accept queue.
    pub fn listeners(&self) -> &'a [Listener] {
        match self.namespace {
            None => self.interval.newer.protocols.listeners.as_deref().unwrap_or_default(),
            Some(namespace) => namespace.fullest_listener.as_slice(),
        }
    }

    /// SYN queues with requests, the one with most first; of another namespace that one.
    pub fn syn_queues(&self) -> &'a [SynQueue] {
        match self.namespace {
            None => self.interval.newer.protocols.syn_queues.as_deref().unwrap_or_default(),
            Some(namespace) => namespace.fullest_syn_queue.as_slice(),
        }
    }

    /// The SYN queue with most requests.
    pub fn fullest_syn_queue(&self) -> Option<&'a SynQueue> {
        self.syn_queues().first()
    }

    /// The UDP socket that drops most datagrams, and how many per second; `None` where only the newer sample has the socket.
    pub fn top_udp_socket(&self) -> Option<(&'a UdpSocket, Option<PerSecond>)> {
        let sockets = |sample: &'a Sample| match self.namespace {
            None => sample.protocols.udp_sockets.as_deref().unwrap_or_default(),
            Some(namespace) => {
                let row = sample.network_namespaces.as_ref().ok().and_then(|all| all.namespace(namespace.inode));
                row.map_or(&[][..], |row| row.top_udp_socket.as_slice())
            }
        };
        let older = sockets(&self.interval.older);
        let with_rate =
            sockets(&self.interval.newer).iter().map(|socket| (socket, drop_rate(older, socket, self.interval.seconds)));
        // The reader puts the one with most drops first.
        let mut sockets: Vec<_> = with_rate.filter(|(_, rate)| rate.is_none_or(|rate| rate.0 > 0.0)).collect();
        sockets.small_sort_by(|a, b| b.1.map_or(0.0, |rate| rate.0).total_cmp(&a.1.map_or(0.0, |rate| rate.0)));
        sockets.into_iter().next()
    }

    /// The remote host with most retransmits, how many per second, and the process of its worst connection. `None` for the namespace of
    /// stalltop, whose remote hosts are all known.
    pub fn top_retransmit_host(&self) -> Option<(&'a RetransmitHost, PerSecond)> {
        let inode = self.namespace?.inode;
        let host = |sample: &'a Sample| sample.network_namespaces.as_ref().ok()?.namespace(inode)?.top_retransmit_host.as_ref();
        let (older, newer) = (host(&self.interval.older)?, host(&self.interval.newer)?);
        let counters = (newer.segments_retransmitted, older.segments_retransmitted);
        let rate = PerSecond::between(Some(counters.0), Some(counters.1), self.interval.seconds)?;
        (older.address == newer.address && rate.0 > 0.0).then_some((newer, rate))
    }

    /// For a sentence: ` in the network of container web-1 (docker)`, ` in the network namespace of nginx (1234)`; empty
    /// for that of stalltop.
    pub fn place(&self) -> String {
        match self.namespace {
            None => String::new(),
            Some(namespace) => match Owner::new(self.interval, namespace) {
                Owner::Container(container) => format!(" in the network of {container}"),
                Owner::Process(process) => format!(" in the network namespace of {process}"),
            },
        }
    }

    /// The subject of a finding about the whole namespace; `own` where it is that of stalltop.
    pub fn subject(&self, own: Subject) -> Subject {
        self.namespace.map_or(own, |namespace| self.namespace_subject(namespace, None))
    }

    /// The subject of a finding about an interface.
    pub fn nic_subject(&self, nic: &NicId) -> Subject {
        match self.namespace {
            None => Subject::Nic(nic.clone()),
            Some(namespace) => self.namespace_subject(namespace, Some(nic.clone())),
        }
    }

    fn namespace_subject(&self, namespace: &NetworkNamespace, nic: Option<NicId>) -> Subject {
        let owner = Owner::new(self.interval, namespace).into_text();
        Subject::NetworkNamespace { inode: namespace.inode, owner: Name::from(owner.as_str()), nic }
    }
}

/// Whose network namespace it is: `container web-1 (docker)`, `nginx (1234)`, `nginx (1234) of nginx.service`. `None` if no
/// sample of the interval has it.
pub fn namespace_owner(interval: &Interval, inode: u64) -> Option<String> {
    let namespace = interval.newer.network_namespaces.as_ref().ok()?.namespace(inode)?;
    Some(Owner::new(interval, namespace).into_text())
}

enum Owner {
    Container(String),
    Process(String),
}

impl Owner {
    fn new(interval: &Interval, namespace: &NetworkNamespace) -> Owner {
        let process = interval.process(namespace.process.pid);
        let cgroup = process.and_then(|process| process.facts.cgroup.as_ref().ok());
        let name = cgroup.map(|cgroup| CgroupName::from_path(&interval.newer, cgroup.path.as_bytes()));
        let unit = match name {
            // All cgroups of a container, and all containers of a pod, are in one network namespace.
            Some(name @ CgroupName { kind: NameKind::Container | NameKind::Pod, .. }) => {
                return Owner::Container(CgroupName { below: String::new(), ..name }.describe());
            }
            Some(CgroupName { kind: NameKind::Unit, name, .. }) if name.ends_with(".service") => format!(" of {name}"),
            _ => String::new(),
        };
        Owner::Process(format!("{} ({}){unit}", lossy_name(&namespace.comm), namespace.process.pid))
    }

    fn into_text(self) -> String {
        match self {
            Owner::Container(owner) | Owner::Process(owner) => owner,
        }
    }
}
