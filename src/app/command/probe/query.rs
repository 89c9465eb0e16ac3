//! `probe query`: queries of a database server.

use jiff::tz::TimeZone;

use super::{doctor_line, each_interval, process_with};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{ReaderState, print, print_localized, print_stderr};
use crate::cli::probe::query::Query;
use crate::interval::query::QueryInterval;
use crate::kernel::probe::query::database::{CommandArgument, Database, StateNumbers, postgresql_version};
use crate::kernel::probe::query::{QueryLayout, QueryProbe};
use crate::kernel::probe::{block_latencies, loader_process};
use crate::kernel::{self, Root};
use crate::report;
use crate::sample::Name;
use crate::units::time::time_of_day;

/// What would make it possible.
const REMEDY: &str = "run as root, on a kernel with CONFIG_DEBUG_INFO_BTF and CONFIG_UPROBE_EVENTS";

/// `probe query`
pub fn queries(root: &Root, options: &Query) -> Result<Exit, Failure> {
    let pid = options.pid;
    let process = process_with(root, pid)?;
    let refused = |why: &str| Failure::new(Exit::Refused, "cannot attach eBPF programs", why, REMEDY);
    if let Some((_, why)) = block_latencies::obstacle(root) {
        return Err(refused(why));
    }
    let database = Database::of(root, pid).map_err(|why| {
        let remedy = "give the pid of mysqld, mariadbd or postgres";
        Failure::new(Exit::Failed, format!("cannot count queries of process {pid}"), why, remedy)
    })?;
    if let Some(assumption) = assumption(root, pid, database) {
        print_stderr(assumption);
    }
    let layout = QueryLayout { pid, database };
    let probe = QueryProbe::attach(&loader_process::own_executable(), layout).map_err(|why| refused(&why))?;
    let name = root.read_once(format!("proc/{pid}/comm")).unwrap_or_default();
    let server = (Name::from(name.trim_ascii_end()), pid);
    let mut older = probe.read(kernel::now);
    let zone = TimeZone::system();
    each_interval(root, Some(process), options.interval, options.count, || {
        let newer = probe.read(kernel::now);
        let interval = QueryInterval::between(&older, &newer);
        older = newer;
        let Some(interval) = interval else { return Ok(ReaderState::Open) };
        if options.json {
            return print(&report::query::json(&interval, &server));
        }
        print_localized(&report::query::table(&interval, &server, &time_of_day(interval.at.realtime_ns, &zone)))
    })
}

/// The line of `doctor`: loads the programs, without a server.
pub fn queries_line(root: &Root) -> String {
    let load = || QueryProbe::try_to_load(&loader_process::own_executable()).map(|()| Vec::new());
    doctor_line(root, "queries of databases", "stalltop probe query", load)
}

/// What is taken for granted of a server that does not say it.
fn assumption(root: &Root, pid: u32, database: Database) -> Option<&'static str> {
    match database {
        Database::PostgreSql { states: StateNumbers::Before18, .. } if postgresql_version(root, pid).is_none() => {
            Some("PG_VERSION cannot be read in its data directory: taken for PostgreSQL 17 or older")
        }
        Database::MySql { command: CommandArgument::Unknown, .. } => {
            Some("this dispatch_command is not known: each command counts as a query, pings too")
        }
        _ => None,
    }
}
