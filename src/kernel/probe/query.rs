//! Queries of a database server, by the eBPF programs of assets/probe/query.bpf.c, which count in memory that this process shares with
//! them. `database` finds the functions of the server at which a query begins and ends, by `function_offsets`.
//!
//! Nothing is pinned: the programs are detached and unloaded when this process ends, however it ends.

pub mod database;
mod function_offsets;
mod uprobes;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::loader_process::{LoaderProcess, ProbeProgram};
use super::probe_error::ProbeError;
use crate::kernel::sys::SharedWords;
use crate::kernel::sys_admin::{self, with_sys_admin};
use crate::sample::histogram_bucket::{FineBucket, HistogramBucket};
use crate::sample::query::{Latencies, Preemptor, Queries, QueryTimes};
use crate::sample::{Absent, Instant, Name};
use crate::units::Counter;
use database::{Database, DatabaseServer, StateNumbers};

/// Which process is counted, and where: the loader sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLayout {
    /// Its number in the initial pid namespace. Its children are counted too.
    pub pid: u32,
    pub database: Database,
}

impl QueryLayout {
    /// For the command line of the loader.
    pub fn to_words(self) -> Vec<String> {
        std::iter::once(self.pid.to_string()).chain(self.database.to_words()).collect()
    }

    /// The inverse of `to_words`; `None` for anything else.
    pub fn from_words(words: &[String]) -> Option<QueryLayout> {
        let (pid, database) = words.split_first()?;
        Some(QueryLayout { pid: pid.parse().ok()?, database: Database::from_words(database)? })
    }
}

/// `struct totals` in query.bpf.c, in words of 64 bits
const CLASS_WORDS: usize = FineBucket::COUNT + 1;
const ALL: usize = 0;
const CACHED: usize = 1;
const PREEMPTED: usize = 2;
const TIMES_AT: usize = 3 * CLASS_WORDS;
const BY_OTHERS_AT: usize = TIMES_AT + 5;
const LOST_AT: usize = BY_OTHERS_AT + 1;
const TOTALS_WORDS: usize = LOST_AT + 1;
/// Links that the loader sends; the programs of functions follow.
const TRACEPOINTS: usize = 2;
/// Places of the table, and words of `struct preemptor`
const PREEMPTORS: usize = 1024;
const PREEMPTOR_WORDS: usize = 4;

/// The attached programs. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct QueryProbe {
    has_cache: bool,
    totals: SharedWords,
    preemptors: SharedWords,
    /// Of the programs with their tracepoints and uprobes
    _links: Vec<OwnedFd>,
}

impl QueryProbe {
    /// Loads and attaches the programs, which takes a third of a second, and waits for that. `program`: the path of stalltop, run
    /// again as the loader; `pid`: the process of the server. Blocks where the file system of the server's program does not
    /// answer.
    pub fn attach(program: &Path, pid: u32, server: &DatabaseServer) -> Result<QueryProbe, ProbeError> {
        let layout = QueryLayout { pid, database: server.database };
        let functions = layout.database.functions().len();
        let Received { totals, preemptors, mut links, programs } = Received::from(load(program, layout)?, functions)?;
        links.extend(
            with_sys_admin(|| uprobes::attach(layout, &server.executable, &programs))
                .map_err(not_permitted)?
                .map_err(ProbeError::NoUprobes)?,
        );
        Ok(QueryProbe {
            has_cache: layout.database.has_query_cache(),
            totals: SharedWords::map(totals.as_fd(), TOTALS_WORDS)?,
            preemptors: SharedWords::map(preemptors.as_fd(), PREEMPTORS * PREEMPTOR_WORDS)?,
            _links: links,
        })
    }

    /// Tries to load the programs without a server, for `doctor`.
    pub fn try_to_load(program: &Path) -> Result<(), ProbeError> {
        sys_admin::check_permitted().map_err(not_permitted)?;
        uprobes::events().map_err(ProbeError::NoUprobes)?;
        let database = Database::PostgreSql { activity: 0, lock_wait: None, states: StateNumbers::Before18 };
        load(program, QueryLayout { pid: 0, database }).map(drop)
    }

    /// What was counted.
    pub fn read(&self, now: impl FnOnce() -> Instant) -> Queries {
        let at = now();
        // The programs count them in the opposite order, so that none has more than all.
        let preempted = self.latencies(PREEMPTED);
        let cached = self.has_cache.then(|| self.latencies(CACHED));
        let all = self.latencies(ALL);
        let time = |part: usize| Counter(self.totals.get(TIMES_AT + part));
        Queries {
            at,
            all,
            cached,
            preempted,
            times: QueryTimes {
                on_cpu_ns: time(0),
                run_queue_ns: time(1),
                storage_ns: time(2),
                locks_ns: time(3),
                other_ns: time(4),
            },
            preempted_by: (0..PREEMPTORS).filter_map(|place| self.preemptor(place)).collect(),
            preempted_by_others: Counter(self.totals.get(BY_OTHERS_AT)),
            lost: Counter(self.totals.get(LOST_AT)),
        }
    }

    fn latencies(&self, class: usize) -> Latencies {
        let at = class * CLASS_WORDS;
        let total_ns = Counter(self.totals.get(at + FineBucket::COUNT));
        let count = |bucket: FineBucket| (bucket, Counter(self.totals.get(at + usize::from(bucket.number()))));
        Latencies { buckets: FineBucket::all().map(count).filter(|(_, count)| count.0 > 0).collect(), total_ns }
    }

    fn preemptor(&self, place: usize) -> Option<Preemptor> {
        let word = |at: usize| self.preemptors.get(place * PREEMPTOR_WORDS + at);
        let (key, count) = (word(0), word(1));
        let comm: Vec<u8> =
            [word(2), word(3)].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
        (count > 0).then(|| Preemptor { pid: key as u32, name: Name::from(comm.as_slice()), count: Counter(count) })
    }
}

/// What the loader sends.
#[derive(Debug)]
struct Received {
    totals: OwnedFd,
    preemptors: OwnedFd,
    links: Vec<OwnedFd>,
    /// One for each function
    programs: Vec<OwnedFd>,
}

impl Received {
    /// An error unless it is all of that.
    fn from(descriptors: Vec<OwnedFd>, functions: usize) -> Result<Received, ProbeError> {
        let mut descriptors = descriptors.into_iter();
        match (descriptors.next(), descriptors.next()) {
            (Some(totals), Some(preemptors)) if descriptors.len() == TRACEPOINTS + functions => {
                let links = descriptors.by_ref().take(TRACEPOINTS).collect();
                Ok(Received { totals, preemptors, links, programs: descriptors.collect() })
            }
            _ => Err(ProbeError::Descriptors),
        }
    }
}

/// Runs the loader: the descriptors that it sends.
fn load(program: &Path, layout: QueryLayout) -> Result<Vec<OwnedFd>, ProbeError> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let why = "the registers with the arguments of functions are known on x86-64 and aarch64 alone";
        return Err(ProbeError::NotPossible(why));
    }
    Ok(LoaderProcess::load(program, ProbeProgram::Query(layout))?.descriptors)
}

fn not_permitted(_: Absent) -> ProbeError {
    ProbeError::NotPossible("functions of programs are probed as root only (CAP_SYS_ADMIN)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use database::CommandArgument;

    #[test]
    fn the_layout_is_read_from_its_words() {
        let postgresql = Database::PostgreSql { activity: 0x3000, lock_wait: None, states: StateNumbers::Before18 };
        let mysql = Database::MySql { dispatch: 0x10, cache: Some(0x20), command: CommandArgument::First };
        let other = Database::MySql { dispatch: 0x10, cache: None, command: CommandArgument::Unknown };
        for database in [postgresql, mysql, other] {
            let layout = QueryLayout { pid: 7, database };
            assert_eq!(QueryLayout::from_words(&layout.to_words()), Some(layout));
        }
        for wrong in
            [&[][..], &["7"], &["7", "oracle", "1"], &["7", "mysql", "1", "x", "first"], &["7", "postgresql", "1", "-", "19"]]
        {
            let words: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(QueryLayout::from_words(&words), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_loader_that_sends_too_little_or_too_much_is_an_error() {
        let received = |count: usize, functions: usize| {
            let descriptors = (0..count).map(|_| std::fs::File::open("/dev/null").unwrap().into());
            Received::from(descriptors.collect(), functions)
        };
        let all = received(2 + TRACEPOINTS + 3, 3).unwrap();
        assert_eq!((all.links.len(), all.programs.len()), (TRACEPOINTS, 3));
        for count in [0, 1, 2, 2 + TRACEPOINTS + 2, 2 + TRACEPOINTS + 4] {
            assert!(matches!(received(count, 3), Err(ProbeError::Descriptors)), "{count}");
        }
    }
}
