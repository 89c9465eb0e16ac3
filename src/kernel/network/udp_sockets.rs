//! Reads the UDP sockets that drop datagrams (column `drops` of /proc/net/udp and udp6), and the process that has each open. The
//! files have a line for each socket: read only while the kernel counts overflows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::listeners::socket_owner::SocketOwners;
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::fields::{lines, parse_hexadecimal, parse_u64, words};
use crate::kernel::root::Root;
use crate::sample::network::{Udp, Udp6, UdpSocket};
use crate::sample::{Absent, Reading};
use crate::units::{Counter, SmallSort};

/// Sockets that a sample keeps.
const MAX_SOCKETS: usize = 8;
/// The next reading comes after this many times the cost of the last: at most 0.5 % of one CPU while sockets overflow.
const INTERVAL_PER_COST: u32 = 200;

/// Reads the sockets of one network namespace while its overflow counters grow.
#[derive(Debug)]
pub struct UdpSocketReader {
    files: [String; 2],
    last_overflows: Option<[Option<u64>; 2]>,
    pacer: CostPacer,
    last: Vec<UdpSocket>,
    /// Drops at the last reading, by inode: a socket whose counter has grown drops datagrams now
    drops: FxHashMap<u64, u64>,
    owners: SocketOwners,
}

impl UdpSocketReader {
    /// Of the network namespace of stalltop.
    pub fn for_this_namespace() -> UdpSocketReader {
        UdpSocketReader::for_directory("proc/net")
    }

    /// Of the network namespace of a process.
    pub fn for_process(pid: u32) -> UdpSocketReader {
        UdpSocketReader::for_directory(&format!("proc/{pid}/net"))
    }

    fn for_directory(directory: &str) -> UdpSocketReader {
        UdpSocketReader {
            files: ["udp", "udp6"].map(|name| format!("{directory}/{name}")),
            last_overflows: None,
            pacer: CostPacer::default(),
            last: Vec::new(),
            drops: FxHashMap::default(),
            owners: SocketOwners::default(),
        }
    }

    /// The sockets with drops, those with most since the last reading first, if the counters show an overflow; otherwise `NotRead`.
    pub fn sample(&mut self, root: &Root, udp: &Reading<Udp>, udp6: &Reading<Udp6>) -> Reading<Vec<UdpSocket>> {
        let count = |errors: Option<Counter>| errors.map(|count| count.0);
        let now = [
            udp.as_ref().ok().and_then(|udp| count(udp.receive_buffer_errors)),
            udp6.as_ref().ok().and_then(|udp| count(udp.receive_buffer_errors)),
        ];
        if self.last_overflows.replace(now).is_none_or(|last| last == now) {
            return Err(Absent::NotRead);
        }
        if !self.pacer.is_due(Instant::now()) {
            return Ok(self.last.clone());
        }
        let timer = CpuTimer::start();
        let mut sockets = Vec::new();
        for file in &self.files {
            // A kernel without IPv6 has no udp6.
            sockets.extend(root.read_once(file).map(|text| parse_udp_sockets(&text)).unwrap_or_default());
        }
        self.select(&mut sockets);
        let inodes = sockets.iter().filter_map(|socket| u32::try_from(socket.inode).ok());
        self.owners.search(root, inodes);
        for socket in &mut sockets {
            socket.owner = u32::try_from(socket.inode).ok().and_then(|inode| self.owners.owner(inode));
        }
        self.pacer.schedule_next(Instant::now(), timer.elapsed(), INTERVAL_PER_COST);
        self.last.clone_from(&sockets);
        Ok(sockets)
    }

    /// Keeps the sockets with most drops since the last reading; at the first one those with most. A sample cannot have all sockets,
    /// and the older one has none, since they are read only while overflows grow.
    fn select(&mut self, sockets: &mut Vec<UdpSocket>) {
        let before = std::mem::take(&mut self.drops);
        self.drops = sockets.iter().map(|socket| (socket.inode, socket.drops.0)).collect();
        let growth = |socket: &UdpSocket| socket.drops.0.saturating_sub(before.get(&socket.inode).copied().unwrap_or(0));
        sockets.small_sort_by_key(|socket| {
            (std::cmp::Reverse(growth(socket)), std::cmp::Reverse(socket.queued_bytes), socket.inode)
        });
        sockets.truncate(MAX_SOCKETS);
    }
}

/// Parses /proc/net/udp or udp6: the sockets with drops.
pub fn parse_udp_sockets(text: &[u8]) -> Vec<UdpSocket> {
    lines(text).skip(1).filter_map(parse_line).collect()
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ref pointer drops`
fn parse_line(line: &[u8]) -> Option<UdpSocket> {
    let cells: Vec<&[u8]> = words(line).collect();
    let drops = parse_u64(cells.get(12)?)?;
    (drops > 0).then_some(())?;
    let rx_queue = cells.get(4)?.split(|&byte| byte == b':').nth(1)?;
    Some(UdpSocket {
        local_address: parse_address(cells.get(1)?)?,
        inode: parse_u64(cells.get(9)?)?,
        queued_bytes: parse_hexadecimal(rx_queue)?,
        drops: Counter(drops),
        owner: None,
    })
}

/// `0100007F:1F90`: words of 32 bits in the byte order of this machine, then the port.
pub fn parse_address(text: &[u8]) -> Option<SocketAddr> {
    let mut parts = text.split(|&byte| byte == b':');
    let (address, port) = (parts.next()?, parts.next()?);
    let mut octets = Vec::with_capacity(16);
    for word in address.chunks(8) {
        octets.extend(u32::try_from(parse_hexadecimal(word)?).ok()?.to_ne_bytes());
    }
    let address = match octets.len() {
        4 => IpAddr::V4(Ipv4Addr::from(*octets.first_chunk::<4>()?)),
        16 => IpAddr::V6(Ipv6Addr::from(*octets.first_chunk::<16>()?)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::try_from(parse_hexadecimal(port)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    const UDP: &[u8] = b"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
        \x20 100: 0100007F:1F90 00000000:0000 07 00000000:00034500 00:00000000 00000000     0        0 4711 2 0000000000000000 250\n\
        \x20 101: 00000000:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";

    #[test]
    fn only_sockets_with_drops_are_parsed() {
        let sockets = parse_udp_sockets(UDP);
        let expected = UdpSocket {
            local_address: "127.0.0.1:8080".parse().unwrap(),
            inode: 4711,
            queued_bytes: 0x34500,
            drops: Counter(250),
            owner: None,
        };
        if cfg!(target_endian = "little") {
            assert_eq!(sockets, [expected]);
        }
    }

    #[test]
    fn the_files_are_read_only_while_overflows_grow() {
        let tree = ProcTree::with([("proc/net/udp", UDP)]);
        let mut reader = UdpSocketReader::for_this_namespace();
        let counts = |errors| Ok(Udp { receive_buffer_errors: Some(Counter(errors)), ..Udp::default() });
        let mut inodes = |errors| {
            let read = reader.sample(&tree.root(), &counts(errors), &Err(Absent::NoSuchFile));
            read.map(|sockets| sockets.iter().map(|socket| socket.inode).collect::<Vec<_>>())
        };
        assert_eq!(inodes(5), Err(Absent::NotRead), "the first reading of the counters");
        assert_eq!(inodes(5), Err(Absent::NotRead));
        assert_eq!(inodes(9), Ok(vec![4711]));
        assert_eq!(inodes(9), Err(Absent::NotRead));
    }
}
