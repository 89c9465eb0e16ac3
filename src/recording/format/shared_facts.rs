//! Facts that were decoded from messages: samples share them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::wire::Malformed;
use crate::sample::Name;
use crate::sample::cgroup::Memberships;
use crate::sample::disk::DiskFacts;
use crate::sample::network::NicFacts;
use crate::sample::task::{ProcessFacts, Thread};

/// Decoded messages: equal bytes give the same `Arc`.
#[derive(Default)]
pub struct SharedFacts {
    pub disks: RefCell<HashMap<Name, Arc<DiskFacts>>>,
    pub nics: RefCell<HashMap<Name, Arc<NicFacts>>>,
    pub users: RefCell<HashMap<Name, Arc<BTreeMap<u32, Name>>>>,
    pub memberships: RefCell<HashMap<Name, Arc<Memberships>>>,
    process_facts: RefCell<Option<Arc<ProcessFacts>>>,
    threads: RefCell<Option<Arc<[Thread]>>>,
}

impl SharedFacts {
    /// Sets the threads of the process that is decoded next, and its facts if they did not change: its columns are not read for
    /// them.
    pub fn set_process_parts(&self, threads: Arc<[Thread]>, facts: Option<Arc<ProcessFacts>>) {
        *self.threads.borrow_mut() = Some(threads);
        *self.process_facts.borrow_mut() = facts;
    }

    pub fn take_process_facts(&self) -> Option<Arc<ProcessFacts>> {
        self.process_facts.borrow_mut().take()
    }

    pub fn take_threads(&self) -> Option<Arc<[Thread]>> {
        self.threads.borrow_mut().take()
    }
}

/// Messages of one type that are cached; then the cache is cleared.
const MAX_CACHED: usize = 8192;

/// The message of these bytes, decoded once.
pub fn shared_message<T>(
    known: &RefCell<HashMap<Name, Arc<T>>>,
    bytes: &Name,
    decode: impl FnOnce(&[u8]) -> Result<T, Malformed>,
) -> Result<Arc<T>, Malformed> {
    let mut known = known.borrow_mut();
    if let Some(facts) = known.get(bytes) {
        return Ok(facts.clone());
    }
    let facts = Arc::new(decode(bytes.as_bytes())?);
    if known.len() >= MAX_CACHED {
        known.clear();
    }
    known.insert(bytes.clone(), facts.clone());
    Ok(facts)
}
