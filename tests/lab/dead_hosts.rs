//! Hosts that do not answer: connection requests and name lookups to addresses behind a veth pair that answers nothing.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::network::PythonLoad;
use crate::scenario::Lab;

/// A network to which this host has a route, and in which no address answers, while this lives.
struct DeadNetwork(&'static str);

impl DeadNetwork {
    /// `name` is that of its interface.
    fn create(name: &'static str, network: &str) -> DeadNetwork {
        let ip = |words: String| {
            let done = Command::new("ip").args(words.split(' ')).status();
            assert!(done.is_ok_and(|status| status.success()), "ip {words}");
        };
        ip(format!("link add {name} type veth peer name {name}Peer"));
        // Made before the other commands, so that it goes if one of them fails.
        let created = DeadNetwork(name);
        ip(format!("link set {name}Peer up"));
        ip(format!("link set {name} arp off up"));
        ip(format!("route add {network} dev {name}"));
        created
    }
}

impl Drop for DeadNetwork {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", self.0]).status();
    }
}

/// loads/name-lookups.py. ss -uanp: 20 sockets to port 53 for seconds; strace -f: poll, then again after 5 s.
#[test]
fn name_lookups_without_an_answer() {
    let Some(lab) = Lab::open(&["python3", "ip"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _network = DeadNetwork::create("labDns", "203.0.113.0/24");
    let _load = PythonLoad::start(&lab, "name-lookups.py", &["60", "20", "203.0.113.53"]);
    sleep(Duration::from_secs(4));
    Attempt::new("lookup-blocked", state.path()).check(|_, said| {
        let blocked = said.must("lookup-blocked", "203.0.113.53", "warning");
        said.says(&blocked, &["name server 203.0.113.53:53 does not answer", "20 threads of python3", "in name lookups"]);
        said.nothing_wrong_but(&["lookup-blocked"]);
    });
}

/// The innocent twin: each lookup is answered, and one socket is kept open without a lookup.
#[test]
fn name_lookups_that_are_answered() {
    if !crate::long() {
        return;
    }
    let Some(lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = PythonLoad::start(&lab, "name-lookups.py", &["60", "20", "127.0.0.99", "answer"]);
    sleep(Duration::from_secs(4));
    Attempt::new("lookup-answered", state.path()).check(|_, said| {
        said.must_not("lookup-blocked");
        said.nothing_wrong_but(&[]);
    });
}

/// Twenty threads in connect to an address that a route of this host drops. ss: SYN-SENT, requests sent again.
#[test]
fn connects_to_a_host_that_does_not_answer() {
    let Some(lab) = Lab::open(&["python3", "ip"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _network = DeadNetwork::create("labDead", "198.51.100.0/24");
    let load = PythonLoad::start(&lab, "dead-host.py", &["60", "20", "198.51.100.77", "9999"]);
    sleep(Duration::from_secs(6));
    Attempt::new("connect-blocked", state.path()).check(|_, said| {
        let blocked = said.must("connect-blocked", "198.51.100.77", "warning");
        said.says(&blocked, &["198.51.100.77:9999 does not answer", "20 threads of python3", "in connect"]);
        said.must_not("send-blocked");
        // All twenty send their request again at one moment: for that second many segments are retransmitted.
        said.only_follows("tcp-retransmits", "connect-blocked");
        said.nothing_wrong_but(&["connect-blocked", "tcp-retransmits"]);
    });
    drop(load);
    if !crate::long() {
        return;
    }
    // Each socket waits for a second at most, then the thread opens the next: at a scan one or two are between them.
    let _load = PythonLoad::start(&lab, "dead-host.py", &["60", "20", "198.51.100.77", "9999", "1"]);
    sleep(Duration::from_secs(6));
    Attempt::new("connect-timeout", state.path()).check(|_, said| {
        let blocked = said.must("connect-blocked", "198.51.100.77", "warning");
        said.says(&blocked, &["198.51.100.77:9999 does not answer", " threads of python3", "in poll"]);
        said.evidence(&blocked, "threads", 18.0, 20.0);
    });
}
