//! Interfaces, TCP and UDP of a scenario's machine: of its own network namespace and of others.

use stalltop::ids::ProcessId;
use stalltop::sample::network::namespaces::{NamespaceNic, NetworkNamespace, NetworkNamespaces, RetransmitHost};
use stalltop::sample::network::{
    DirectionCounters, Duplex, Listener, Nic, NicFacts, Qdisc, SynQueue, Tcp, TcpExt, Udp, Udp6, UdpSocket,
};
use stalltop::sample::{Absent, Name, Reading, Sample};

use super::synthetic;
use crate::format::{self, Phase};
use crate::machine::Machine;

/// The pid of the owners of sockets.
const OWNER_PID: u32 = 900;
/// … and of the processes at the other end.
pub const SOCKET_OWNERS: [u32; 2] = [OWNER_PID, OWNER_PID + 1];

/// One network namespace of a phase.
pub struct Network<'a> {
    nics: &'a [format::Nic],
    tcp: Option<&'a format::Tcp>,
    udp: Option<&'a format::Udp>,
    listen: Option<&'a format::Listen>,
}

impl<'a> Network<'a> {
    pub fn of_phase(phase: &'a Phase) -> Network<'a> {
        let Phase { nic, tcp, udp, listen, .. } = phase;
        Network { nics: nic, tcp: tcp.as_ref(), udp: udp.as_ref(), listen: listen.as_ref() }
    }

    pub fn of_namespace(namespace: &'a format::Namespace) -> Network<'a> {
        let format::Namespace { nic, tcp, udp, listen, .. } = namespace;
        Network { nics: nic, tcp: tcp.as_ref(), udp: udp.as_ref(), listen: listen.as_ref() }
    }
}

/// The index of the interface at this place of the list.
pub fn ifindex(at: usize) -> u32 {
    2 + u32::try_from(at).unwrap()
}

pub fn owner(name: &str) -> (ProcessId, Name) {
    (synthetic::process_id(OWNER_PID), Name::from(name))
}

impl Machine {
    /// Adds what happens in `seconds` to the counters, whose names begin with `prefix`.
    pub fn add_network(&mut self, prefix: &str, network: &Network, seconds: f64) {
        let mut add = |word: &str, by: f64| self.add(&format!("{prefix}{word}"), by * seconds);
        for nic in network.nics {
            let mut add = |word: &str, by: f64| add(&format!("nic {} {word}", nic.name), by);
            add("rx bytes", nic.rx_kb * 1024.0);
            add("tx bytes", nic.tx_kb * 1024.0);
            add("rx packets", nic.rx_packets);
            add("tx packets", nic.tx_packets);
            add("rx dropped", nic.rx_dropped);
            add("tx dropped", nic.tx_dropped);
            add("rx errors", nic.rx_errors);
            if let Some(qdisc) = &nic.qdisc {
                add("qdisc dropped", qdisc.dropped);
                add("qdisc overlimits", qdisc.overlimits);
                add("ingress dropped", qdisc.ingress_dropped.unwrap_or(0.0));
            }
        }
        if let Some(tcp) = network.tcp {
            add("tcp out", tcp.out);
            add("tcp again", tcp.retransmitted);
            add("tcp syn", tcp.syn);
        }
        if let Some(udp) = network.udp {
            add("udp in", udp.r#in);
            add("udp overflows", udp.overflows);
            add("udp overflows6", udp.overflows6);
            add("udp errors", udp.overflows + udp.errors);
            for socket in &udp.socket {
                add(&format!("udp drops {}", socket.address), socket.drops);
            }
        }
        if let Some(listen) = network.listen {
            add("listen drops", listen.drops);
            add("listen overflows", listen.overflows);
            add("cookies", listen.cookies);
            add("cookies back", listen.cookies_back);
            add("syn drops", listen.syn_drops);
        }
    }

    /// The network namespace of stalltop.
    pub fn fill_network(&self, sample: &mut Sample, network: &Network) {
        sample.nics = Ok(network.nics.iter().enumerate().map(|(at, nic)| self.nic("", at, nic)).collect());
        let protocols = &mut sample.protocols;
        (protocols.tcp, protocols.udp) = (self.tcp("", network), self.udp("", network));
        protocols.tcp_ext = Ok(self.tcp_ext(""));
        if let Some(listen) = network.listen {
            protocols.listeners = Ok(listener(listen).into_iter().collect());
            if listen.syn_queue.is_some() {
                protocols.syn_queues = Ok(syn_queue(listen).into_iter().collect());
            }
        }
        if let Some(udp) = network.udp {
            protocols.udp6 = self.udp6("");
            protocols.udp_sockets = Ok(self.udp_sockets("", udp));
        }
    }

    fn udp6(&self, prefix: &str) -> Reading<Udp6> {
        let overflows = self.read(&format!("{prefix}udp overflows6"));
        Ok(Udp6 { errors_in: overflows, receive_buffer_errors: Some(overflows), ..Udp6::default() })
    }

    /// The other network namespaces.
    pub fn namespaces(&self, phase: &Phase) -> NetworkNamespaces {
        let mut all = NetworkNamespaces { count: phase.namespace.len() as u32, ..NetworkNamespaces::default() };
        for namespace in &phase.namespace {
            let (prefix, network) = (format!("{} ", namespace.pid), Network::of_namespace(namespace));
            let inode = 4_026_532_000 + u64::from(namespace.pid);
            let sockets = network.listen.filter(|_| namespace.socket);
            all.rows.push(NetworkNamespace {
                inode,
                process: synthetic::process_id(namespace.pid),
                comm: namespace.name.as_str().into(),
                has_socket: namespace.socket,
                tcp: self.tcp(&prefix, &network),
                tcp_ext: Ok(self.tcp_ext(&prefix)),
                udp: self.udp(&prefix, &network),
                udp6: self.udp6(&prefix),
                ip_octets: Err(Absent::NotRead),
                fullest_listener: sockets.and_then(listener),
                fullest_syn_queue: sockets.and_then(syn_queue),
                top_udp_socket: network.udp.and_then(|udp| self.udp_sockets(&prefix, udp).into_iter().next()),
                top_retransmit_host: namespace.retransmits_to.map(|address| RetransmitHost {
                    address,
                    segments_retransmitted: self.read(&format!("{prefix}tcp again")),
                    process: Some((synthetic::process_id(namespace.pid), namespace.name.as_str().into())),
                }),
            });
            all.nics.extend(network.nics.iter().enumerate().map(|(at, nic)| {
                let mut nic = self.nic(&prefix, at, nic);
                if !namespace.socket {
                    (nic.qdisc, nic.id.ifindex) = (None, 0);
                }
                NamespaceNic { namespace: inode, nic }
            }));
        }
        all
    }

    fn tcp(&self, prefix: &str, network: &Network) -> Reading<Tcp> {
        let read = |word: &str| self.read(&format!("{prefix}{word}"));
        network.tcp.ok_or(Absent::NotRead)?;
        Ok(Tcp { segments_out: read("tcp out"), segments_retransmitted: read("tcp again"), ..Tcp::default() })
    }

    fn tcp_ext(&self, prefix: &str) -> TcpExt {
        let read = |word: &str| Some(self.read(&format!("{prefix}{word}")));
        TcpExt {
            listen_drops: read("listen drops"),
            listen_overflows: read("listen overflows"),
            syn_retransmits: read("tcp syn"),
            syn_cookies_sent: read("cookies"),
            syn_cookies_received: read("cookies back"),
            syn_queue_full_drops: read("syn drops"),
            ..TcpExt::default()
        }
    }

    fn udp(&self, prefix: &str, network: &Network) -> Reading<Udp> {
        let read = |word: &str| self.read(&format!("{prefix}{word}"));
        network.udp.ok_or(Absent::NotRead)?;
        Ok(Udp {
            datagrams_in: read("udp in"),
            errors_in: read("udp errors"),
            receive_buffer_errors: Some(read("udp overflows")),
            ..Udp::default()
        })
    }

    fn udp_sockets(&self, prefix: &str, udp: &format::Udp) -> Vec<UdpSocket> {
        let socket = |(inode, socket): (u64, &format::UdpSocket)| UdpSocket {
            local_address: socket.address.parse().expect("an address and a port"),
            inode,
            queued_bytes: socket.queued_kb * 1024,
            drops: self.read(&format!("{prefix}udp drops {}", socket.address)),
            owner: socket.owner.as_deref().map(owner),
        };
        (5000..).zip(&udp.socket).map(socket).collect()
    }

    fn nic(&self, prefix: &str, at: usize, nic: &format::Nic) -> Nic {
        let name = &nic.name;
        let read = |word: &str| self.read(&format!("{prefix}nic {name} {word}"));
        let direction = |word: &str| DirectionCounters {
            bytes: read(&format!("{word} bytes")),
            packets: read(&format!("{word} packets")),
            dropped: read(&format!("{word} dropped")),
            errors: read(&format!("{word} errors")),
            ..DirectionCounters::default()
        };
        let qdisc = nic.qdisc.as_ref().map(|qdisc| Qdisc {
            dropped: read("qdisc dropped"),
            overlimits: read("qdisc overlimits"),
            ingress_dropped: qdisc.ingress_dropped.map(|_| read("ingress dropped")),
            rate_bytes_per_second: qdisc.rate_mbit.map(|rate| rate * 125_000),
            ..synthetic::qdisc(qdisc.kind.as_str(), qdisc.backlog_packets, 1500)
        });
        let facts = |facts: &mut NicFacts| {
            facts.speed_mbps = nic.mbps.ok_or(Absent::Unsupported);
            facts.duplex = Ok(if nic.half_duplex { Duplex::Half } else { Duplex::Full });
            facts.virtual_device = nic.r#virtual;
        };
        synthetic::nic(ifindex(at), name.as_str()).facts(facts).rx(direction("rx")).tx(direction("tx")).qdisc(qdisc).build()
    }
}

fn listener(listen: &format::Listen) -> Option<Listener> {
    let address = listen.address.as_ref().filter(|_| listen.queue > 0)?;
    let address = address.parse().expect("an address and a port");
    Some(synthetic::listener(address, listen.queue, listen.limit, listen.owner.as_deref().map(owner)))
}

fn syn_queue(listen: &format::Listen) -> Option<SynQueue> {
    let (address, queue) = listen.address.as_ref().zip(listen.syn_queue.as_ref())?;
    Some(SynQueue {
        local_address: address.parse().expect("an address and a port"),
        requests: queue.requests,
        limit: Some(queue.limit),
        remote_hosts: queue.hosts,
        top_remote_host: queue.top,
        top_requests: queue.top_requests,
        owner: listen.owner.as_deref().map(owner),
    })
}
