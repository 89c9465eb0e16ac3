//! Reads, unwinds and names the stacks of one request, within limits of CPU time. It runs on the reader thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::time::ClockId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{AnsweredStack, WantedStack};
use crate::ids::TaskId;
use crate::kernel::clock::{clock_ns, thread_cpu_ns};
use crate::kernel::mapped_files::AccessTarget;
use crate::kernel::user_stacks::code_files::CodeFiles;
use crate::kernel::user_stacks::process_memory::{ProcessMemory, Registers, StackMemory, read_registers};
use crate::kernel::user_stacks::process_space::ProcessSpace;
use crate::kernel::user_stacks::table_loader::TableLoader;
use crate::kernel::user_stacks::unwind::unwind;
use crate::kernel::waits::budget::CpuBudget;
use crate::sample::{Absent, Name, Reading};

/// 0.5 ms of CPU time a second for reading and unwinding: a stack takes 20 to 60 µs.
const CPU_SHARE: f64 = 0.0005;
const CPU_CAPACITY_NS: f64 = 1_000_000.0;
/// 2 ms of CPU time a second for what is read once: the mappings of a process, a file, the name of a function. A program of 100 MB takes
/// 100 ms; while others start all the time, as in a build, only stacks of known ones are read.
const ONCE_SHARE: f64 = 0.002;
const ONCE_CAPACITY_NS: f64 = 200_000_000.0;
/// Processes whose code is known at a time: with more all are forgotten.
const MAX_PROCESSES: usize = 64;
/// Different texts that are shared
const MAX_TEXTS: usize = 1024;

/// What the thread keeps between requests.
pub struct StackUnwinder {
    files: CodeFiles,
    /// By pid
    spaces: FxHashMap<u32, ProcessSpace>,
    budget: CpuBudget,
    once_budget: CpuBudget,
    texts: FxHashSet<Name>,
    buffer: Vec<u8>,
    stack_buffer: Vec<u8>,
}

impl StackUnwinder {
    pub fn new(files: CodeFiles) -> StackUnwinder {
        StackUnwinder {
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
    pub fn read_all(&mut self, wanted: &[WantedStack]) -> Vec<AnsweredStack> {
        let now_ns = clock_ns(ClockId::CLOCK_MONOTONIC);
        let available_ns = self.budget.available_ns(now_ns);
        let once_available_ns = self.once_budget.available_ns(now_ns);
        let (mut answers, mut cost_ns, mut all_once_ns) = (Vec::new(), 0, 0);
        for wanted in wanted {
            if cost_ns >= available_ns {
                break;
            }
            if self.spaces.len() >= MAX_PROCESSES {
                self.spaces.clear();
            }
            let (begin_ns, mut once_ns) = (thread_cpu_ns(), 0);
            let may_read_files = all_once_ns < once_available_ns;
            // The files of programs are parsed by other crates: what makes one of them panic costs this stack; in a release build,
            // which does not unwind, this thread, which is given up like one that is blocked.
            let read = catch_unwind(AssertUnwindSafe(|| self.read_stack(wanted.task, may_read_files, &mut once_ns)));
            cost_ns += thread_cpu_ns().saturating_sub(begin_ns).saturating_sub(once_ns);
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
        self.files.accessed.set(None);
        self.budget.spend(now_ns, cost_ns);
        self.once_budget.spend(now_ns, all_once_ns);
        answers
    }

    /// Adds to `once_ns` what is done once a process, a file and a function; `TooExpensive` where a file has to be read and may not.
    fn read_stack(&mut self, task: TaskId, may_read_files: bool, once_ns: &mut u64) -> Reading<Name> {
        let target = AccessTarget::Process(task.pid);
        if self.files.is_hung(target) {
            return Err(Absent::Os(libc::ETIMEDOUT));
        }
        self.files.accessed.set(Some(target));
        let registers = read_registers(self.files.root(), task, &mut self.buffer)?;
        let (stack_pointer, program_counter) = (registers.stack_pointer, registers.program_counter);
        let root = self.files.root();
        let is_current = |space: &ProcessSpace| space.is_current(root, program_counter, stack_pointer);
        let known = self.spaces.get(&task.pid).is_some_and(is_current);
        if !known && !may_read_files {
            return Err(Absent::TooExpensive);
        }
        let mut space = match self.spaces.remove(&task.pid).filter(|_| known) {
            Some(space) => space,
            None => {
                let before_ns = thread_cpu_ns();
                let read = ProcessSpace::read(root, task.pid, &mut self.buffer);
                *once_ns += thread_cpu_ns().saturating_sub(before_ns);
                let space = read?;
                TableLoader::new(&mut self.files, &mut self.spaces, &mut self.buffer, may_read_files).make_room(&space);
                space
            }
        };
        let read = self.read_in_space(&mut space, task, registers, may_read_files, once_ns);
        self.spaces.insert(task.pid, space);
        read
    }

    /// `space`: of the process, which is not among the others meanwhile.
    fn read_in_space(
        &mut self,
        space: &mut ProcessSpace,
        task: TaskId,
        registers: Registers,
        may_read_files: bool,
        once_ns: &mut u64,
    ) -> Reading<Name> {
        let end = space.mapping_end(registers.stack_pointer).ok_or(Absent::Vanished)?;
        let memory = ProcessMemory::new(task.pid);
        let mut stack = StackMemory::new(memory, registers.stack_pointer, end, std::mem::take(&mut self.stack_buffer));
        let mut loader = TableLoader::new(&mut self.files, &mut self.spaces, &mut self.buffer, may_read_files);
        let unwound = unwind(space, memory, &mut stack, registers, &mut loader);
        let (error, is_incomplete) = (stack.error(), loader.is_incomplete);
        self.stack_buffer = stack.into_buffer();
        *once_ns += loader.once_ns;
        if let Some(why) = error {
            return Err(why);
        }
        if is_incomplete {
            return Err(Absent::TooExpensive);
        }
        // It has moved on while its memory was read.
        if read_registers(self.files.root(), task, &mut self.buffer)? != registers {
            return Err(Absent::Vanished);
        }
        let mut loader = TableLoader::new(&mut self.files, &mut self.spaces, &mut self.buffer, may_read_files);
        let mut text = loader.names(space, &unwound.addresses);
        *once_ns += loader.once_ns;
        match unwound.end {
            Some(why) => text.push_str(&format!("[unknown: {why}]")),
            None => text.truncate(text.trim_end().len()),
        }
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
