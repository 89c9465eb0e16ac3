//! A machine as a fixture tree: a captured one, with tasks, users and a throttled cgroup added. It stays beside `proc_tree`, which
//! writes its files, because here every name is hostile and every file may be damaged.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::copied::copy;
use crate::proc_tree::{ProcTree, Stat};

pub struct Tree {
    files: ProcTree,
    /// Every text from outside.
    name: Vec<u8>,
    /// The file that is damaged, and must stay so: it may be a link to one that must not be written.
    damaged: RefCell<Option<PathBuf>>,
}

/// A thread: number, state, wait channel, system call.
type Strand = (u32, char, &'static str, &'static str);

const SERVER: [Strand; 5] = [
    (700, 'S', "futex_wait_queue", "202 0x7f00 0x80 0x2"),
    (701, 'D', "folio_wait_bit_common", "0 0x3 0x1000 0x1000"),
    (702, 'R', "0", "running"),
    (703, 'S', "futex_wait_queue", "202 0x7f00 0x80 0x2"),
    (704, 'S', "wait_woken", "45 0x5 0x1000 0x1000"),
];

impl Tree {
    /// On a copy of one of tests/kernel/trees, with ordinary names.
    pub fn on(base: &str) -> Tree {
        Tree::named(base, b"server")
    }

    /// With this text as every name from outside.
    pub fn named(base: &str, name: &[u8]) -> Tree {
        let files = ProcTree::empty();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/trees").join(base), files.directory());
        let tree = Tree { files, name: name.to_vec(), damaged: RefCell::default() };
        tree.write(
            "etc/passwd",
            [b"root:x:0:0:root:/root:/bin/sh\n", &without(&tree.name, b":\n\0")[..], b":x:1000:1000::/:/bin/sh\n"].concat(),
        );
        tree.write("sys/kernel/uevent_seqnum", "1000\n");
        // Without it system calls have no names, and their files are not read.
        tree.write("proc/sys/kernel/arch", "x86_64\n");
        // Of the limits that are nearly used up.
        tree.write("proc/sys/fs/file-nr", "980\t0\t1000\n");
        tree.write("proc/sys/kernel/pid_max", "32768\n");
        tree.write("proc/sys/kernel/threads-max", "191235\n");
        tree.write("proc/sys/net/netfilter/nf_conntrack_count", "990\n");
        tree.write("proc/sys/net/netfilter/nf_conntrack_max", "1000\n");
        for (version, table) in [("ipv4", "arp"), ("ipv6", "ndisc")] {
            tree.write(format!("proc/sys/net/{version}/neigh/default/gc_thresh3"), "1024\n");
            tree.write(format!("proc/net/stat/{table}_cache"), "entries  allocs table_fulls\n000003ff  00000001 00000002\n");
        }
        tree.write("proc/sys/vm/overcommit_memory", "2\n");
        tree.write("proc/sys/net/ipv4/tcp_mem", "500\t700\t1000\n");
        tree.write("proc/self/schedstat", "100 100 10\n");
        tree.write("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2649.996\n\nprocessor\t: 1\ncpu MHz\t\t: 800.5\n");
        let softnet = |cpu: u32| {
            format!("0002b1c4 00000003 00000011{} 00000000 00000000 {cpu:08x} 00000000 00000000\n", " 00000000".repeat(7))
        };
        tree.write("proc/net/softnet_stat", softnet(0) + &softnet(1));
        tree.write("proc/net/snmp6", "Udp6InDatagrams 100\nUdp6InErrors 4\nUdp6OutDatagrams 90\nUdp6RcvbufErrors 4\n");
        // Of the first disk, which both have.
        tree.write("sys/class/block/sda/serial", [&without(&tree.name, b"\n\0")[..], b"\n"].concat());
        tree.write("sys/class/block/sda/loop/backing_file", [b"/images/", &without(&tree.name, b"\n\0")[..], b"\n"].concat());
        if let Ok(mounts) = fs::read(tree.path().join("proc/self/mountinfo")) {
            // It has a mount that we have not, and its file is there.
            tree.write("proc/700/mountinfo", [&mounts[..], b"4711 1 8:0 / /srv rw - ext4 /dev/sda rw\n"].concat());
        }
        // One process is in another network namespace.
        tree.link("proc/self/ns/net", b"net:[4026531840]");
        tree.link("proc/700/ns/net", b"net:[4026532000]");
        for file in ["dev", "snmp", "snmp6", "netstat"] {
            if let Ok(text) = fs::read(tree.path().join("proc/net").join(file)) {
                tree.write(format!("proc/700/net/{file}"), text);
            }
        }
        tree.write("proc/net/sockstat", "sockets: used 4\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 0\n");
        tree.write("proc/net/sockstat6", "TCP6: inuse 0\n");
        tree.write(
            "proc/locks",
            "1: FLOCK  ADVISORY  WRITE 700 08:01:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 1 08:01:77 0 EOF\n",
        );
        tree.step(0);
        tree
    }

    pub fn path(&self) -> &Path {
        self.files.directory()
    }

    /// From now on only tests that damage a file write there.
    pub fn leave(&self, relative: Option<&Path>) {
        *self.damaged.borrow_mut() = relative.map(Path::to_owned);
    }

    pub fn write(&self, relative: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        if self.damaged.borrow().as_deref() == Some(relative.as_ref()) {
            return;
        }
        self.files.write(relative, bytes);
    }

    pub fn link(&self, relative: &str, target: &[u8]) {
        self.files.link(OsStr::from_bytes(target), relative);
    }

    /// Puts the tasks there as they are after so many seconds.
    pub fn step(&self, second: u64) {
        self.process(1, 0, b"systemd", 0, &[(1, 'S', "do_epoll_wait", "232 0x4 0x1 0x1")], second);
        self.process(2, 0x20_0000, b"kthreadd", 0, &[(2, 'S', "kthreadd", "0")], second);
        self.process(700, 0, &self.name, second, &SERVER, second);
        self.link("proc/700/fd/3", &[b"/srv/", &without(&self.name, b"\0")[..]].concat());
        self.write("proc/700/fdinfo/3", "pos:\t0\nflags:\t0100000\nmnt_id:\t4711\nino:\t77\n");
    }

    fn process(&self, pid: u32, flags: u32, name: &[u8], ran: u64, strands: &[Strand], second: u64) {
        // The kernel cuts a name at 15 bytes; here it may be as long as it likes.
        let comm = without(name, b"\0");
        let stat = |tid: u32, state: char| {
            let stat = Stat {
                pid,
                tid,
                comm: &comm,
                state,
                parent: 1,
                flags,
                minor_faults: 1000,
                major_faults: 10,
                user_ticks: 500 + ran * 90,
                system_ticks: 100 + ran * 5,
                threads: strands.len() as u32,
                start_ticks: 5000,
                virtual_bytes: 1_000_000,
                resident_pages: 500,
                block_io_delay_ticks: second,
            };
            stat.line()
        };
        let place = format!("proc/{pid}");
        self.write(format!("{place}/stat"), stat(pid, strands[0].1));
        self.write(format!("{place}/statm"), "244 500 100 10 0 90 0\n");
        self.write(
            format!("{place}/cmdline"),
            if flags == 0 { [b"/bin/", name, b"\0--flag=", name, b"\0"].concat() } else { Vec::new() },
        );
        self.write(format!("{place}/cgroup"), [b"0::/", &without(name, b"\n\0/")[..], b"\n"].concat());
        let io = format!(
            "rchar: 1\nwchar: 1\nsyscr: {second}\nsyscw: 1\nread_bytes: {}\nwrite_bytes: 0\ncancelled_write_bytes: 0\n",
            second * 4096
        );
        self.write(format!("{place}/io"), io);
        self.link(&format!("{place}/exe"), &[b"/usr/bin/", &without(name, b"\0/")[..]].concat());
        for &(tid, state, channel, call) in strands {
            let task = format!("{place}/task/{tid}");
            self.write(format!("{task}/stat"), stat(tid, state));
            self.write(format!("{task}/status"), "Name:\tx\nCpus_allowed_list:\t0-1\n");
            for place in [&task, if tid == pid { &place } else { &task }] {
                self.write(
                    format!("{place}/schedstat"),
                    format!("{} {} {}\n", 5_000_000_000 + ran * 900_000_000, 7000 + second * 20_000_000, 50 + ran * 10),
                );
                self.write(format!("{place}/wchan"), channel);
                self.write(format!("{place}/syscall"), format!("{call}\n"));
            }
        }
    }

    /// Every directory.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut found = vec![self.path().to_owned()];
        let mut at = 0;
        while let Some(directory) = found.get(at).cloned() {
            at += 1;
            let below = fs::read_dir(directory).unwrap().map(Result::unwrap);
            found.extend(below.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()));
        }
        found
    }
}

/// The bytes that may stand there.
fn without(bytes: &[u8], not: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| !not.contains(byte)).collect()
}
