//! User stacks of processes that are blocked in a known chain of functions. With the feature `user-stacks`, on x86-64.

#![cfg(all(feature = "user-stacks", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test may fail loudly, and says why it skips")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stalltop::ids::TaskId;
use stalltop::kernel::Root;
use stalltop::kernel::stacks::{Candidate, Rank};
use stalltop::kernel::user_stacks::UserStackReader;
use stalltop::sample::{Absent, Reading};

#[path = "support/child_guard.rs"]
mod child_guard;
#[path = "support/executable.rs"]
mod executable;
#[path = "support/until.rs"]
mod until;

use child_guard::ChildGuard;
use executable::copy_executable;
use until::{until, until_some};

/// After this long a process is not blocked and will not be.
const LIMIT: Duration = Duration::from_secs(20);

const CHAIN: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static char buffer[64];
volatile int size;
__attribute__((noinline)) int wal_append(int fd) { volatile char *room = __builtin_alloca(ALLOCA + size); room[0] = 1; return (int)read(fd, buffer, 64) + room[0]; }
__attribute__((noinline)) int commit(int fd) { volatile int local[40]; local[0] = wal_append(fd); return local[0] + 1; }
__attribute__((noinline)) static int compare(const void *a, const void *b) { return commit(0) + (a < b); }
int main(void) { int pair[2] = {1, 2}; write(1, "x", 1); qsort(pair, 2, sizeof *pair, compare); return pair[0]; }
"#;

/// A process that is killed at the end of the test.
struct Blocked(ChildGuard);

impl Blocked {
    /// Starts a program that writes a byte before it reads standard input, and waits until it is in read(2).
    fn start(program: &Path) -> Blocked {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Blocked(ChildGuard(child)).in_read()
    }

    /// Waits until it is in read(2).
    fn in_read(self) -> Blocked {
        let call = || fs::read_to_string(format!("/proc/{}/syscall", self.0.id())).unwrap();
        until("it is in read(2)", || call().starts_with("0 0x0 "));
        self
    }

    fn stack(&self) -> Reading<Vec<String>> {
        stack_of(self.0.id())
    }
}

/// The user stack of the first thread of a process.
fn stack_of(pid: u32) -> Reading<Vec<String>> {
    stack_of_thread(pid, pid)
}

fn stack_of_thread(pid: u32, tid: u32) -> Reading<Vec<String>> {
    let mut reader = UserStackReader::new(&Root::host());
    let thread = Candidate { task: TaskId { pid, tid, start_ticks: 1 }, rank: Rank::Blocked, timeslices: Some(1) };
    let begin = Instant::now();
    loop {
        reader.request(&[thread]);
        if let Some(row) = reader.sample().unwrap().pop() {
            return row.functions.map(|text| text.to_string_lossy().lines().map(str::to_owned).collect());
        }
        assert!(begin.elapsed() < LIMIT, "no answer");
    }
}

/// Compiles a C program; `None` without a compiler.
fn compile(source: &str, directory: &Path, options: &[&str]) -> Option<std::path::PathBuf> {
    let (file, program) = (directory.join("chain.c"), directory.join("chain"));
    fs::write(&file, source).unwrap();
    let status = Command::new("cc").args(options).arg(&file).arg("-o").arg(&program).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(program)
}

#[test]
fn the_functions_of_c_programs_are_named_however_they_were_compiled() {
    let options: [&[&str]; 7] = [
        &["-O2", "-DALLOCA=0"],
        &["-O0", "-DALLOCA=0"],
        &["-O2", "-DALLOCA=0", "-fno-omit-frame-pointer"],
        &["-O1", "-DALLOCA=3000"],
        &["-O2", "-DALLOCA=0", "-static"],
        &["-O2", "-DALLOCA=0", "-no-pie"],
        &["-O2", "-DALLOCA=0", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"],
    ];
    for options in options {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = compile(CHAIN, directory.path(), options) else {
            println!("skipped: no C compiler with {options:?}");
            continue;
        };
        let stack = Blocked::start(&program).stack().unwrap();
        let place = |name: &str| {
            stack.iter().position(|function| function == name).unwrap_or_else(|| panic!("{options:?}: no {name}: {stack:#?}"))
        };
        assert!(place("wal_append") < place("commit") && place("commit") < place("compare"), "{options:?}: {stack:#?}");
        assert!(
            stack[..place("wal_append")].iter().any(|function| function.starts_with("read")) || options.contains(&"-static")
        );
        assert!(place("compare") < place("main"), "{options:?}: {stack:#?}");
    }
}

#[test]
fn a_program_that_was_deleted_is_named_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(CHAIN, directory.path(), &["-O2", "-DALLOCA=0"]) else {
        return println!("skipped: no C compiler");
    };
    let blocked = Blocked::start(&program);
    fs::remove_file(program).unwrap();
    let stack = blocked.stack().unwrap();
    assert!(stack.contains(&"wal_append".to_owned()), "{stack:#?}");
}

#[test]
fn a_thread_that_has_ended_has_no_stack() {
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    // Of one that runs when it is looked at there is no stack, and it is not looked at again while it has the same timeslices.
    let blocked =
        Blocked(ChildGuard(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())).in_read();
    let (ended, blocked) = (ended.id(), blocked.0.id());
    let threads = [ended, blocked].map(|pid| {
        let task = TaskId { pid, tid: pid, start_ticks: 1 };
        Candidate { task, rank: Rank::Blocked, timeslices: Some(1) }
    });
    let mut reader = UserStackReader::new(&Root::host());
    let begin = Instant::now();
    let mut answered = Vec::new();
    // In their order: the one of the ended thread would come first.
    while !answered.contains(&blocked) {
        assert!(begin.elapsed() < LIMIT, "no answer");
        reader.request(&threads);
        answered.extend(reader.sample().unwrap().iter().map(|row| row.task.pid));
    }
    assert!(!answered.contains(&ended), "{answered:?}");
}

/// The code is a call through a register, in memory of no file, which the process names for perf.
#[test]
fn functions_that_a_process_has_compiled_itself_are_named_by_its_perf_map() {
    let source = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void wal_append(void) { char byte; write(1, "x", 1); (void)!read(0, &byte, 1); __asm__ volatile(""); }
int main(void) {
    static const unsigned char call[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    char *code = (char *)memory + 64;
    memcpy(code, call, sizeof call);
    char path[64];
    sprintf(path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %lx Lcompiled;::at_run_time\n", (unsigned long)code, sizeof call);
    fclose(map);
    ((void (*)(void (*)(void)))code)(wal_append);
    __asm__ volatile("");
    return 0;
}
"#;
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(source, directory.path(), &["-O1", "-fno-omit-frame-pointer"]) else {
        return println!("skipped: no C compiler");
    };
    let blocked = Blocked::start(&program);
    let stack = blocked.stack();
    fs::remove_file(format!("/tmp/perf-{}.map", blocked.0.id())).unwrap();
    let stack = stack.unwrap();
    let names = ["wal_append", "Lcompiled;::at_run_time", "main"];
    let found: Vec<&String> = stack.iter().filter(|function| names.contains(&function.as_str())).collect();
    assert_eq!(found, names, "{stack:#?}");
}

/// Names a process whose stack `another_user_gets_a_reason` reads as another user.
const PROCESS: &str = "STALLTOP_TEST_STACK_OF";

#[test]
fn another_user_gets_a_reason() {
    if let Ok(pid) = std::env::var(PROCESS) {
        assert_eq!(stack_of(pid.parse().unwrap()), Err(Absent::NoPermission));
        return println!("no permission");
    }
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: changing the user needs root");
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The build directory may not be readable for others.
    let program = directory.path().join("test");
    copy_executable(std::env::current_exe().unwrap(), &program);
    let blocked = Blocked(ChildGuard(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()));
    let mut command = Command::new(program);
    command.args(["--exact", "another_user_gets_a_reason", "--nocapture"]).env(PROCESS, blocked.0.id().to_string()).uid(65_534);
    let out = command.current_dir(directory.path()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("no permission"), "{text}");
}

#[test]
fn threads_that_wait_for_a_mutex_have_the_function_that_locks_it() {
    let source = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void append(void) { char byte; pthread_mutex_lock(&mutex); (void)!read(0, &byte, 1); pthread_mutex_unlock(&mutex); __asm__ volatile(""); }
static void *work(void *argument) { append(); __asm__ volatile(""); return argument; }
int main(void) { pthread_t thread; pthread_mutex_lock(&mutex); pthread_create(&thread, 0, work, 0); write(1, "x", 1); read(0, &thread, 1); return 0; }
"#;
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(source, directory.path(), &["-O1", "-pthread"]) else {
        return println!("skipped: no C compiler");
    };
    let blocked = Blocked::start(&program);
    let pid = blocked.0.id();
    let is_waiter = |tid: &u32| {
        let call = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
        *tid != pid && call.starts_with("202 ")
    };
    let tid = until_some("a thread waits", || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut tids = tasks.filter_map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().ok());
        tids.find(is_waiter)
    });
    let stack = stack_of_thread(pid, tid).unwrap();
    assert!(stack.contains(&"append".to_owned()) && stack.contains(&"work".to_owned()), "{stack:#?}");
    assert!(stack.iter().any(|function| function.contains("pthread_mutex_lock")), "{stack:#?}");
}

mod wal {
    /// Blocks until the other end of the pipe is closed.
    #[inline(never)]
    pub fn append(pipe: &mut std::io::PipeReader) -> usize {
        std::hint::black_box(std::io::Read::read(pipe, &mut [0])).unwrap()
    }
}

#[inline(never)]
fn commit(mut pipe: std::io::PipeReader) -> usize {
    std::hint::black_box(wal::append(&mut pipe)) + 1
}

/// The standard library keeps frame pointers, this program does not.
#[test]
fn the_functions_of_a_rust_program_are_demangled() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (sender, tid) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(nix::unistd::gettid()).unwrap();
        commit(reader)
    });
    let (pid, tid) = (std::process::id(), tid.recv().unwrap().as_raw().cast_unsigned());
    let call = || fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap();
    until("it is in read(2)", || call().starts_with("0 "));
    let stack = stack_of_thread(pid, tid).unwrap();
    drop(writer);
    thread.join().unwrap();
    let place =
        |name: &str| stack.iter().position(|function| function == name).unwrap_or_else(|| panic!("no {name}: {stack:#?}"));
    assert!(place("user_stacks::wal::append") < place("user_stacks::commit"), "{stack:#?}");
}
