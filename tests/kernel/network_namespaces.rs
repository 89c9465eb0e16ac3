//! The network namespace of another process, from files below its /proc/PID/net.

use stalltop::kernel::Sampler;
use stalltop::sample::network::namespaces::NetworkNamespace;
use stalltop::units::Counter;

use crate::proc_tree::{ProcTree, ThreadFiles};

const PID: u32 = 700;

/// A line of /proc/PID/net/udp6, of a socket at [::]:5683.
fn socket_line(inode: u64, drops: u64) -> String {
    let any = "0".repeat(32);
    format!(
        "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when \
         retrnsmt   uid  timeout inode ref pointer drops\n 10: {any}:1633 {any}:0000 07 00000000:00034500 00:00000000 00000000 \
         0 0 {inode} 2 0000000000000000 {drops}\n"
    )
}

/// Datagrams that a socket of IPv6 drops are in snmp6 and udp6 alone.
#[test]
fn drops_of_udp_over_ipv6_are_counted_and_their_socket_is_found() {
    let tree = ProcTree::new();
    tree.process(PID, "worker", 2457, 40_000_000, &[ThreadFiles::sleeping(PID)]);
    tree.link("net:[4026531840]", "proc/self/ns/net");
    tree.link("net:[4026532000]", format!("proc/{PID}/ns/net"));
    tree.write(
        format!("proc/{PID}/net/snmp"),
        "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 10 0 0 10 0 0\n",
    );
    let at = |drops: u64| {
        let counters = format!("Udp6InDatagrams 100\nUdp6InErrors {drops}\nUdp6OutDatagrams 90\nUdp6RcvbufErrors {drops}\n");
        tree.write(format!("proc/{PID}/net/snmp6"), &counters);
        tree.write(format!("proc/{PID}/net/udp6"), socket_line(4711, drops));
    };
    let mut sampler = Sampler::new(tree.root()).unwrap();
    let mut second = 1000;
    let mut sample = || -> NetworkNamespace {
        second += 1;
        sampler.set_fixed_time(second * 1_000_000_000);
        let namespaces = sampler.sample().network_namespaces.unwrap();
        assert_eq!(namespaces.count, 1);
        namespaces.rows.first().unwrap().clone()
    };
    at(50);
    assert_eq!(sample().top_udp_socket, None, "the first reading of the counters");
    at(350);
    let namespace = sample();
    assert_eq!(namespace.udp.unwrap().receive_buffer_errors, Some(Counter(0)));
    assert_eq!(namespace.udp6.unwrap().receive_buffer_errors, Some(Counter(350)));
    let socket = namespace.top_udp_socket.expect("a socket drops datagrams");
    assert_eq!((socket.inode, socket.drops, socket.local_address.port()), (4711, Counter(350), 5683));
    assert_eq!(sample().top_udp_socket, None, "the counters do not grow");
}
