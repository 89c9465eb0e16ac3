//! Finds the UDP sockets that are connected to port 53 (/proc/net/udp and udp6): name lookups that a name server has not answered.
//! The resolver of glibc opens one for a lookup and closes it after the answer, within milliseconds. A program may also keep one
//! open without a lookup: hence only threads that sleep in a call on one of them count (`waiting_connections`).

use std::net::SocketAddr;
use std::time::Instant;

use nix::time::ClockId;

use super::remote_hosts::WaitingSocket;
use super::udp_sockets::parse_address;
use crate::kernel::clock::{CpuTimer, clock_ns};
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::fields::{lines, parse_u32, words};
use crate::kernel::root::Root;
use crate::sample::network::waiting_connections::ConnectionWait;

const DNS_PORT: u16 = 53;
/// Sockets that are kept of one reading.
const MAX_SOCKETS: usize = 256;
/// The next reading comes after this many times the cost of the last: at most 0.1 % of one CPU, also with thousands of UDP sockets.
const INTERVAL_PER_COST: u32 = 1000;

/// Reads the files of one network namespace; remembers since when it has seen each socket.
#[derive(Debug)]
pub struct NameServerSocketReader {
    files: [String; 2],
    pacer: CostPacer,
    /// Of the last reading, CLOCK_BOOTTIME
    read_ns: u64,
    sockets: Vec<WaitingSocket>,
}

impl NameServerSocketReader {
    /// Of the network namespace of stalltop.
    pub fn for_this_namespace() -> NameServerSocketReader {
        NameServerSocketReader::for_directory("proc/net")
    }

    /// Of the network namespace of a process.
    pub fn for_process(pid: u32) -> NameServerSocketReader {
        NameServerSocketReader::for_directory(&format!("proc/{pid}/net"))
    }

    fn for_directory(directory: &str) -> NameServerSocketReader {
        let files = ["udp", "udp6"].map(|name| format!("{directory}/{name}"));
        NameServerSocketReader { files, pacer: CostPacer::default(), read_ns: 0, sockets: Vec::new() }
    }

    /// Reads the sockets, unless the last reading was expensive and not long ago.
    pub fn sample(&mut self, root: &Root, now: Instant) {
        if !self.pacer.is_due(now) {
            return;
        }
        let timer = CpuTimer::start();
        self.read_ns = clock_ns(ClockId::CLOCK_BOOTTIME);
        let before = std::mem::take(&mut self.sockets);
        for file in &self.files {
            // A kernel without IPv6 has no udp6.
            let Ok(text) = root.read_once(file) else { continue };
            for (inode, local, remote) in parse_connected(&text) {
                let known = before.iter().find(|socket| (socket.inode, socket.remote) == (inode, remote));
                self.sockets.push(WaitingSocket {
                    local,
                    remote,
                    inode,
                    wait: ConnectionWait::NameServer,
                    since_ns: known.map_or(self.read_ns, |known| known.since_ns),
                    queued_bytes: 0,
                    retries: 0,
                    longest_answer_ms: None,
                });
            }
        }
        self.sockets.truncate(MAX_SOCKETS);
        self.pacer.schedule_next(now, timer.elapsed(), INTERVAL_PER_COST);
    }

    /// The sockets that were there at two readings: a lookup that is answered ends between them.
    pub fn waiting(&self) -> impl Iterator<Item = &WaitingSocket> {
        self.sockets.iter().filter(|socket| socket.since_ns < self.read_ns)
    }
}

/// Inode, local and remote address of each socket that is connected to port 53.
///
/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ref pointer drops`
fn parse_connected(text: &[u8]) -> impl Iterator<Item = (u32, SocketAddr, SocketAddr)> {
    lines(text).skip(1).filter_map(|line| {
        let mut words = words(line);
        let (local, remote) = (words.nth(1)?, words.next()?);
        // Most sockets end here: the address is parsed of few.
        remote.ends_with(b":0035").then_some(())?;
        let inode = parse_u32(words.nth(6)?)?;
        let remote = parse_address(remote).filter(|address| address.port() == DNS_PORT)?;
        Some((inode, parse_address(local)?, remote))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::proc_tree::ProcTree;

    const HEADING: &str =
        "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";

    /// After it even an expensive reading is repeated.
    const AN_HOUR: Duration = Duration::from_secs(3600);

    fn line(remote: &str, inode: u32) -> String {
        format!(
            "  100: 0100007F:9C40 {remote} 01 00000000:00000000 00:00000000 00000000     0        0 {inode} 2 0000000000000000 0\n"
        )
    }

    #[test]
    fn a_socket_waits_for_a_name_server_from_the_second_reading_on() {
        let tree = ProcTree::empty();
        let (mut reader, mut now) = (NameServerSocketReader::for_this_namespace(), Instant::now());
        let mut inodes = |text: String| {
            tree.write("proc/net/udp", text);
            now += AN_HOUR;
            reader.sample(&tree.root(), now);
            reader.waiting().map(|socket| socket.inode).collect::<Vec<_>>()
        };
        let lookup = line("3500007F:0035", 7);
        assert_eq!(inodes(format!("{HEADING}{lookup}{}", line("3500007F:0801", 8))), Vec::<u32>::new());
        assert_eq!(inodes(format!("{HEADING}{lookup}{}", line("3500007F:0035", 9))), [7]);
        assert_eq!(inodes(HEADING.to_owned()), Vec::<u32>::new());
    }

    #[test]
    fn an_expensive_reading_is_not_repeated_at_once() {
        let tree = ProcTree::with([("proc/net/udp", format!("{HEADING}{}", line("3500007F:0035", 7)))]);
        let (mut reader, now) = (NameServerSocketReader::for_this_namespace(), Instant::now());
        // The second reading finds the socket that waits since the first one.
        let mut waiting = |now| {
            reader.sample(&tree.root(), now);
            reader.waiting().count()
        };
        assert_eq!([waiting(now), waiting(now), waiting(now + AN_HOUR)], [0, 0, 1]);
    }
}
