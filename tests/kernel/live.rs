//! The running machine, compared with the crate `procfs`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use procfs::prelude::*;
use stalltop::interval::remote_waits::remote_queues;
use stalltop::interval::wait_counts::WaitCounts;
use stalltop::kernel::Sampler;
use stalltop::kernel::cpu::CpuReader;
use stalltop::kernel::disk::DiskReader;
use stalltop::kernel::host;
use stalltop::kernel::memory::MemoryReader;
use stalltop::kernel::network::NetworkReader;
use stalltop::kernel::pressure::PressureReader;
use stalltop::kernel::root::Root;
use stalltop::kernel::users::UserNames;
use stalltop::sample::Absent;
use stalltop::units::Counter;

/// A network namespace may have none that is up.
fn lacks_loopback() -> bool {
    let lacks =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| std::net::TcpStream::connect(listener.local_addr()?)).is_err();
    if lacks {
        println!("skipped: no loopback interface is up here");
    }
    lacks
}

/// A counter that was read between two readings of the oracle.
fn between(older: u64, ours: Option<Counter>, newer: u64) {
    let ours = ours.unwrap().0;
    assert!((older..=newer).contains(&ours), "{older} <= {ours} <= {newer}");
}

#[test]
fn cpu_as_procfs_reads_it() {
    let root = Root::host();
    let mut reader = CpuReader::default();
    let older = procfs::KernelStats::current().unwrap();
    let ours = reader.sample(&root).unwrap();
    let again = reader.read_total(&root).unwrap();
    let newer = procfs::KernelStats::current().unwrap();
    between(older.ctxt, ours.context_switches, newer.ctxt);
    between(older.processes, ours.forks, newer.processes);
    between(older.total.user, Some(ours.total.user_ticks), newer.total.user);
    between(older.total.system, Some(ours.total.system_ticks), newer.total.system);
    between(older.total.softirq.unwrap(), Some(ours.total.softirq_ticks), newer.total.softirq.unwrap());
    between(older.total.steal.unwrap(), ours.total.steal_ticks, newer.total.steal.unwrap());
    assert_eq!(ours.cpus.len(), older.cpu_time.len());
    assert!(again.user_ticks >= ours.total.user_ticks);
    let load = (reader.load(&root).unwrap(), procfs::LoadAverage::current().unwrap());
    assert!((load.0.fifteen - f64::from(load.1.fifteen)).abs() < 0.1, "{load:?}");
    assert_eq!(host::read(&root).boot_time_s, Some(older.btime));
}

#[test]
fn memory_as_procfs_reads_it() {
    let ours = MemoryReader::default().sample(&Root::host()).unwrap();
    let theirs = procfs::Meminfo::current().unwrap();
    assert_eq!(ours.total_kb, Some(theirs.mem_total / 1024));
    assert_eq!(ours.swap_total_kb, Some(theirs.swap_total / 1024));
    let near = |one: Option<u64>, bytes: u64| one.unwrap().abs_diff(bytes / 1024) <= theirs.mem_total / 1024 / 20;
    assert!(near(ours.free_kb, theirs.mem_free) && near(ours.cached_kb, theirs.cached));
    let vmstat = procfs::vmstat().unwrap();
    assert!(ours.faults.unwrap().0 <= u64::try_from(vmstat["pgfault"]).unwrap());
    assert_eq!(ours.oom_kills.map(|kills| kills.0), vmstat.get("oom_kill").map(|kills| u64::try_from(*kills).unwrap()));
}

#[test]
fn disks_as_procfs_reads_them() {
    let root = Root::host();
    let mut reader = DiskReader::default();
    let older = procfs::diskstats().unwrap();
    let ours = reader.sample(&root).unwrap();
    let newer = procfs::diskstats().unwrap();
    for disk in &ours {
        let same = |other: &&procfs::DiskStat| other.name.as_bytes() == disk.name.as_bytes();
        // Others attach and detach loop devices meanwhile.
        let (Some(older), Some(newer)) = (older.iter().find(same), newer.iter().find(same)) else { continue };
        between(older.reads, Some(disk.reads.completed), newer.reads);
        between(older.sectors_written, Some(disk.writes.sectors), newer.sectors_written);
        between(older.weighted_time_in_progress, Some(disk.time_in_queue_ms), newer.weighted_time_in_progress);
        assert!(!std::path::Path::new("/sys/class/block").join(&older.name).join("partition").exists());
    }
    assert!(reader.in_flight(&root).is_ok());
    let again = reader.sample(&root).unwrap();
    // A container may show no disk, and others come and go.
    for (first, again) in ours.iter().zip(&again).take_while(|(first, again)| first.id == again.id).take(1) {
        assert!(std::sync::Arc::ptr_eq(&first.facts, &again.facts), "facts are read once");
        assert!(first.name.ptr_eq(&again.name));
    }
}

#[test]
fn network_as_procfs_reads_it() {
    let root = Root::host();
    let mut reader = NetworkReader::default();
    let older = procfs::net::dev_status().unwrap();
    let ours = reader.sample(&root).unwrap();
    let newer = procfs::net::dev_status().unwrap();
    for nic in &ours {
        let Ok(name) = std::str::from_utf8(nic.id.name.as_bytes()) else { continue };
        // Those of containers come and go.
        let (Some(older), Some(newer)) = (older.get(name), newer.get(name)) else { continue };
        between(older.recv_bytes, Some(nic.rx.bytes), newer.recv_bytes);
        between(older.sent_packets, Some(nic.tx.packets), newer.sent_packets);
        if let Ok(index) = nix::net::if_::if_nametoindex(name) {
            assert_eq!(nic.id.ifindex, index);
        }
    }
    assert!(ours.iter().any(|nic| nic.facts.loopback && nic.id.name.as_bytes() == b"lo"));
    let older = procfs::net::snmp().unwrap();
    let protocols = reader.protocols(&root);
    let newer = procfs::net::snmp().unwrap();
    between(older.tcp_in_segs, Some(protocols.tcp.unwrap().segments_in), newer.tcp_in_segs);
    between(older.udp_out_datagrams, Some(protocols.udp.unwrap().datagrams_out), newer.udp_out_datagrams);
    assert!(protocols.tcp_ext.unwrap().listen_drops.is_some());
}

#[test]
fn a_listener_that_does_not_accept_is_found_with_its_owner() {
    if lacks_loopback() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let local = listener.local_addr().unwrap();
    // The standard library asks for room for 128 (or 4096): fill what was asked for.
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
    let _waiting: Vec<_> = (0..2).map(|_| std::net::TcpStream::connect(local).unwrap()).collect();
    let protocols = NetworkReader::default().protocols(&Root::host());
    let listeners = match protocols.listeners {
        Err(why @ (Absent::NoSuchFile | Absent::NoPermission)) => return println!("skipped: no sock_diag here: {why}"),
        listeners => listeners.unwrap(),
    };
    let ours = listeners.iter().find(|other| other.local_address == local).unwrap();
    assert_eq!((ours.accept_queue, ours.backlog_limit), (2, 1));
    let (process, name) = ours.owner.as_ref().unwrap();
    assert_eq!(process.pid, std::process::id());
    assert_eq!(process.start_ticks, procfs::process::Process::myself().unwrap().stat().unwrap().starttime);
    assert_eq!(name.as_bytes(), std::fs::read("/proc/self/comm").unwrap().trim_ascii_end());
}

#[test]
fn host_and_users_equal_those_of_system_calls() {
    let root = Root::host();
    let host = host::read(&root);
    let names = nix::sys::utsname::uname().unwrap();
    assert_eq!(host.kernel.as_bytes(), names.release().as_encoded_bytes());
    assert_eq!(host.machine.as_bytes(), names.machine().as_encoded_bytes());
    assert_eq!(host.page_size, procfs::page_size());
    assert_eq!(host.ticks_per_second, procfs::ticks_per_second());
    assert!(host.topology.len() >= std::thread::available_parallelism().unwrap().get());
    let mut users = UserNames::default();
    assert_eq!(users.name(&root, 0), Some("root".into()));
    assert_eq!(users.name(&root, 4_000_000_001), None);
}

#[test]
fn psi_or_a_reason() {
    let pressure = PressureReader::default().sample(&Root::host());
    match (pressure.io, procfs::IoPressure::current()) {
        (Ok(ours), Ok(theirs)) => assert!(ours.some.unwrap().total_us.0 <= theirs.some.total),
        (ours, theirs) => assert_eq!(ours.is_err(), theirs.is_err()),
    }
}

/// `STALLTOP_CONNECTIONS=5000 cargo test --release --test kernel connections -- --nocapture` says what looking at them costs.
#[test]
fn connections_of_this_machine_with_itself_are_counted() {
    if lacks_loopback() {
        return;
    }
    use std::io::{Read, Write};
    use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

    use crate::until::until_some;
    use stalltop::sample::network::remote_hosts::RemoteHosts;

    let count: usize = std::env::var("STALLTOP_CONNECTIONS").map_or(50, |count| count.parse().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut pairs: Vec<(TcpStream, TcpStream)> =
        (0..count).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0)).collect();
    let root = Root::host();
    let mut reader = NetworkReader::default();
    let first = match reader.protocols(&root).remote_hosts {
        Ok(peers) => peers,
        Err(why) => return println!("skipped: sock_diag: {why}"),
    };
    let (client, server) = &mut pairs[0];
    for _ in 0..20 {
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
    }
    // The time to the next scan depends on the cost of this one.
    let second = until_some("there is a second scan", || {
        let peers = reader.protocols(&root).remote_hosts.unwrap();
        (peers.scan_boottime_ns > first.scan_boottime_ns).then_some(peers)
    });
    let own = |peers: &RemoteHosts| {
        let row = peers.rows.iter().find(|peer| peer.address == IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap().clone();
        assert!(row.local && row.connections as usize >= 2 * count, "{} of {}", row.connections, 2 * count);
        row
    };
    let (older, newer) = (own(&first), own(&second));
    assert!(newer.bytes_acked.unwrap().0 - older.bytes_acked.unwrap().0 >= 20_000);
    assert!(newer.bytes_received.unwrap().0 - older.bytes_received.unwrap().0 >= 20_000);
    assert!(newer.active.count > older.active.count, "a connection carried data");
    let cost = |peers: &RemoteHosts| peers.scan_cpu_ns as f64 / 1e6;
    println!("{} connections: {:.2} ms, then {:.2} ms", second.connection_count, cost(&first), cost(&second));
}

#[test]
fn context_switches_are_those_of_status() {
    let mut sampler = Sampler::new(Root::host()).unwrap();
    assert!(sampler.sample().context_switches.is_err(), "read only on request");
    sampler.enable_context_switches();
    let pid = std::process::id();
    let own = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).unwrap();
        let field =
            |name: &str| -> u64 { status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap() };
        (field("voluntary_ctxt_switches:"), field("nonvoluntary_ctxt_switches:"))
    };
    let before = own();
    let sample = sampler.sample();
    let after = own();
    let counted = sample.context_switches.as_ref().unwrap();
    let row = counted.iter().find(|row| (row.task.pid, row.task.tid) == (pid, pid)).unwrap();
    let (voluntary, involuntary) = (row.counts.voluntary.0, row.counts.involuntary.0);
    assert!((before.0..=after.0).contains(&voluntary) && (before.1..=after.1).contains(&involuntary), "{row:?}");
    let tasks = sample.tasks.as_ref().unwrap();
    let threads: usize = tasks.processes.iter().map(|process| process.threads.len()).sum();
    assert!(counted.len() * 10 >= threads * 9, "{} of {threads}", counted.len());
    assert!(counted.is_sorted_by_key(|row| row.task));
}

/// A child that sent a request to a server of this test and waits, and one that receives unrequested data: only the first is
/// reported as waiting, with the remote host.
#[test]
fn a_remote_host_whose_answer_is_awaited_is_named() {
    if lacks_loopback() {
        return;
    }
    let server = |answers: bool| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut connection = listener.accept().unwrap().0;
            while !answers || connection.read_exact(&mut [0]).is_ok() {
                thread::sleep(Duration::from_millis(300));
                if connection.write_all(b"!").is_err() {
                    return;
                }
            }
        });
        address
    };
    let client = |port: u16, asks: &str| {
        let script = format!(
            "import socket\nc = socket.create_connection(('127.0.0.1', {port}))\nwhile True:\n {asks}\n if not c.recv(1): break"
        );
        Command::new("python3").args(["-c", &script]).spawn()
    };
    let (asked, telling) = (server(true), server(false));
    let (Ok(mut asker), Ok(mut listener)) = (client(asked.port(), "c.sendall(b'?')"), client(telling.port(), "pass")) else {
        return println!("skipped: no python3");
    };
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let mut found = Vec::new();
    // A busy machine may give both no CPU in the middle of an interval.
    for _ in 0..20 {
        sampler.sample();
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(100));
            sampler.sub_sample();
        }
        let waits = sampler.sample().waits;
        found = remote_queues(&waits, &WaitCounts::new(sampler.host(), &waits));
        // Other programs of this machine wait for remote hosts too.
        found.retain(|queue| [asked, telling].contains(&queue.remote));
        if !found.is_empty() {
            break;
        }
    }
    for child in [&mut asker, &mut listener] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(found.iter().map(|queue| (queue.remote, queue.is_only_remote)).collect::<Vec<_>>(), [(asked, true)]);
}
