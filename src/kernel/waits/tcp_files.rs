//! Reads /proc/PID/net/tcp and tcp6: the sockets of that process's network namespace.

use rustc_hash::FxHashSet;

use super::remote_waits::has_few_sockets;
use crate::kernel::fields::{lines, parse_hexadecimal, parse_u32, words};
use crate::kernel::root::Root;
use crate::sample::waits::ServerSocket;
use crate::sample::{Absent, Reading};

const TCP_ESTABLISHED: u32 = 0x01;
const TCP_LISTEN: u32 = 0x0a;

/// The ports at which TCP sockets listen in the network namespace of a process; `Absent::NotRead` if it has many sockets.
pub fn read_listening_ports(root: &Root, pid: u32) -> Reading<FxHashSet<u16>> {
    if !has_few_sockets(root, &format!("proc/{pid}/net")) {
        return Err(Absent::NotRead);
    }
    let mut listening = FxHashSet::default();
    parse_tcp_file(&root.read_once(format!("proc/{pid}/net/tcp"))?, &mut listening);
    match root.read_once(format!("proc/{pid}/net/tcp6")) {
        Ok(text) => drop(parse_tcp_file(&text, &mut listening)),
        // A kernel without IPv6.
        Err(Absent::NoSuchFile) => {}
        Err(why) => return Err(why),
    }
    Ok(listening)
}

/// The connections with unread data and the listening sockets with an accept queue, by inode; adds the ports at which sockets listen.
///
/// ```text
///   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
///    0: 0100007F:1B59 0100007F:DD16 01 00000000:0000002D 00:00000000 00000000     0        0 181234 1 …
/// ```
/// rx_queue is the number of unread bytes, of a listening socket the length of its accept queue.
pub fn parse_tcp_file(text: &[u8], listening: &mut FxHashSet<u16>) -> Vec<(u32, ServerSocket)> {
    let mut found = Vec::new();
    for line in lines(text).skip(1) {
        let Some((port, state, queue, inode)) = parse_socket(line) else { continue };
        let socket = ServerSocket { local_port: Some(port), ..ServerSocket::default() };
        if state == TCP_LISTEN {
            listening.insert(port);
        }
        match state {
            _ if queue == 0 => {}
            TCP_LISTEN => found.push((inode, ServerSocket { accept_queue: queue, ..socket })),
            TCP_ESTABLISHED => found.push((inode, ServerSocket { unread_bytes: queue, ..socket })),
            _ => {}
        }
    }
    found
}

/// Local port, state, rx_queue and inode.
fn parse_socket(line: &[u8]) -> Option<(u16, u32, u32, u32)> {
    let mut words = words(line);
    let port = u16::try_from(after_colon(words.nth(1)?)?).ok()?;
    let state = parse_u32_hexadecimal(words.nth(1)?)?;
    let queue = after_colon(words.next()?)?;
    Some((port, state, queue, parse_u32(words.nth(4)?)?))
}

/// The second number of `0100007F:1B59`.
fn after_colon(word: &[u8]) -> Option<u32> {
    parse_u32_hexadecimal(word.rsplit(|&byte| byte == b':').next()?)
}

fn parse_u32_hexadecimal(word: &[u8]) -> Option<u32> {
    u32::try_from(parse_hexadecimal(word)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_namespace_is_parsed() {
        let text = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 00000000:1B59 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 101 1 0 100 0 0 10 0\n   \
            1: 0100007F:1B59 0100007F:DD16 01 00000000:0000002D 00:00000000 00000000     0        0 102 1 0 20 4 29 10 -1\n   \
            2: 0100007F:DD16 0100007F:1B59 01 0000002D:00000000 00:00000000 00000000     0        0 103 1 0 20 4 30 10 -1\n   \
            3: 0100007F:1B59 0100007F:DD17 06 00000000:00000001 03:00000000 00000000     0        0 0 3 0\n   cut: 0100";
        let mut listening = FxHashSet::default();
        let found = parse_tcp_file(text, &mut listening);
        let socket = ServerSocket { local_port: Some(7001), ..ServerSocket::default() };
        let queue = ServerSocket { accept_queue: 3, ..socket };
        let unread = ServerSocket { unread_bytes: 45, ..socket };
        assert_eq!(found, [(101, queue), (102, unread)]);
        assert_eq!(listening, FxHashSet::from_iter([7001]));
    }
}
