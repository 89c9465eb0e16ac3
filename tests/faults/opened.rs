//! Every file that the program opens (found by inotify), with every kind of damage. A new reader is included as soon as it reads;
//! a file that is read on the live machine and missing in the trees makes the second test fail.

#![allow(unsafe_code, reason = "inotify")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stalltop::baseline::Baselines;
use stalltop::findings::Evaluator;
use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler, task};
use stalltop::report::window::Window;
use stalltop::report::{json, text};

use crate::copied::subjects_of;
use crate::traced::{self, Trace};
use crate::tree::Tree;

/// With control groups of the first and of the second version.
const BASES: [&str; 2] = ["3.10-centos7", "5.15-debian"];

/// Two samples, what is between them, and what is said of it: each subject's reading as text. `None` is no machine at all.
/// Groups are not among them: how many have been found by then depends on how fast this machine is.
fn everything(tree: &Tree) -> Option<BTreeMap<&'static str, String>> {
    let mut sampler = Sampler::new(Root::at_directory(tree.path().to_owned())).ok()?;
    let host = Arc::new(sampler.host().clone());
    tree.step(0);
    let older = Arc::new(sampler.sample());
    sampler.sub_sample();
    tree.step(1);
    let newer = loop {
        let newer = Arc::new(sampler.sample());
        if newer.at.seconds_since(older.at) > 0.002 {
            break newer;
        }
    };
    let interval = Interval::between(&host, &older, &newer).unwrap();
    let evaluation = Evaluator::new(Baselines::default()).evaluate(interval);
    let mut window = Window::default();
    window.add(&evaluation);
    let said: serde_json::Value = serde_json::from_str(&json::check(&window)).unwrap();
    assert_eq!(said["schema"], "stalltop/1");
    assert!(!text::check(&window).is_empty() && !text::summary(&window).is_empty());
    Some(BTreeMap::from([
        ("cpu", format!("{:?}", newer.cpu)),
        ("load", format!("{:?}", newer.load)),
        ("memory", format!("{:?}", newer.memory)),
        ("pressure", format!("{:?}", newer.pressure)),
        ("disks", format!("{:?}", newer.disks)),
        ("nics", format!("{:?}", newer.nics)),
        ("protocols", format!("{:?}", newer.protocols)),
    ]))
}

/// The regular files that are opened while `run` runs, relative to the tree.
fn opened_by(tree: &Tree, run: impl FnOnce()) -> BTreeSet<PathBuf> {
    // SAFETY: no memory is handed over but the path, which outlives the call.
    let inotify = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
    assert!(inotify >= 0);
    let mut watched = BTreeMap::new();
    for directory in tree.directories() {
        let path = CString::new(directory.as_os_str().as_bytes()).unwrap();
        // SAFETY: as above.
        let watch = unsafe { libc::inotify_add_watch(inotify, path.as_ptr(), libc::IN_OPEN) };
        assert!(watch >= 0, "{}", std::io::Error::last_os_error());
        watched.insert(watch, directory);
    }
    run();
    let mut opened = BTreeSet::new();
    let mut bytes = vec![0_u8; 1 << 20];
    loop {
        // SAFETY: the kernel writes at most so many bytes.
        let length = unsafe { libc::read(inotify, bytes.as_mut_ptr().cast(), bytes.len()) };
        let Ok(length) = usize::try_from(length) else { break };
        let mut rest = &bytes[..length];
        while let Some((head, tail)) = rest.split_at_checked(16) {
            let number = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
            let (watch, mask, name_length) = (number(0) as i32, number(4), number(12) as usize);
            let name = tail[..name_length].split(|&byte| byte == 0).next().unwrap();
            assert_eq!(mask & libc::IN_Q_OVERFLOW, 0);
            if mask & libc::IN_ISDIR == 0 {
                let path = watched[&watch].join(OsStr::from_bytes(name));
                opened.insert(path.strip_prefix(tree.path()).unwrap().to_owned());
            }
            rest = &tail[name_length..];
        }
    }
    // SAFETY: this function owns the descriptor.
    unsafe { libc::close(inotify) };
    opened
}

/// Ways in which a file is bad as a whole.
#[derive(Clone, Copy, Debug)]
enum Bad {
    Missing,
    Empty,
    Directory,
    Forbidden,
    InputOutputError,
    InvalidArgument,
    Loop,
}

const ALL_BAD: [Bad; 7] =
    [Bad::Missing, Bad::Empty, Bad::Directory, Bad::Forbidden, Bad::InputOutputError, Bad::InvalidArgument, Bad::Loop];

impl Bad {
    /// Whether the file is there and an error is all that is read of it.
    fn is_errno_alone(self) -> bool {
        matches!(self, Bad::Forbidden | Bad::InputOutputError | Bad::InvalidArgument | Bad::Loop)
    }
}

/// Files that not even root may read, that fail when they are read, and that reject the read.
fn stand_in(bad: Bad) -> Option<(&'static str, i32)> {
    match bad {
        Bad::Forbidden => Some(("/proc/sys/net/ipv4/route/flush", libc::EACCES)),
        Bad::InputOutputError => Some(("/proc/self/mem", libc::EIO)),
        Bad::InvalidArgument => Some(("/sys/class/net/lo/speed", libc::EINVAL)),
        _ => None,
    }
}

fn spoil(file: &Path, bad: Bad) {
    fs::remove_file(file).unwrap();
    match bad {
        Bad::Missing => {}
        Bad::Empty => fs::write(file, b"").unwrap(),
        Bad::Directory => fs::create_dir(file).unwrap(),
        Bad::Loop => std::os::unix::fs::symlink(file, file).unwrap(),
        Bad::Forbidden | Bad::InputOutputError | Bad::InvalidArgument => {
            std::os::unix::fs::symlink(stand_in(bad).unwrap().0, file).unwrap();
        }
    }
}

fn mend(file: &Path, bytes: &[u8]) {
    if fs::symlink_metadata(file).is_ok_and(|file| file.is_dir()) {
        fs::remove_dir_all(file).unwrap();
    } else {
        let _ = fs::remove_file(file);
    }
    fs::write(file, bytes).unwrap();
}

const NASTY: [&str; 10] = [
    "",
    "-1",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "NaN",
    "unlimited",
    "00000000000000000000000000000000000000000000000000000000001",
];

/// Up to so many places, spread over all.
fn spread(all: &[usize], most: usize) -> Vec<usize> {
    let step = all.len().div_ceil(most).max(1);
    all.iter().copied().step_by(step).collect()
}

/// Damaged texts of a file: cut, and with numbers that are none.
fn damaged(bytes: &[u8], turn: &mut usize) -> Vec<(String, Vec<u8>)> {
    let mut texts = Vec::new();
    for cut in [1, bytes.len() / 3, bytes.len() * 2 / 3, bytes.len().saturating_sub(1)] {
        texts.push((format!("cut at {cut}"), bytes[..cut.min(bytes.len())].to_vec()));
    }
    let is_start = |at: &usize| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit());
    let starts: Vec<usize> = (0..bytes.len()).filter(is_start).collect();
    for start in spread(&starts, 4) {
        let nasty = NASTY[*turn % NASTY.len()];
        *turn += 1;
        let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = [&bytes[..start], nasty.as_bytes(), &bytes[start + length..]].concat();
        texts.push((format!("{nasty:?} at {start}"), text));
    }
    texts
}

/// Damages each file that is opened on this tree; of the second tree those that are not the same on the first. The number of attempts.
fn damage_opened_files(base: &str) -> usize {
    let tree = Tree::on(base);
    let mut opened = opened_by(&tree, || drop(everything(&tree)));
    assert!(opened.len() > 50, "{opened:?}");
    if base != BASES[0] {
        let first = Tree::on(BASES[0]);
        first.step(1);
        let read = |tree: &Tree, name: &Path| fs::read(tree.path().join(name)).ok();
        // What the name of a group means depends on the tree.
        opened.retain(|name| name.ends_with("cgroup") || read(&tree, name) != read(&first, name));
    }
    // Files of a kind have the same reader: the first and the last, as of the main thread of a process and of another one; and those
    // of the blocked thread, of which more is read.
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for name in opened {
        kinds.entry(kind_of(name.to_str().unwrap())).or_default().push(name);
    }
    let mut opened = Vec::new();
    for kind in kinds.into_values() {
        let last = kind.len() - 1;
        let is_chosen = |at: usize, name: &Path| at == 0 || at == last || name.starts_with("proc/700/task/701");
        opened.extend(kind.into_iter().enumerate().filter(|(at, name)| is_chosen(*at, name)).map(|(_, name)| name));
    }
    // Two halves at a time: this takes longer than all other tests here.
    std::thread::scope(|scope| {
        let halves = opened.chunks(opened.len().div_ceil(2)).map(|half| scope.spawn(move || damage_each(base, half)));
        let halves: Vec<_> = halves.collect();
        halves.into_iter().map(|half| half.join().unwrap()).sum()
    })
}

/// On a tree of its own.
fn damage_each(base: &str, files: &[PathBuf]) -> usize {
    let tree = Tree::on(base);
    let whole = everything(&tree).unwrap();
    let ways: Vec<Bad> = ALL_BAD
        .into_iter()
        .filter(|bad| match stand_in(*bad) {
            None => true,
            Some((stand_in, errno)) => {
                let error =
                    fs::File::open(stand_in).and_then(|file| std::os::unix::fs::FileExt::read_at(&file, &mut [0; 8], 0));
                let is = error.err().and_then(|error| error.raw_os_error()) == Some(errno);
                if !is {
                    println!("skipped: {stand_in} does not give {bad:?} here");
                }
                is
            }
        })
        .collect();
    let (mut turn, mut tries) = (0, 0);
    for (number, relative) in files.iter().enumerate() {
        let file = tree.path().join(relative);
        tree.leave(Some(relative));
        let Ok(bytes) = fs::read(&file) else { continue };
        let name = relative.to_str().unwrap();
        let mut check = |how: &str| {
            tries += 1;
            let Some(now) = everything(&tree) else {
                assert!(name == "proc/stat", "{base}: {name} {how}: no machine");
                return;
            };
            let Some(may_change) = subjects_of(name) else { return };
            for (subject, before) in whole.iter().filter(|(subject, _)| !may_change.contains(subject)) {
                assert_eq!(before, &now[subject], "{base}: {name} {how} changed {subject}");
            }
        };
        // Those that differ by their errno alone: one for each file, in turn.
        let (by_errno, others): (Vec<Bad>, Vec<Bad>) = ways.iter().partition(|bad| bad.is_errno_alone());
        let in_turn = by_errno.iter().cycle().skip(number % by_errno.len().max(1)).take(1);
        for bad in others.iter().chain(in_turn) {
            spoil(&file, *bad);
            check(&format!("{bad:?}"));
            mend(&file, &bytes);
        }
        for (how, text) in damaged(&bytes, &mut turn) {
            fs::write(&file, text).unwrap();
            check(&how);
        }
        fs::write(&file, &bytes).unwrap();
        tree.leave(None);
    }
    tries
}

#[test]
fn every_opened_file_may_be_damaged_with_cgroup_v1() {
    let tries = damage_opened_files(BASES[0]);
    assert!(tries > 500, "{tries} damages");
}

#[test]
fn every_opened_file_may_be_damaged_with_cgroup_v2() {
    let tries = damage_opened_files(BASES[1]);
    assert!(tries > 350, "{tries} damages");
}

/// What a parser makes of a text, as text.
type Parser = fn(&[u8]) -> String;

/// The parsers of a task's files.
const TASK_PARSERS: [(&str, Parser); 5] = [
    ("proc/700/task/701/stat", |bytes| format!("{:?}", task::parse_stat(bytes).map(|stat| task::Stat { comm: b"", ..stat }))),
    ("proc/700/task/701/schedstat", |bytes| format!("{:?}", task::parse_schedstat(bytes))),
    ("proc/700/task/701/syscall", |bytes| format!("{:?}", task::parse_syscall(bytes))),
    ("proc/700/io", |bytes| format!("{:?}", task::parse_io(bytes))),
    ("proc/700/cgroup", |bytes| format!("{:?}", task::parse_cgroups(bytes).map(|group| group.map(|group| group.0)))),
];

/// The numbers in a text.
fn numbers(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect()
}

#[test]
fn every_task_file_may_be_cut_anywhere() {
    let tree = Tree::on("5.15-debian");
    for (file, parse) in TASK_PARSERS {
        let bytes = fs::read(tree.path().join(file)).unwrap();
        let whole = parse(&bytes);
        for length in 0..bytes.len() {
            let cut = parse(&bytes[..length]);
            // What a cut leaves out may be 0 where an old kernel has no such field; nothing else may be new.
            let made_up: Vec<_> = numbers(&cut).difference(&numbers(&whole)).copied().filter(|number| *number != "0").collect();
            assert!(made_up.is_empty(), "{file} cut at {length} gave {made_up:?}: {cut}");
        }
        for start in (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()) {
            for nasty in NASTY {
                parse(&[&bytes[..start], nasty.as_bytes(), &bytes[start + 1..]].concat());
            }
        }
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let tree = Tree::on("5.15-debian");
    let whole = everything(&tree).unwrap();
    for name in ["proc/meminfo", "proc/self/mountinfo"] {
        let file = tree.path().join(name);
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        let now = everything(&tree).unwrap();
        // The other files of the subject are still read.
        let is_left_out = match name {
            "proc/meminfo" => now["memory"].contains("total_kb: None") && !now["memory"].contains("faults: None"),
            _ => {
                let without_mounts = |all: &BTreeMap<&str, String>| all["disks"].matches("mount_points: []").count();
                now["memory"] == whole["memory"] && without_mounts(&now) > without_mounts(&whole)
            }
        };
        assert!(is_left_out, "{name}: {now:?}");
        mend(&file, &bytes);
    }
}

#[test]
fn a_file_may_change_while_it_is_read() {
    let tree = Tree::on("5.15-debian");
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let changing: Vec<(PathBuf, Vec<u8>)> =
        ["proc/meminfo", "proc/stat", "proc/diskstats", "proc/net/dev", "proc/self/mountinfo"]
            .map(|name| (tree.path().join(name), fs::read(tree.path().join(name)).unwrap()))
            .to_vec();
    let end = Arc::clone(&over);
    let changes = std::thread::spawn(move || {
        let mut round = 0;
        while !end.load(std::sync::atomic::Ordering::Relaxed) {
            for (path, bytes) in &changing {
                round += 1;
                let twice = [bytes.as_slice(), bytes].concat();
                fs::write(path, [&bytes[..bytes.len() * (round % 7) / 7], &twice, bytes][round % 3]).unwrap();
            }
        }
    });
    let mut sampler = loop {
        if let Ok(sampler) = Sampler::new(Root::at_directory(tree.path().to_owned())) {
            break sampler;
        }
    };
    let host = Arc::new(sampler.host().clone());
    let mut older = Arc::new(sampler.sample());
    for _ in 0..300 {
        let newer = Arc::new(sampler.sample());
        if let Some(interval) = Interval::between(&host, &older, &newer) {
            Evaluator::new(Baselines::default()).evaluate(interval);
        }
        older = newer;
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    changes.join().unwrap();
}

/// Numbers, and names that are another machine's, do not count.
fn kind_of(path: &str) -> String {
    // A device's directory, once it is open, is called by where its link leads.
    let device = path.split_once("sys/devices/").and_then(|(_, rest)| rest.rsplit_once("/block/"));
    let path = &device.map_or_else(|| path.to_owned(), |(_, rest)| format!("sys/class/block/{rest}"));
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    if path.contains("sys/fs/cgroup/") {
        return format!("sys/fs/cgroup/**/{}", parts[parts.len() - 1]);
    }
    let named = |at: usize| at == 3 && parts[0] == "sys" && parts[1] == "class";
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let general = |(at, part): (usize, &&str)| match *part {
        _ if named(at) => "*".to_owned(),
        // A partition below its disk, a node, a CPU.
        _ if at == 4 && parts[2] == "block" && parts.len() > 5 && part.ends_with(|c: char| c.is_ascii_digit()) => {
            "*".to_owned()
        }
        part if is_number(part) => "N".to_owned(),
        part if part.starts_with("cpu") && is_number(&part[3..]) => "cpuN".to_owned(),
        part if part.starts_with("node") && is_number(&part[4..]) => "nodeN".to_owned(),
        part => part.to_owned(),
    };
    parts.iter().enumerate().map(general).collect::<Vec<_>>().join("/")
}

#[test]
fn every_file_read_on_this_machine_is_in_a_fixture_tree() {
    let trace = match Trace::run("openat,open", &["check", "--for", "1s", "-i", "200ms"]) {
        Ok(trace) => trace,
        Err(why) => return println!("skipped: {why}"),
    };
    let live: BTreeSet<String> = trace
        .calls
        .iter()
        .filter(|call| call.succeeded && !call.arguments.contains("O_DIRECTORY"))
        .filter_map(traced::path)
        .filter(|path| path.starts_with("/proc/") || path.starts_with("/sys/"))
        // The C library and the runtime ask for these by themselves.
        .filter(|path| !path.ends_with("/maps") && !path.starts_with("/sys/kernel/mm/") && path != "/proc/self/cgroup")
        // Of the program's own threads: their priority, and how long they waited for a CPU.
        .filter(|path| !path.starts_with("/proc/self/task/") && path != "/proc/thread-self/stat")
        // Kernel stacks, which root alone reads, of threads that are stuck; and whether this user may read them.
        .filter(|path| !path.ends_with("/stack"))
        // Sockets whose threads are found by the memory of their process, which a fixture tree does not have.
        .filter(|path| !path.ends_with("/net/udp") && !path.ends_with("/net/udp6"))
        // Read before a netlink query of sockets, which a fixture tree cannot answer: if a thread here waits for a remote host.
        .filter(|path| !path.starts_with("/proc/net/sockstat"))
        // Read beside a netlink query of sockets, and beside the number of open files, which a directory of a tree does not have.
        .filter(|path| !path.starts_with("/proc/sys/net/ipv4/") && !path.ends_with("/limits"))
        // The owner of a socket that a netlink query has found.
        .filter(|path| !path.ends_with("/comm"))
        // Only while tasks compete for CPUs, and of groups with a limit of I/O: a busy machine, where others test at the same time.
        .filter(|path| !path.ends_with("/cpu.shares") && !path.contains("/blkio.throttle."))
        // Whether an eBPF program can be loaded, and the size of its maps: a fixture tree loads none.
        .filter(|path| path != "/sys/kernel/btf/vmlinux" && !(path.starts_with("/sys/block/") && path.ends_with("/size")))
        // To enter it, which a fixture tree cannot.
        .filter(|path| !path.ends_with("/ns/net"))
        .map(|path| kind_of(&path))
        .collect();
    let mut known = BTreeSet::new();
    // The third has every hierarchy that the first version may have.
    for base in BASES.into_iter().chain(["5.10-hybrid"]) {
        let tree = Tree::on(base);
        known.extend(opened_by(&tree, || drop(everything(&tree))).iter().map(|path| kind_of(path.to_str().unwrap())));
    }
    let unknown: Vec<&String> = live.difference(&known).collect();
    assert!(live.len() > 15, "{live:?}");
    // The live run may have no thread in D, whose file and mount are read.
    assert!(known.contains("proc/N/mountinfo"), "{known:?}");
    assert!(unknown.is_empty(), "read live and in no tree (put them into tests/faults/tree.rs): {unknown:#?}");
}
