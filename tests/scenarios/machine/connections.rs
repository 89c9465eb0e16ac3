//! Connections of the machine of a scenario: remote hosts, and processes that wait for the other end.

use stalltop::sample::Name;
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts};
use stalltop::sample::network::unix_senders::UnixSenders;
use stalltop::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};

use super::Machine;
use crate::format::{self, Phase};
use crate::network::ifindex;
use crate::synthetic;

impl Machine {
    /// A scan of the connections, summed as the reader does.
    pub(super) fn scan_connections(&mut self, phase: &Phase) {
        for peer in &phase.peer {
            for (word, count) in [("active", peer.active), ("pressed", peer.pressed)] {
                let mut add = |what: &str, by: f64| self.add(&format!("peer {} {word} {what}", peer.address), by);
                add("scans", f64::from(count));
                add("smoothed", f64::from(count) * peer.rtt_ms * 1000.0);
                add("minimum", f64::from(count) * peer.min_ms * 1000.0);
            }
        }
        self.peers = Some(self.peers(phase));
    }

    pub(super) fn peers(&self, phase: &Phase) -> RemoteHosts {
        synthetic::remote_hosts(self.boottime_ns, 1_000_000, phase.peer.iter().map(|peer| self.peer(phase, peer)))
    }

    fn peer(&self, phase: &Phase, peer: &format::Peer) -> RemoteHost {
        let read = |word: &str| self.read(&format!("peer {} {word}", peer.address));
        let round_trips = |word: &str| {
            let [scans, smoothed, minimum] = ["scans", "smoothed", "minimum"].map(|what| read(&format!("{word} {what}")).0);
            synthetic::round_trips(scans, smoothed, minimum)
        };
        let [watched, busy, receiver, send_buffer] = ["watched", "busy", "receiver", "send buffer"].map(|word| read(word).0);
        RemoteHost {
            local: peer.local,
            ifindex: peer.via.as_ref().map(|via| ifindex(phase.nic.iter().position(|nic| nic.name == *via).unwrap_or(0))),
            connections: peer.connections,
            client_connections: if peer.clients { peer.connections } else { 0 },
            bytes_acked: Some(read("acked")),
            data_segments_out: Some(read("segments")),
            segments_retransmitted: read("again"),
            active: round_trips("active"),
            send_backlogged: round_trips("pressed"),
            send_limits: Some(synthetic::send_limits(watched, busy, receiver, send_buffer)),
            worst_process: peer.process.as_deref().map(crate::network::owner),
            ..synthetic::remote_host(peer.address)
        }
    }

    pub(super) fn waiting(&self, waiting: &format::Waiting) -> WaitingConnections {
        let process = |name: &String, pid| (synthetic::process_id(pid), Name::from(name.as_str()));
        WaitingConnections {
            remote_host: waiting.remote.ip(),
            remote_port: Some(waiting.remote.port()),
            local_port: None,
            wait: match waiting.wait.as_str() {
                "connect" => ConnectionWait::Connect,
                "name-server" => ConnectionWait::NameServer,
                "acknowledgement" => ConnectionWait::Acknowledgement,
                "closed-window" => ConnectionWait::ClosedWindow,
                "full-window" => ConnectionWait::FullWindow,
                "send-buffer" => ConnectionWait::SendBuffer,
                "answer" => ConnectionWait::Answer,
                other => panic!("no wait {other}"),
            },
            connections: waiting.connections,
            owner: waiting.owner.as_ref().map(|name| process(name, waiting.owner_pid)),
            threads: waiting.threads,
            since_boottime_ns: self.boottime_ns.saturating_sub((waiting.seconds * 1e9) as u64),
            queued_bytes: waiting.queued_kb * 1024,
            retries: waiting.retries,
            receiver: waiting.receiver.as_ref().map(|name| process(name, 901)),
            unread_bytes: waiting.unread_kb * 1024,
            receiving_threads: waiting.receiving_threads,
            polling_threads: waiting.polling_threads,
            longest_answer_ms: waiting.longest_answer_ms,
        }
    }

    pub(super) fn unix_sender(&self, sender: &format::UnixSender) -> UnixSenders {
        let process = |name: &String, pid| (synthetic::process_id(pid), Name::from(name.as_str()));
        UnixSenders {
            owner: process(&sender.owner, sender.pid),
            receiver: sender.receiver.as_ref().map(|name| process(name, 901)),
            are_datagrams: sender.datagrams,
            address: sender.address.as_deref().map(Name::from),
            sockets: sender.sockets,
            threads: sender.threads,
            polling_threads: sender.polling_threads,
            since_boottime_ns: self.boottime_ns.saturating_sub((sender.seconds * 1e9) as u64),
            unread_bytes: sender.unread_kb * 1024,
            backlog: sender.backlog,
        }
    }
}
