//! `probe query`: queries of a database server.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::{doctor_line, each_interval, is_running, process_with};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::privileges::uprobe_remedy;
use crate::app::program::stdio::{ReaderState, print, print_localized, print_stderr};
use crate::app::program::threads::{TimedOut, with_timeout};
use crate::cli::probe::query::Query;
use crate::interval::query::QueryInterval;
use crate::kernel::probe::kernel_has_cap_bpf;
use crate::kernel::probe::query::QueryProbe;
use crate::kernel::probe::query::database::{CommandArgument, Database, DatabaseServer};
use crate::kernel::probe::{load_obstacle, loader_process};
use crate::kernel::{self, Root};
use crate::report;
use crate::sample::Name;
use crate::units::time::time_of_day;

/// What would make it possible.
fn remedy() -> String {
    match kernel_has_cap_bpf() {
        true => format!("{}, on a kernel with CONFIG_DEBUG_INFO_BTF and CONFIG_UPROBE_EVENTS", uprobe_remedy()),
        false => "Linux 5.15 or later with CONFIG_DEBUG_INFO_BTF and CONFIG_UPROBE_EVENTS is needed".to_owned(),
    }
}

/// For the symbols of a server: 64 MiB at most, of a busy disk.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Its loader has 30 seconds; then the kernel reads the pages with the functions.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(35);

/// `probe query`
pub fn queries(root: &Root, options: &Query) -> Result<Exit, Failure> {
    let pid = options.pid;
    let process = process_with(root, pid)?;
    let refused = |why: &str| Failure::new(Exit::Refused, "cannot attach eBPF programs", why, remedy());
    if let Some((_, why)) = load_obstacle(root) {
        return Err(refused(why));
    }
    let failed =
        |why: &str, remedy: &str| Failure::new(Exit::Failed, format!("cannot count queries of process {pid}"), why, remedy);
    let no_answer = |why| match why {
        TimedOut::NoAnswer => {
            let places = format!("/proc/{pid}/exe and /proc/{pid}/cwd");
            failed(
                "the file system of its program, or of its data directory, does not answer",
                &format!("try again when those of {places} answer"),
            )
        }
        TimedOut::NoCpu => failed("no CPU was free to read its program", "try again"),
    };
    let host = root.clone();
    let server = with_timeout(OPEN_TIMEOUT, move || DatabaseServer::detect(&host, pid)).map_err(no_answer)?;
    let server = server.map_err(|why| failed(&why.to_string(), "give the pid of mysqld, mariadbd or postgres"))?;
    if let Some(assumption) = assumption(&server) {
        print_stderr(assumption);
    }
    let attach = move || QueryProbe::attach(&loader_process::own_executable(), pid, &server);
    let probe = with_timeout(ATTACH_TIMEOUT, attach).map_err(no_answer)?;
    // If its number was given to another process meanwhile, what was opened and attached to may be of that one.
    if !is_running(root, process) {
        return Err(failed("it has ended", ""));
    }
    let probe = probe.map_err(|why| refused(&why.to_string()))?;
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
    doctor_line(root, "queries of databases", "stalltop probe query", &remedy(), load)
}

/// What is taken for granted of a server that does not say it.
fn assumption(server: &DatabaseServer) -> Option<&'static str> {
    match server.database {
        Database::PostgreSql { .. } if server.postgresql_version.is_none() => {
            Some("PG_VERSION cannot be read in its data directory: taken for PostgreSQL 17 or older")
        }
        Database::MySql { command: CommandArgument::Unknown, .. } => {
            Some("this dispatch_command is not known: each command counts as a query, pings too")
        }
        _ => None,
    }
}
