//! Folded stacks, which flamegraph.pl and inferno read: a line for each different stack, `process;thread;outermost;…;innermost COUNT`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::formatting::printable;
use crate::interval::Interval;
use crate::sample::stacks::kernel_functions;

/// Different stacks that are kept one by one; the time of further ones is that of `OTHERS`.
const MAX_STACKS: usize = 20_000;
const OTHERS: &str = "other stacks";

/// The kernel stacks of stuck threads, by the time for which they stand. A thread that has a stack at a sample counts with the time
/// since the sample before it.
#[derive(Debug, Default)]
pub struct FoldedStacks {
    /// Milliseconds
    stacks: BTreeMap<String, f64>,
}

impl FoldedStacks {
    pub fn add(&mut self, interval: &Interval) {
        let Ok(stacks) = &interval.newer.stacks else { return };
        for row in stacks {
            let Ok(kernel) = &row.kernel else { continue };
            let Some((process, thread)) = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(row.task)) else {
                continue;
            };
            let mut line = format!("{};{}", frame(process.comm.as_bytes()), frame(thread.comm.as_bytes()));
            for function in kernel_functions(kernel).rev() {
                line.push(';');
                line.push_str(&frame(function));
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
