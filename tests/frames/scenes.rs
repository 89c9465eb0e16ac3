//! The synthetic machines of the golden frames.

use stalltop::findings::{Kind, Severity, Subject};
use stalltop::ids::CpuId;
use stalltop::interval::disk::Operation;
use stalltop::sample::Name;
use stalltop::sample::task::TaskState;
use stalltop::sample::waits::WaitClass;

use crate::machine::{Device, Link, Machine, RUNNER, SLEEPER, Thread, Worker, finding, latency_status};
use crate::network::{Host, Network};

fn eth0() -> Link {
    Link { name: b"eth0", speed_mbps: Some(1000), rx: (225, 905), tx: (176, 898) }
}

fn sdb() -> Device {
    Device {
        name: b"sdb",
        minor: 16,
        rotational: true,
        reads: (0, 0),
        writes: (601, 108),
        flushes: (24, 40),
        in_flight: 66,
        busy_ms: 1000,
        read_latencies: Vec::new(),
    }
}

fn nvme() -> Device {
    Device {
        name: b"nvme0n1",
        minor: 32,
        rotational: false,
        reads: (4211, 1),
        writes: (12, 1),
        flushes: (0, 0),
        in_flight: 1,
        busy_ms: 410,
        read_latencies: Vec::new(),
    }
}

pub fn idle(pid: u32, comm: &'static [u8]) -> Worker {
    Worker { pid, comm, cmdline: b"", threads: vec![SLEEPER] }
}

/// 64 threads: 61 wait for a lock whose holder is in fsync.
pub fn lock_convoy() -> Machine {
    let in_fsync = Thread {
        user_ms: 4,
        delay_ms: 2,
        state: TaskState::Blocked,
        channel: b"jbd2_log_wait_commit",
        call: 74,
        class: WaitClass::Disk,
        processor: 0,
    };
    let behind = Thread {
        user_ms: 6,
        delay_ms: 3,
        state: TaskState::Sleeping,
        channel: b"futex_do_wait",
        call: 202,
        class: WaitClass::Lock,
        processor: 0,
    };
    let mut threads = vec![in_fsync];
    threads.extend(std::iter::repeat_n(behind, 61));
    // Matches the busy time of the CPUs, so that no time is hidden from the tick.
    threads.extend(std::iter::repeat_n(Thread { user_ms: 335, ..RUNNER }, 2));
    let sdb = sdb();
    Machine {
        hostname: b"db1",
        cpus: vec![[41, 11, 1, 0, 5], [40, 11, 1, 0, 5]],
        load: [65.2, 64.8, 60.1],
        workers: vec![
            Worker { pid: 812, comm: b"postgres", cmdline: b"/usr/bin/postgres\0-D\0/var/lib/pg", threads },
            idle(640, b"sshd"),
            idle(1, b"systemd"),
        ],
        findings: vec![
            finding(
                Kind::IdleButBlocked,
                Severity::Critical,
                Subject::Host,
                "idle but blocked: 46 % of the host (0.93 of 2 CPUs). postgres: 61 threads wait for a lock behind 1 in fdatasync (jbd2_log_wait_commit) on sdb. iowait says 5 %.",
            ),
            finding(
                Kind::DiskLatency,
                Severity::Critical,
                Subject::Disk { id: sdb.id(), name: Name::from("sdb") },
                "sdb: writes 108 ms = 13.9× their 7.80 ms, queue 64.9",
            ),
        ],
        latency_statuses: vec![
            latency_status(sdb.id(), Operation::Write, 7.8, 13.9, false),
            latency_status(sdb.id(), Operation::Flush, 12.0, 3.36, false),
            latency_status(nvme().id(), Operation::Read, 1.0, 1.0, false),
        ],
        devices: vec![sdb, nvme()],
        links: vec![eth0()],
        network: Network::default(),
        stuck: (1, 61),
        privileged: true,
    }
}

pub fn saturated_disk() -> Machine {
    let reader = Thread {
        user_ms: 20,
        delay_ms: 0,
        state: TaskState::Blocked,
        channel: b"folio_wait_bit_common",
        call: 17,
        class: WaitClass::Disk,
        processor: 0,
    };
    let sdb = Device { reads: (140, 230), writes: (0, 0), flushes: (0, 0), in_flight: 32, ..sdb() };
    Machine {
        hostname: b"files",
        cpus: vec![[2, 3, 0, 0, 60]; 8],
        load: [32.1, 30.0, 21.4],
        workers: vec![Worker { pid: 4711, comm: b"rsync", cmdline: b"rsync\0-a\0/srv\0/backup", threads: vec![reader; 8] }],
        findings: vec![finding(
            Kind::DiskLatency,
            Severity::Warning,
            Subject::Disk { id: sdb.id(), name: Name::from("sdb") },
            "sdb: reads 230 ms = 28.8× their provisional 8.00 ms, queue 32.2",
        )],
        latency_statuses: vec![latency_status(sdb.id(), Operation::Read, 8.0, 28.8, true)],
        devices: vec![sdb],
        links: vec![eth0()],
        network: Network::default(),
        stuck: (8, 0),
        privileged: true,
    }
}

/// One saturated core of 256.
pub fn hot_core() -> Machine {
    let mut cpus = vec![[0, 0, 0, 0, 0]; 256];
    cpus[48] = [100, 0, 0, 0, 0];
    cpus[32] = [0, 8, 3, 0, 0];
    Machine {
        hostname: b"t5440",
        cpus,
        load: [1.02, 1.0, 0.98],
        workers: vec![
            Worker {
                pid: 8841,
                comm: b"gzip",
                cmdline: b"gzip\0-9\0dump.sql",
                threads: vec![Thread { processor: 48, ..RUNNER }],
            },
            idle(1, b"systemd"),
        ],
        findings: vec![finding(
            Kind::SaturatedCore,
            Severity::Warning,
            Subject::Cpu(CpuId(48)),
            "one core at its limit: cpu48 is 100 % busy, the host 0.43 %; gzip/8841 uses 100.0 % of one CPU",
        )],
        latency_statuses: Vec::new(),
        devices: vec![Device { reads: (0, 0), writes: (3, 1), flushes: (0, 0), in_flight: 0, busy_ms: 3, ..nvme() }],
        links: vec![eth0()],
        network: Network::default(),
        stuck: (0, 0),
        privileged: true,
    }
}

pub fn quiet() -> Machine {
    Machine {
        hostname: b"web3",
        cpus: vec![[1, 1, 0, 0, 0]; 4],
        load: [0.02, 0.05, 0.01],
        workers: vec![
            idle(1, b"systemd"),
            idle(640, b"sshd"),
            Worker { pid: 900, comm: b"nginx", cmdline: b"", threads: vec![SLEEPER; 4] },
        ],
        findings: Vec::new(),
        latency_statuses: Vec::new(),
        devices: vec![Device { reads: (0, 0), writes: (0, 0), flushes: (0, 0), in_flight: 0, busy_ms: 0, ..nvme() }],
        links: vec![eth0()],
        network: Network::default(),
        stuck: (0, 0),
        privileged: true,
    }
}

/// The lock convoy as an unprivileged user sees it.
pub fn no_privilege() -> Machine {
    Machine { privileged: false, stuck: (1, 0), findings: Vec::new(), ..lock_convoy() }
}

/// A shaped interface with a host behind it, a host with a full receive window, a slow host, loopback, and a full accept
/// queue.
pub fn shaped_network() -> Machine {
    let host = |address: &str, connections, active, round_trip_us, sent, busy| Host {
        address: address.parse().unwrap(),
        connections,
        active,
        round_trip_us,
        sent,
        again: 0,
        busy,
    };
    let hosts = vec![
        host("10.99.0.2", 4, (4, 4), (4300, 6), 11_900_000, (100, 0)),
        host("10.0.0.7", 31, (12, 0), (420, 310), 80_000, (20, 0)),
        host("2001:db8:85a3:8d3:1319:8a2e:370:7348", 2, (2, 1), (41_000, 900), 300_000, (98, 95)),
        host("127.0.0.1", 120, (60, 2), (50, 20), 9_000_000, (40, 0)),
        host("192.0.2.40", 3, (0, 0), (0, 0), 0, (0, 0)),
    ];
    let slow = "10.99.0.2: round trips of 4.30 ms = 717× their minimum of 6.00 µs; they wait here, in the queue of eth0";
    Machine {
        hostname: b"web3",
        findings: vec![finding(Kind::NetworkLatency, Severity::Warning, Subject::RemoteHost(Name::from("10.99.0.2")), slow)],
        links: vec![Link { tx: (11_796, 8210), ..eth0() }],
        network: Network {
            hosts,
            listener: Some(("127.0.0.1:18091".parse().unwrap(), 5, 4, 35)),
            shaped: Some((8, 110, 5300)),
            softnet: Some((1, 91_000, 12, 3)),
            scans: None,
        },
        ..quiet()
    }
}
