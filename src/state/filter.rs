//! Matches rows against the filter text of a list.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::interval::cgroup_names::CgroupName;
use crate::sample::Sample;
use crate::sample::task::Process;

/// How a filter matches.
#[derive(Clone, Copy)]
pub enum MatchMode {
    /// The text contains each word
    Literal,
    /// The text contains the letters in this order, with others between them
    Fuzzy,
}

/// A compiled filter; without text it matches everything.
pub struct FilterMatcher {
    pattern: Option<(Pattern, Matcher)>,
    buffer: Vec<char>,
}

impl FilterMatcher {
    pub fn new(text: &str, mode: MatchMode) -> FilterMatcher {
        let pattern = (!text.is_empty()).then(|| {
            let (case, form) = (CaseMatching::Smart, Normalization::Smart);
            let pattern = match mode {
                MatchMode::Literal => Pattern::new(text, case, form, AtomKind::Substring),
                MatchMode::Fuzzy => Pattern::parse(text, case, form),
            };
            (pattern, Matcher::new(Config::DEFAULT))
        });
        FilterMatcher { pattern, buffer: Vec::new() }
    }

    pub fn is_active(&self) -> bool {
        self.pattern.is_some()
    }

    pub fn matches_text(&mut self, text: &str) -> bool {
        let Some((pattern, matcher)) = &mut self.pattern else { return true };
        pattern.score(Utf32Str::new(text, &mut self.buffer), matcher).is_some()
    }

    /// How well the text matches; higher is better. `None`: it does not; without a filter 0.
    pub fn score(&mut self, text: &str) -> Option<u32> {
        let Some((pattern, matcher)) = &mut self.pattern else { return Some(0) };
        pattern.score(Utf32Str::new(text, &mut self.buffer), matcher)
    }

    /// Matches pid, command, user, command line, cgroup and container of a process.
    pub fn matches_process(&mut self, process: &Process, sample: &Sample) -> bool {
        const MAX_BYTES: usize = 200;
        let mut text = format!("{} {}", process.pid, String::from_utf8_lossy(process.comm.as_bytes()));
        let mut add = |bytes: &[u8]| {
            text.push(' ');
            text.push_str(&String::from_utf8_lossy(bytes.get(..MAX_BYTES).unwrap_or(bytes)));
        };
        if let Some(user) = sample.tasks.as_ref().ok().and_then(|tasks| tasks.users.get(&process.uid)) {
            add(user.as_bytes());
        }
        if let Ok(line) = &process.facts.cmdline {
            add(line.as_bytes());
        }
        if let Ok(cgroup) = &process.facts.cgroup {
            add(cgroup.path.as_bytes());
            if !sample.container_names.is_empty() {
                add(CgroupName::from_path(sample, cgroup.path.as_bytes()).label().as_bytes());
            }
        }
        self.matches_text(&text)
    }
}
