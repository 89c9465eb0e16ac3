//! The network: a virtual interface that is full at a tenth of its nominal speed, and an accept queue that overflows.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use serde_json::Value;

use crate::attempt::{Attempt, Range, Window};
use crate::long;
use crate::proc::{RX_BYTES, TX_BYTES, nic_bytes, processes, read};
use crate::scenario::{Lab, Scenario};

const QDISC: &str = "$ tc -s -j qdisc show dev labA";
const SOCKETS: &str = "$ ss -tinH dst 10.99.0.2";

/// The least of ss's smoothed round trips of the connections that have sent much, and the least minimum, in milliseconds.
fn round_trips(text: &str) -> (f64, f64) {
    let mut least = (f64::INFINITY, f64::INFINITY);
    for line in text.lines() {
        let number = |word: &str| {
            let rest = line.split_whitespace().find_map(|field| field.strip_prefix(word))?;
            rest.split('/').next()?.parse::<f64>().ok()
        };
        if number("bytes_sent:").is_some_and(|bytes| bytes > 1e6) {
            least.0 = least.0.min(number("rtt:").unwrap_or(f64::INFINITY));
            least.1 = least.1.min(number("minrtt:").unwrap_or(f64::INFINITY));
        }
    }
    least
}

/// Starts 10 and waits until its flows have had a second to fill the queue. The rate is in bytes per second.
pub fn start_flows(lab: &Lab, environment: &[(&str, &str)], rate: f64) -> Scenario {
    let mut scenario = lab.start("10-nic-saturation", 120, environment);
    scenario.until("sends", |_| {
        // The client may be in a network namespace of its own.
        let sent =
            processes("iperf3").into_iter().map(|pid| nic_bytes(&read(&format!("/proc/{pid}/net/dev")), "labA", TX_BYTES));
        sent.fold(0.0, f64::max) >= rate
    });
    scenario
}

/// A counter of labA's queueing discipline in each second, by tc.
fn qdisc(window: &Window, counter: &str) -> Range {
    window.rate_each(|snapshot| {
        let list: Value = serde_json::from_str(snapshot.text(QDISC)).unwrap_or_default();
        list[0][counter].as_f64().unwrap_or(f64::NAN)
    })
}

/// 10: iperf3 over a veth pair that tbf holds to `megabits`, and that claims 10000 Mbit/s full. sar: tx 11796 kB/s and rx
/// 116 of 100 Mbit/s one way, 11776 and 11780 both ways; drops in the interface 0; tc: backlog, drops, overlimits.
fn full_interface(name: &str, megabits: f64, both_ways: bool, environment: &[(&str, &str)]) {
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc", "ss"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let limit = megabits * 1e6 / 8.0;
    let _scenario = start_flows(&lab, environment, limit);
    let files = vec![QDISC.to_owned(), SOCKETS.to_owned()];
    Attempt { files, ..Attempt::new(name, state.path()) }.check(|window, said| {
        let bytes = |column: usize| window.rate(|snapshot| nic_bytes(snapshot.text("/proc/net/dev"), "labA", column));
        let (sent, received) = (bytes(TX_BYTES), bytes(RX_BYTES));
        let each = |column: usize| window.rate_each(|snapshot| nic_bytes(snapshot.text("/proc/net/dev"), "labA", column));
        let (sent_each, received_each) = (each(TX_BYTES), each(RX_BYTES));
        let (dropped, overlimits) = (qdisc(window, "drops"), qdisc(window, "overlimits"));
        let again = window.each(|span| span.tcp("RetransSegs"));
        let share = window.each(|span| span.tcp("RetransSegs") / span.tcp("OutSegs").max(1.0));
        window.known("of the limit sent", sent / limit, 0.93, 1.02);
        if both_ways {
            window.known("of the limit received", received / limit, 0.93, 1.02);
        }

        let full = said.must("nic-saturated", "labA", "warning");
        said.says(&full, &["labA", "tx", "tbf"]);
        // A second at a limit that tbf holds to within a burst of 32 kB.
        said.evidence_in(&full, "tx_bytes_per_second", sent_each.within(0.03));
        said.evidence_in(&full, "rx_bytes_per_second", received_each.within(0.1).give_or_take(5e3));
        // Senders probe in bursts, and pause then: a burst may be in two seconds of the lab.
        said.evidence(&full, "qdisc_overlimits_per_second", overlimits.least * 0.4, overlimits.most * 2.0);
        said.evidence(&full, "qdisc_dropped_per_second", dropped.least * 0.1 - 50.0, dropped.most * 2.0 + 200.0);
        if share.least >= 0.015 && again.least >= 20.0 {
            let lost = said.must("tcp-retransmits", "host", "warning");
            said.value(&lost, 0.01, share.most * 2.0);
            said.says(&lost, &["queueing discipline of labA", "not the network"]);
        } else if share.most < 0.007 || again.most < 7.0 {
            said.must_not("tcp-retransmits");
        }
        let (before, after) = (round_trips(window.from.text(SOCKETS)), round_trips(window.to.text(SOCKETS)));
        // Twice the threshold of the rule: the rule uses other times, and all connections together.
        if before.0.min(after.0) >= 4.0 && before.0.min(after.0) < f64::INFINITY && before.0.min(after.0) >= after.1 * 6.0 {
            let late = said.must("network-latency", "10.99.0.2", "warning");
            said.says(&late, &["10.99.0.2"]);
            // A paced sender lets the queue run empty now and then: the last reading may find it empty.
            if !environment.contains(&("CC", "bbr")) {
                said.says(&late, &["labA", "tbf"]);
            }
        } else if before.0.max(after.0) == f64::INFINITY {
            said.must_not("network-latency");
        }
        for kind in ["listen-overflow", "cpu-saturated", "idle-but-blocked"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["nic-saturated", "tcp-retransmits", "network-latency"]);
    });
}

#[test]
fn an_interface_full_in_one_direction() {
    if !long() {
        return;
    }
    full_interface("10-half", 100.0, false, &[]);
}

#[test]
fn an_interface_full_in_both_directions() {
    if !long() {
        return;
    }
    full_interface("10-full", 100.0, true, &[("MODE", "full")]);
}

#[test]
fn an_interface_full_of_retransmits() {
    full_interface("10-bbr", 100.0, false, &[("CC", "bbr")]);
}

#[test]
fn an_interface_full_of_datagrams() {
    if !long() {
        return;
    }
    full_interface("10-udp", 100.0, false, &[("UDP", "60M")]);
}

#[test]
fn a_slower_interface_with_one_flow() {
    if long() {
        full_interface("10-slow", 30.0, false, &[("RATE", "30mbit"), ("FLOWS", "1")]);
        full_interface("10-fast", 400.0, false, &[("RATE", "400mbit"), ("LIMIT", "200000")]);
    }
}

/// With both ends in other namespaces this one has no figures of it: those of the namespaces are read.
#[test]
fn an_interface_of_another_namespace() {
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc", "ss"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _scenario = start_flows(&lab, &[("SIDE", "netns")], 1.25e7);
    Attempt::new("10-netns", state.path()).check(|_, said| {
        let full = said.must("nic-saturated", "labA", "warning");
        said.says(&full, &["labA in the network namespace of iperf3", "tx", "tbf"]);
        for kind in ["network-latency", "listen-overflow", "cpu-saturated"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["nic-saturated", "tcp-retransmits"]);
    });
}

/// The same link with a fifth of what its queueing discipline lets pass.
#[test]
fn an_interface_of_another_namespace_below_its_limit() {
    if !long() {
        return;
    }
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc", "ss"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _scenario = start_flows(&lab, &[("SIDE", "netns"), ("UDP", "5M")], 1e6);
    Attempt::new("10-netns-below", state.path()).check(|_, said| {
        for kind in ["nic-saturated", "tcp-retransmits", "network-latency", "udp-overflow"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&[]);
    });
}

/// A port of this machine that is free. Below those of clients, so that the end with it is taken for the server.
fn free_port(is_free: impl Fn(u16) -> bool) -> String {
    (18_000..32_768).find(|&port| is_free(port)).expect("a free port").to_string()
}

fn free_tcp_port() -> String {
    free_port(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok())
}

/// 11: a server with a backlog of 4 that accepts 20 per second, and 40 clients. nstat: 35 ListenOverflows per second; ss: queue
/// 5 of 4; CPUs 87 to 97 % idle.
fn overflow(name: &str) {
    let Some(lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let port = free_tcp_port();
    let before = crate::proc::Snapshot::read(&[]).protocol("/proc/net/netstat", "TcpExt", "ListenOverflows");
    let mut scenario = lab.start("11-listen-overflow", 120, &[("PORT", &port)]);
    scenario.until("overflows", |_| {
        crate::proc::Snapshot::read(&[]).protocol("/proc/net/netstat", "TcpExt", "ListenOverflows") >= before + 20.0
    });
    Attempt::new(name, state.path()).check(|window, said| {
        let lost = window.tcp_ext("ListenDrops");
        window.known("ListenDrops/s", lost, 10.0, 80.0);
        window.known("busy", window.ticks("cpu").busy(), 0.0, 0.2);
        let overflows = said.must("listen-overflow", &format!("127.0.0.1:{port}"), "warning");
        // Clients whose requests were dropped together retry together, with few requests in between.
        let most = window.rate_each(|snapshot| snapshot.protocol("/proc/net/netstat", "TcpExt", "ListenDrops")).most;
        said.value(&overflows, 0.5, most * 2.0 + 1.0);
        said.evidence(&overflows, "queue_limit", 4.0, 4.0);
        said.evidence(&overflows, "queue", 1.0, 5.0);
        said.word(&overflows, "owner", "lq");
        said.says(&overflows, &[&port, "lq", "does not accept fast enough"]);
        for kind in ["tcp-retransmits", "nic-saturated", "cpu-saturated", "idle-but-blocked", "network-latency"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["listen-overflow"]);
    });
}

#[test]
fn an_accept_queue_that_overflows() {
    overflow("11");
}

/// 1,500 SYNs per second from forged addresses to a server that accepts at once. nstat: SyncookiesSent 1,500 per second (with
/// net.ipv4.tcp_syncookies 0 TCPReqQFullDrop), ListenOverflows 0; ss: 129 in SYN_RECV, backlog 128.
fn syn_flood(name: &str, addresses: u32, says: &str) {
    let Some(lab) = Lab::open(&["ip", "python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/syn-flood.sh");
    let full = |snapshot: &crate::proc::Snapshot| {
        let count = |name: &str| snapshot.protocol("/proc/net/netstat", "TcpExt", name);
        count("SyncookiesSent") + count("TCPReqQFullDrop")
    };
    let before = full(&crate::proc::Snapshot::read(&[]));
    let port = free_tcp_port();
    let mut scenario = lab.start_script(&script, 120, &[("ADDRESSES", &addresses.to_string()), ("PORT", &port)]);
    scenario.until("fills the queue", |_| full(&crate::proc::Snapshot::read(&[])) >= before + 2000.0);
    Attempt::new(name, state.path()).check(|window, said| {
        let truth = window.tcp_ext("SyncookiesSent") + window.tcp_ext("TCPReqQFullDrop");
        window.known("SYNs/s at a full queue", truth, 1000.0, 2000.0);
        window.known("ListenOverflows/s", window.tcp_ext("ListenOverflows"), 0.0, 0.0);
        let server = format!("10.99.0.1:{port}");
        let flood = said.must("syn-queue-overflow", &server, "warning");
        said.value(&flood, truth * 0.5, truth * 1.5);
        said.word(&flood, "owner", "python3");
        said.says(&flood, &[&format!("{server} (python3"), "SYN flood", says, "not a slow server"]);
        said.must_not("listen-overflow");
        said.must_not("tcp-retransmits");
        said.nothing_wrong_but(&["syn-queue-overflow"]);
    });
}

#[test]
fn a_syn_flood_from_many_addresses() {
    syn_flood("syn-flood", 5000, "addresses");
}

#[test]
fn a_syn_flood_from_one_address() {
    if long() {
        syn_flood("syn-flood-one", 1, "from 198.18.0.1");
    }
}

/// A load of loads/ in Python, which ends when it is dropped.
pub struct PythonLoad(std::process::Child);

impl PythonLoad {
    pub fn start(lab: &Lab, script: &str, arguments: &[&str]) -> PythonLoad {
        let child = std::process::Command::new("python3").arg(lab.source(script)).args(arguments).spawn();
        PythonLoad(child.expect("python3"))
    }
}

impl Drop for PythonLoad {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Eight threads that send to a process that reads `rate` bytes per second of each. ss -tin: timer persist, rwnd_limited 99 %.
fn blocked_senders(name: &str, rate: &str, verify: impl Fn(&mut crate::check_result::CheckResult, &str)) {
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let port = free_tcp_port();
    let _load = PythonLoad::start(&lab, "blocked-sends.py", &["60", "8", "127.0.0.1", &port, rate]);
    // Its windows are closed for so long; 5 s are the threshold.
    std::thread::sleep(std::time::Duration::from_secs(5));
    Attempt::new(name, state.path()).check(|_, said| verify(said, &port));
}

#[test]
fn senders_to_a_receiver_that_does_not_read() {
    blocked_senders("send-blocked", "0", |said, port| {
        let blocked = said.must("send-blocked", "127.0.0.1", "warning");
        let receiver = format!("127.0.0.1:{port}");
        said.says(&blocked, &[&receiver, "8 threads of sender", "sink (", "does not read: its window is closed"]);
        said.word(&blocked, "limited_by", "receiver");
        said.nothing_wrong_but(&["send-blocked"]);
    });
}

#[test]
fn senders_to_a_receiver_that_reads_fast() {
    if !crate::long() {
        return;
    }
    blocked_senders("send-fast", "2e8", |said, _| {
        said.must_not("connect-blocked");
        said.at_most_a_note("send-blocked", "127.0.0.1");
    });
}

/// iperf3 over a router that drops (loads/lossy-router.sh): nstat shows TcpRetransSegs, and no queueing discipline of the sender is
/// the cause.
fn lossy_path(name: &str, environment: &[(&str, &str)], words: &[&str]) {
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let script = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/lossy-router.sh");
    let port = free_tcp_port();
    let _scenario = lab.start_script(&script, 60, &[environment, &[("PORT", &port)]].concat());
    std::thread::sleep(std::time::Duration::from_secs(4));
    Attempt::new(name, state.path()).check(|_, said| {
        let retransmits = said.must("tcp-retransmits", "", "warning");
        said.says(&retransmits, words);
        said.must_not("nic-saturated");
    });
}

#[test]
fn retransmits_name_the_remote_host_and_the_sender() {
    lossy_path("lossy-path", &[], &["; most from iperf3 (", ") to 10.178.0.2: "]);
    if long() {
        lossy_path("lossy-path6", &[("FAMILY", "6")], &["; most from iperf3 (", ") to fd17:8::2: "]);
    }
}

#[test]
fn retransmits_of_another_network_namespace_name_the_remote_host() {
    if !long() {
        return;
    }
    let sender = ("SENDER", "namespace");
    let place = "in the network namespace of iperf3 (";
    if long() {
        lossy_path("lossy-namespace", &[sender], &[place, "; most ", " to 10.177.0.1: "]);
    }
    lossy_path("lossy-namespace6", &[sender, ("FAMILY", "6")], &[place, "; most ", " to fd17:7::1: "]);
}

#[test]
fn a_path_that_does_not_drop() {
    if !long() {
        return;
    }
    let Some(lab) = Lab::open(&["iperf3", "ip", "tc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let script = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/lossy-router.sh");
    let port = free_tcp_port();
    let _scenario = lab.start_script(&script, 60, &[("QUEUE", "10mb"), ("PORT", &port)]);
    std::thread::sleep(std::time::Duration::from_secs(4));
    Attempt::new("no-loss", state.path()).check(|_, said| said.must_not("tcp-retransmits"));
}

/// Threads that send to a Unix socket. ss -x: Recv-Q of the receiver's sockets; /proc/PID/task/TID/wchan: sock_alloc_send_pskb,
/// unix_wait_for_peer.
fn unix_senders(name: &str, kind: &str, reads: &str, verify: impl Fn(&mut crate::check_result::CheckResult)) {
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = PythonLoad::start(&lab, "unix-sends.py", &["60", "6", kind, reads]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    // Since when a socket is full is known from the first sample on; 1.5 s are the threshold.
    Attempt { seconds: 5, ..Attempt::new(name, state.path()) }.check(|_, said| verify(said));
}

#[test]
fn senders_on_unix_sockets_whose_receiver_does_not_read() {
    for (kind, sockets) in
        [("stream", "(6 sockets): the receiver, sink ("), ("datagram", "(6 datagram sockets): the receiver, sink (")]
    {
        if kind == "datagram" && !long() {
            continue;
        }
        unix_senders(&format!("unix-{kind}"), kind, "0", |said| {
            let blocked = said.must("send-blocked", "sink.sock", "warning");
            said.says(&blocked, &["6 threads of sender (", "blocked in send for", sockets, "does not read"]);
            said.nothing_wrong_but(&["send-blocked"]);
        });
    }
}

#[test]
fn senders_on_unix_sockets_whose_receiver_reads() {
    if !crate::long() {
        return;
    }
    for kind in if long() { &["stream", "datagram"][..] } else { &["datagram"] } {
        unix_senders(&format!("unix-{kind}-read"), kind, "2", |said| said.must_not("send-blocked"));
    }
}

/// 40 threads that connect to a Unix socket with a backlog of 5 (6 connections wait, one is served), also since long before the first
/// sample. ss -xl: Recv-Q 6, Send-Q 5; /proc/PID/task/TID/wchan: 33 in unix_wait_for_peer.
#[test]
fn threads_in_connect_to_a_unix_socket_whose_server_does_not_accept() {
    for (name, request) in [("slow", "0.3"), ("stuck", "0")] {
        if name == "slow" && !long() {
            continue;
        }
        let Some(lab) = Lab::open(&["python3"]) else { return };
        let state = tempfile::tempdir().expect("a folder");
        let _load = PythonLoad::start(&lab, "unix-connects.py", &["60", "40", request]);
        std::thread::sleep(std::time::Duration::from_secs(2));
        Attempt { seconds: 6, ..Attempt::new(&format!("unix-connects-{name}"), state.path()) }.check(|_, said| {
            let full = said.must("listen-overflow", "app.sock", "warning");
            said.says(
                &full,
                &[
                    "app (",
                    "app.sock: 3",
                    " threads of client (",
                    "blocked in connect for up to",
                    "(accept queue full: 6 waiting, backlog 5)",
                ],
            );
            said.nothing_wrong_but(&["listen-overflow"]);
        });
    }
}

#[test]
fn threads_that_connect_to_a_unix_socket_whose_server_accepts() {
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = PythonLoad::start(&lab, "unix-connects.py", &["60", "40", "0.001"]);
    Attempt { seconds: 5, ..Attempt::new("unix-connects-served", state.path()) }
        .check(|_, said| said.must_not("listen-overflow"));
}

/// An event loop with four connections whose other end does not read. ss -tno: timer persist.
fn polling_sender(name: &str, role: &str, call: &str, verify: impl Fn(&mut crate::check_result::CheckResult)) {
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = PythonLoad::start(&lab, "polling-sender.py", &["60", "4", "127.0.0.1", &free_tcp_port(), role, call]);
    std::thread::sleep(std::time::Duration::from_secs(8));
    Attempt::new(name, state.path()).check(|_, said| verify(said));
}

#[test]
fn an_event_loop_whose_receiver_does_not_read() {
    if !long() {
        return;
    }
    for call in ["epoll", "poll"] {
        if call == "poll" && !long() {
            continue;
        }
        polling_sender(&format!("polling-{call}"), "client", call, |said| {
            let blocked = said.must("send-blocked", "127.0.0.1", "warning");
            said.says(
                &blocked,
                &["1 thread of shipper (", "blocked in poll for", "(4 connections, ", "does not read: its window is closed"],
            );
            said.nothing_wrong_but(&["send-blocked"]);
        });
    }
}

#[test]
fn a_server_in_epoll_and_idle_connections() {
    if !crate::long() {
        return;
    }
    if long() {
        polling_sender("polling-server", "server", "epoll", |said| said.must_not("send-blocked"));
    }
    polling_sender("polling-idle", "idle", "epoll", |said| said.nothing_wrong_but(&[]));
}

/// A sender of 5,000 datagrams per second, and a process that reads `read_rate` of them. nstat: UdpRcvbufErrors, Udp6RcvbufErrors.
fn datagrams(name: &str, address: &str, read_rate: &str, verify: impl Fn(&mut crate::check_result::CheckResult, &str)) {
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let port = free_port(|port| UdpSocket::bind((address, port)).is_ok());
    let _load = PythonLoad::start(&lab, "udp-overflow.py", &["60", address, &port, "5000", read_rate]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    Attempt::new(name, state.path()).check(|_, said| verify(said, &port));
}

#[test]
fn a_udp_socket_that_is_not_read_fast_enough() {
    datagrams("udp-overflow", "127.0.0.1", "500", |said, port| {
        let overflow = said.must("udp-overflow", "host", "warning");
        let words = format!("does not read port {port} fast enough (127.0.0.1:{port})");
        said.says(&overflow, &["collector (", &words]);
        said.nothing_wrong_but(&["udp-overflow"]);
    });
}

#[test]
fn a_udp_socket_of_ipv6_that_is_not_read_fast_enough() {
    if !long() {
        return;
    }
    datagrams("udp6-overflow", "::1", "500", |said, port| {
        let overflow = said.must("udp-overflow", "host", "warning");
        let words = format!("does not read port {port} fast enough ([::1]:{port})");
        said.says(&overflow, &["collector (", &words]);
        said.nothing_wrong_but(&["udp-overflow"]);
    });
}

#[test]
fn a_udp_socket_that_is_read_fast_enough() {
    if !long() {
        return;
    }
    datagrams("udp-read", "127.0.0.1", "20000", |said, _| {
        said.must_not("udp-overflow");
        said.nothing_wrong_but(&[]);
    });
}

/// loads/slow-answers.py. ss -tino: lastsnd and lastrcv of the connections of app grow; those of its twins are subscribers, three long
/// polls and an idle pool, in which no thread, or too few, waits for an answer.
#[test]
fn threads_that_wait_for_an_answer_of_a_server() {
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let port = free_tcp_port();
    let _load = PythonLoad::start(&lab, "slow-answers.py", &["120", "8", &port, "1"]);
    std::thread::sleep(std::time::Duration::from_secs(5));
    Attempt { seconds: 5, ..Attempt::new("answer-blocked", state.path()) }.check(|_, said| {
        let server = format!("127.0.0.1:{port}");
        let blocked = said.must("answer-blocked", &server, "note");
        let waiters = format!("): 8 threads wait for an answer of {server}, database (");
        said.says(&blocked, &["app (", &waiters, ") on this host, the longest for "]);
        let sentence = blocked["sentence"].as_str().unwrap_or_default();
        said.expect(!sentence.contains("twins"), || sentence.to_owned());
        said.nothing_wrong_but(&[]);
    });
}
