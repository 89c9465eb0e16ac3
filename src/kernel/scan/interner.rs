//! Interner: lets equal names, facts and cgroup memberships of many tasks share one allocation.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::sample::Name;
use crate::sample::cgroup::Memberships;
use crate::sample::task::ProcessFacts;

/// With more names (a fork bomb with random names) all are forgotten: only sharing is lost.
const MAX_NAMES: usize = 16_384;

/// Names seen so far.
#[derive(Debug, Default)]
pub struct Interner {
    names: FxHashSet<Name>,
    memberships: FxHashSet<Arc<Memberships>>,
    /// The command line read last
    last_command_line: Name,
    /// The facts of the process read last
    last_facts: Arc<ProcessFacts>,
    unread_facts: Arc<ProcessFacts>,
}

impl Interner {
    /// The shared name with these bytes.
    pub fn intern(&mut self, bytes: &[u8]) -> Name {
        if let Some(name) = self.names.get(bytes) {
            return name.clone();
        }
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        let name = Name::from(bytes);
        self.names.insert(name.clone());
        name
    }

    /// A command line: shared if it is the one read last, as in a pool of workers. Others rarely repeat and are not kept.
    pub fn intern_command_line(&mut self, bytes: &[u8]) -> Name {
        if self.last_command_line.as_bytes() != bytes {
            self.last_command_line = Name::from(bytes);
        }
        self.last_command_line.clone()
    }

    /// The facts of a process: shared if they are those read last, as in a pool of workers or among kernel threads.
    pub fn intern_facts(&mut self, facts: ProcessFacts) -> Arc<ProcessFacts> {
        if *self.last_facts != facts {
            self.last_facts = Arc::new(facts);
        }
        Arc::clone(&self.last_facts)
    }

    /// The facts of a process before anything was read.
    pub fn unread_facts(&self) -> Arc<ProcessFacts> {
        Arc::clone(&self.unread_facts)
    }

    /// The shared memberships equal to these.
    pub fn intern_memberships(&mut self, memberships: Memberships) -> Arc<Memberships> {
        if let Some(known) = self.memberships.get(&memberships) {
            return Arc::clone(known);
        }
        if self.memberships.len() >= MAX_NAMES {
            self.memberships.clear();
        }
        let shared = Arc::new(memberships);
        self.memberships.insert(Arc::clone(&shared));
        shared
    }

    /// `current` if it has these bytes, else the shared name.
    pub fn reuse_or_intern(&mut self, current: &Name, bytes: &[u8]) -> Name {
        if current.as_bytes() == bytes { current.clone() } else { self.intern(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_the_same() {
        let mut names = Interner::default();
        let first = names.intern(b"postgres");
        assert!(first.ptr_eq(&names.intern(b"postgres")));
        assert!(!first.ptr_eq(&names.intern(b"postgre")));
        assert!(first.ptr_eq(&names.reuse_or_intern(&first, b"postgres")));
    }

    #[test]
    fn workers_of_a_pool_share_their_command_line() {
        let mut names = Interner::default();
        let [first, second, other] =
            [b"php-fpm: pool www", b"php-fpm: pool www", b"php-fpm: pool api"].map(|line| names.intern_command_line(line));
        assert!(first.ptr_eq(&second) && !first.ptr_eq(&other));
        assert_eq!(other.as_bytes(), b"php-fpm: pool api");
    }
}
