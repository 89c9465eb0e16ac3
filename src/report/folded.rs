//! Folded stacks, which flamegraph.pl and inferno read: a line for each different stack,
//! `process;thread;outermost;…;innermost COUNT`: functions of the program, then those of the kernel with `_[k]`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::formatting::printable;
use crate::ids::TaskId;
use crate::interval::Interval;
use crate::sample::stacks::{find_stack, find_user_stack, stack_functions};

/// Different stacks that are kept one by one; the time of further ones is that of `OTHERS`.
const MAX_STACKS: usize = 20_000;
const OTHERS: &str = "other stacks";

/// Behind a function of the kernel, as stackcollapse-perf.pl --kernel writes it and flamegraph.pl colours it
const KERNEL_FUNCTION: &str = "_[k]";

/// The stacks of stuck threads, by thread time. A thread that has a stack at a sample counts with the time since the sample
/// before it.
#[derive(Debug, Default)]
pub struct FoldedStacks {
    /// Milliseconds
    stacks: BTreeMap<String, f64>,
}

impl FoldedStacks {
    pub fn add(&mut self, interval: &Interval) {
        let sample = &interval.newer;
        let (kernel, user) = (sample.stacks.as_deref().unwrap_or_default(), sample.user_stacks.as_deref().unwrap_or_default());
        // A thread may have one of them only: both lists are sorted.
        let mut tasks: Vec<TaskId> = kernel.iter().map(|row| row.task).chain(user.iter().map(|row| row.task)).collect();
        tasks.sort_unstable();
        tasks.dedup();
        for task in tasks {
            let kernel = find_stack(kernel, task).and_then(|row| row.kernel.as_ref().ok());
            let user = find_user_stack(user, task).and_then(|row| row.functions.as_ref().ok());
            let Some((process, thread)) = sample.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task)) else { continue };
            if kernel.is_none() && user.is_none() {
                continue;
            }
            let mut line = format!("{};{}", frame(process.comm.as_bytes()), frame(thread.comm.as_bytes()));
            for function in user.into_iter().flat_map(|user| stack_functions(user).rev()) {
                line.push(';');
                line.push_str(&frame(function));
            }
            for function in kernel.into_iter().flat_map(|kernel| stack_functions(kernel).rev()) {
                line.push(';');
                line.push_str(&frame(function));
                line.push_str(KERNEL_FUNCTION);
            }
            self.add_line(line, interval.seconds * 1000.0);
        }
    }

    fn add_line(&mut self, line: String, milliseconds: f64) {
        let is_one_too_many = self.stacks.len() >= MAX_STACKS && !self.stacks.contains_key(&line);
        let line = if is_one_too_many { OTHERS.to_owned() } else { line };
        *self.stacks.entry(line).or_default() += milliseconds;
    }

    #[cfg(test)]
    pub fn from_lines(lines: &[(&str, f64)]) -> FoldedStacks {
        let mut stacks = FoldedStacks::default();
        lines.iter().for_each(|&(line, milliseconds)| stacks.add_line(line.to_owned(), milliseconds));
        stacks
    }

    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Each stack with its milliseconds, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.stacks.iter().map(|(stack, &milliseconds)| (stack.as_str(), milliseconds))
    }

    pub fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.iter().try_for_each(|(stack, milliseconds)| writeln!(sink, "{stack} {:.0}", milliseconds))
    }
}

/// A frame: `;` separates frames, and a line ends one.
fn frame(name: &[u8]) -> String {
    let name = printable(&String::from_utf8_lossy(name)).replace(';', ":");
    if name.is_empty() { "?".to_owned() } else { name }
}
