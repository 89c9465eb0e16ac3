//! Names of processes and threads as label values. Whoever may start a process may invent names: only so many different ones an hour
//! become label values, and the others are `other`.

use std::collections::BTreeMap;

const MAX_NAMES: usize = 100;

/// A name that was not seen for so long makes room for another one.
const FORGET_NS: u64 = 3_600_000_000_000;

/// The value for names beyond the limit.
pub const OTHER: &str = "other";

/// Names that were seen, with the time of the last sight.
#[derive(Clone, Debug, Default)]
pub struct ProcessNames(BTreeMap<String, u64>);

impl ProcessNames {
    /// The name as a label value. `now_ns`: CLOCK_BOOTTIME.
    pub fn limited(&mut self, name: &str, now_ns: u64) -> String {
        // kworker/u8:3-flush: the number of a worker is no better than a pid.
        let name = if name.starts_with("kworker/") { "kworker" } else { name };
        if let Some(last) = self.0.get_mut(name) {
            *last = now_ns;
            return name.to_owned();
        }
        if self.0.len() >= MAX_NAMES {
            self.0.retain(|_, last| now_ns.saturating_sub(*last) < FORGET_NS);
        }
        if self.0.len() >= MAX_NAMES {
            return OTHER.to_owned();
        }
        self.0.insert(name.to_owned(), now_ns);
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_names_are_limited() {
        let mut names = ProcessNames::default();
        let different = (0..1000).map(|number| names.limited(&format!("evil{number}"), 5));
        assert_eq!(different.filter(|name| name != OTHER).count(), MAX_NAMES);
        assert_eq!(names.limited("evil7", FORGET_NS), "evil7", "a known one keeps its name");
        assert_eq!(names.limited("postgres", FORGET_NS), OTHER);
        assert_eq!(names.limited("postgres", FORGET_NS + 6), "postgres", "an hour later");
        assert_eq!(names.limited("kworker/u8:3-flush-8:0", FORGET_NS + 6), "kworker");
    }
}
