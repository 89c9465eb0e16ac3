//! What the processes of a group say of themselves in their titles: `COMMIT ×60, idle ×4`. A program that writes its title
//! (setproctitle) replaces its command line by one string, as PostgreSQL, nginx and sshd do. A title is up to 10 s old.

use std::collections::BTreeMap;

use super::safe_text::SafeText;
use crate::ids::GroupId;
use crate::sample::task::{Process, Tasks};
use crate::units::SmallSort;

/// Bytes of a title that are read.
const MAX_TITLE: usize = 256;

/// The titles of the processes of a group, most frequent first, at most this number of different ones; empty if they have none.
pub fn group_titles(tasks: &Tasks, group: &GroupId, most: usize) -> SafeText {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    // They run one program: if the first one has no title, none has.
    for title in tasks.members(group).map_while(|process| title(process)) {
        *counts.entry(title).or_default() += 1;
    }
    let mut counts: Vec<(String, u32)> = counts.into_iter().collect();
    counts.small_sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let others = counts.iter().skip(most).map(|(_, count)| count).sum::<u32>();
    let mut words: Vec<String> = counts
        .iter()
        .take(most)
        .map(|(title, count)| if *count > 1 { format!("{title} ×{count}") } else { title.clone() })
        .collect();
    if others > 0 && most > 1 {
        words.push(format!("{others} more"));
    }
    SafeText::sanitize(words.join(", "))
}

fn title(process: &Process) -> Option<String> {
    present_title(process.facts.cmdline.as_ref().ok()?.as_bytes())
}

/// What a title says of the present: `COMMIT` of `postgres: bench bench [local] COMMIT`, `worker process` of `nginx: worker
/// process`. `None` for a command line, which has a NUL byte between its arguments.
fn present_title(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line.get(..line.len().min(MAX_TITLE))?);
    let line = line.trim_end_matches('\0').trim_end();
    let (program, said) = line.split_once(": ").filter(|(program, _)| !program.contains(['\0', ' ', '/']))?;
    if said.contains('\0') || program.is_empty() {
        return None;
    }
    let is_client = |word: &str| word == "[local]" || word.ends_with(')') && word.contains('(');
    let words: Vec<&str> = said.split(' ').filter(|word| !word.is_empty()).collect();
    let after_client = words.iter().position(|word| is_client(word)).map_or(0, |at| at + 1);
    let now = words.get(after_client..).filter(|now| !now.is_empty()).unwrap_or(&words);
    Some(now.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_what_a_process_does_now() {
        let cases: [(&[u8], Option<&str>); 6] = [
            (b"postgres: bench bench [local] COMMIT", Some("COMMIT")),
            (b"postgres: app shop 10.0.0.7(51234) idle in transaction\0\0", Some("idle in transaction")),
            (b"postgres: checkpointer ", Some("checkpointer")),
            (b"nginx: worker process", Some("worker process")),
            (b"/usr/bin/ssh\0host: x\0", None),
            (b"sleep\x00100\0", None),
        ];
        for (line, title) in cases {
            assert_eq!(present_title(line).as_deref(), title, "{}", String::from_utf8_lossy(line));
        }
    }
}
