//! The thread that reads, unwinds and names user stacks. A file system that does not answer, or a process whose memory is locked, blocks
//! this thread alone: after 10 s it is given up for another one, which leaves that place alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::process_memory::{ProcessMemory, StackMemory, read_registers};
use super::process_space::{CodeFiles, Place, ProcessSpace, TouchedPlace};
use super::unwind::unwind;
use crate::ids::TaskId;
use crate::kernel::root::Root;
use crate::kernel::scan::read_clock_ns;
use crate::kernel::stacks::USER_STACK_THREAD;
use crate::kernel::sys;
use crate::kernel::waits::budget::CpuBudget;
use crate::sample::{Absent, Name, Reading};

/// 0.5 ms of CPU time a second for reading and unwinding: a stack takes 20 to 60 µs.
const CPU_SHARE: f64 = 0.0005;
const CPU_CAPACITY_NS: f64 = 1_000_000.0;
/// 2 ms of CPU time a second for what is read once: the mappings of a process, a file, the name of a function. A program of 100 MB takes
/// 100 ms; while others start all the time, as in a build, only stacks of known ones are read.
const ONCE_SHARE: f64 = 0.002;
const ONCE_CAPACITY_NS: f64 = 200_000_000.0;
/// Then the thread ends, and with it what it knows.
const IDLE: Duration = Duration::from_secs(60);
/// After this long without an answer it is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Threads that are given up; then no user stacks are read.
const MAX_GIVEN_UP: usize = 4;
/// Processes whose code is known at a time: with more all are forgotten.
const MAX_PROCESSES: usize = 64;
/// Naming the functions of C++ templates recurses.
const STACK_BYTES: usize = 1 << 20;
/// It reads symbols of hundreds of kilobytes: not with the priority of the sampler.
const NICE: libc::c_int = 0;
/// Different texts that are shared
const MAX_TEXTS: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub struct WantedStack {
    pub task: TaskId,
    pub timeslices: Option<u64>,
}

#[derive(Debug)]
pub struct AnsweredStack {
    pub task: TaskId,
    pub timeslices: Option<u64>,
    pub functions: Reading<Name>,
}

#[derive(Debug)]
struct Link {
    requests: SyncSender<Vec<WantedStack>>,
    answers: Receiver<Vec<AnsweredStack>>,
    touched: TouchedPlace,
    asked_at: Option<Instant>,
    /// An answer that did not come in time is not waited for again.
    is_late: bool,
}

/// The sampler's side of the thread, which runs while stacks are wanted.
#[derive(Debug)]
pub struct ReaderThread {
    root: Root,
    link: Option<Link>,
    given_up: usize,
    hung: FxHashSet<Place>,
}

impl ReaderThread {
    pub fn new(root: Root) -> ReaderThread {
        ReaderThread { root, link: None, given_up: 0, hung: FxHashSet::default() }
    }

    /// Asks for stacks, the most important first, unless it still works on earlier ones.
    pub fn request(&mut self, wanted: Vec<WantedStack>, now: Instant) {
        if wanted.is_empty() {
            return;
        }
        if let Some(asked_at) = self.link.as_ref().and_then(|link| link.asked_at) {
            if now.saturating_duration_since(asked_at) < PATIENCE {
                return;
            }
            self.give_up();
        }
        if self.given_up >= MAX_GIVEN_UP {
            return;
        }
        let mut wanted = wanted;
        // The second try: it has ended because it was idle.
        for _ in 0..2 {
            let link = self.link.get_or_insert_with(|| start(&self.root, &self.hung));
            match link.requests.try_send(wanted) {
                Ok(()) => {
                    (link.asked_at, link.is_late) = (Some(now), false);
                    return;
                }
                Err(TrySendError::Full(_)) => return,
                Err(TrySendError::Disconnected(unsent)) => {
                    wanted = unsent;
                    self.link = None;
                }
            }
        }
    }

    /// The answers to the last request, or to an earlier one that took long. Waits for at most `timeout`.
    pub fn receive(&mut self, timeout: Duration) -> Vec<AnsweredStack> {
        let Some(link) = self.link.as_mut().filter(|link| link.asked_at.is_some()) else { return Vec::new() };
        let timeout = if link.is_late { Duration::ZERO } else { timeout };
        link.is_late = true;
        match link.answers.recv_timeout(timeout) {
            Ok(answers) => {
                link.asked_at = None;
                answers
            }
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                self.link = None;
                Vec::new()
            }
        }
    }

    /// Leaves the thread where it is: one that is blocked in the kernel cannot be ended. It ends when it is answered.
    fn give_up(&mut self) {
        if let Some(link) = self.link.take() {
            self.given_up += 1;
            self.hung.extend(link.touched.get());
        }
    }
}

/// Starts a thread. Without one each request is refused.
fn start(root: &Root, hung: &FxHashSet<Place>) -> Link {
    let (requests, work) = sync_channel::<Vec<WantedStack>>(1);
    let (sender, answers) = sync_channel(1);
    let touched = TouchedPlace::default();
    let (root, hung, own) = (root.clone(), hung.clone(), touched.clone());
    let body = move || {
        // Not permitted: it runs as this program does.
        let _ = sys::set_nice(NICE);
        let mut reader = StackReader::new(CodeFiles::new(root, hung, own));
        while let Ok(wanted) = work.recv_timeout(IDLE) {
            if sender.send(reader.read_all(&wanted)).is_err() {
                return;
            }
        }
    };
    // The receiver of the requests is dropped with the closure.
    drop(Builder::new().name(USER_STACK_THREAD.to_owned()).stack_size(STACK_BYTES).spawn(body));
    Link { requests, answers, touched, asked_at: None, is_late: false }
}

/// What the thread keeps between requests.
struct StackReader {
    files: CodeFiles,
    /// By pid
    spaces: FxHashMap<u32, ProcessSpace>,
    budget: CpuBudget,
    once_budget: CpuBudget,
    texts: FxHashSet<Name>,
    buffer: Vec<u8>,
    stack_buffer: Vec<u8>,
}

fn cpu_ns() -> u64 {
    read_clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

impl StackReader {
    fn new(files: CodeFiles) -> StackReader {
        StackReader {
            files,
            spaces: FxHashMap::default(),
            budget: CpuBudget::new(CPU_SHARE).with_capacity(CPU_CAPACITY_NS),
            once_budget: CpuBudget::new(ONCE_SHARE).with_capacity(ONCE_CAPACITY_NS),
            texts: FxHashSet::default(),
            buffer: Vec::new(),
            stack_buffer: Vec::new(),
        }
    }

    /// The stacks as far as the budget goes.
    fn read_all(&mut self, wanted: &[WantedStack]) -> Vec<AnsweredStack> {
        let now_ns = read_clock_ns(ClockId::CLOCK_MONOTONIC).unwrap_or(0);
        let available_ns = self.budget.available_ns(now_ns);
        let once_available_ns = self.once_budget.available_ns(now_ns);
        let (mut answers, mut cost_ns, mut all_once_ns) = (Vec::new(), 0, 0);
        for wanted in wanted {
            if cost_ns >= available_ns {
                break;
            }
            if self.spaces.len() >= MAX_PROCESSES || self.files.forget_if_large() {
                self.spaces.clear();
            }
            let (begin_ns, mut once_ns) = (cpu_ns(), 0);
            let may_read_files = all_once_ns < once_available_ns;
            // The files of programs are parsed by other crates: what makes one of them panic costs this stack.
            let read = catch_unwind(AssertUnwindSafe(|| self.read_stack(wanted.task, may_read_files, &mut once_ns)));
            cost_ns += cpu_ns().saturating_sub(begin_ns).saturating_sub(once_ns);
            all_once_ns += once_ns;
            let functions = read.unwrap_or_else(|_| {
                self.spaces.clear();
                Err(Absent::Malformed)
            });
            if functions == Err(Absent::TooExpensive) {
                continue;
            }
            answers.push(AnsweredStack { task: wanted.task, timeslices: wanted.timeslices, functions });
        }
        self.files.touched.set(None);
        self.budget.spend(now_ns, cost_ns);
        self.once_budget.spend(now_ns, all_once_ns);
        answers
    }

    /// Adds to `once_ns` what is done once a process, a file and a function; `TooExpensive` where a file has to be read and may not.
    fn read_stack(&mut self, task: TaskId, may_read_files: bool, once_ns: &mut u64) -> Reading<Name> {
        let place = Place::Process(task.pid);
        if self.files.is_hung(place) {
            return Err(Absent::Os(libc::ETIMEDOUT));
        }
        self.files.touched.set(Some(place));
        let registers = read_registers(self.files.root(), task, &mut self.buffer)?;
        let (stack_pointer, program_counter) = (registers.stack_pointer, registers.program_counter);
        let root = self.files.root();
        let space = self.spaces.get(&task.pid);
        if !space.is_some_and(|space| space.is_current(root, program_counter, stack_pointer)) {
            if !may_read_files {
                return Err(Absent::TooExpensive);
            }
            let before_ns = cpu_ns();
            self.spaces.insert(task.pid, ProcessSpace::read(root, task.pid, &mut self.buffer)?);
            *once_ns += cpu_ns().saturating_sub(before_ns);
        }
        let space = self.spaces.get_mut(&task.pid).ok_or(Absent::NotRead)?;
        let end = space.mapping_end(stack_pointer).ok_or(Absent::Vanished)?;
        let memory = ProcessMemory::new(task.pid);
        let mut stack = StackMemory::new(memory, stack_pointer, end, std::mem::take(&mut self.stack_buffer));
        let files = &mut self.files;
        let mut is_complete = true;
        let unwound = unwind(space, memory, &mut stack, registers, |space, address| {
            if !may_read_files {
                is_complete = false;
                return;
            }
            let before_ns = cpu_ns();
            space.load(files, address);
            *once_ns += cpu_ns().saturating_sub(before_ns);
        });
        self.stack_buffer = stack.into_buffer();
        if !is_complete {
            return Err(Absent::TooExpensive);
        }
        // It has moved on while its memory was read.
        if read_registers(self.files.root(), task, &mut self.buffer)? != registers {
            return Err(Absent::Vanished);
        }
        let before_ns = cpu_ns();
        let mut text = String::new();
        for &address in &unwound.addresses {
            text.push_str(&space.name(self.files.root(), address));
            text.push('\n');
        }
        match unwound.end {
            Some(why) => text.push_str(&format!("[unknown: {why}]")),
            None => text.truncate(text.trim_end().len()),
        }
        *once_ns += cpu_ns().saturating_sub(before_ns);
        Ok(self.intern(&text))
    }

    fn intern(&mut self, text: &str) -> Name {
        if let Some(known) = self.texts.get(text.as_bytes()) {
            return known.clone();
        }
        if self.texts.len() >= MAX_TEXTS {
            self.texts.clear();
        }
        let new = Name::from(text);
        self.texts.insert(new.clone());
        new
    }
}
