//! Which database server a process is, by the functions of its program, and at which of them a query begins and ends.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use thiserror::Error;

use super::function_offsets::find_functions;
use crate::kernel::regular_file::{open_link, open_place_below, reopen_regular};
use crate::kernel::root::{Root, absent_from_io_error};
use crate::sample::{Absent, Reading};

/// The server of a process.
#[derive(Debug)]
pub struct DatabaseServer {
    pub database: Database,
    /// Major version of PostgreSQL; `None` if it cannot be read, and of other servers
    pub postgresql_version: Option<u32>,
    /// The file of its program, whose functions are known and are probed, whatever happens to its path
    pub(super) executable: File,
}

/// A kind of server, with the offsets of its functions in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// A query is the time between two calls of pgstat_report_activity.
    PostgreSql {
        activity: u64,
        /// ProcSleep, in which it waits for locks of rows, tables and applications
        lock_wait: Option<u64>,
        states: StateNumbers,
    },
    /// MySQL or MariaDB: a query is a call of dispatch_command.
    MySql {
        dispatch: u64,
        /// Query_cache::send_result_to_client, which newer versions of MySQL do not have
        cache: Option<u64>,
        command: CommandArgument,
    },
}

/// The numbers of PostgreSQL's BackendState (include/utils/backend_status.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateNumbers {
    /// 1 is idle, 2 running, 3 idle in a transaction, 4 a fastpath call, 5 idle in a failed transaction.
    Before18,
    /// 1 is starting; the others are one more.
    Since18,
}

/// Which argument of dispatch_command is the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandArgument {
    First,
    Third,
    /// Each command counts as a query.
    Unknown,
}

/// A function of the server, and the program in query.bpf.c that runs when it begins or returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub program: &'static str,
    /// In the file of the server
    pub offset: u64,
    pub returns: bool,
}

/// Why the process is none that can be counted.
#[derive(Debug, Error)]
pub enum UnknownDatabase {
    #[error("its program cannot be read ({0})")]
    Unreadable(Absent),
    #[error("{0} is not a 64-bit ELF file, or has too many headers")]
    Malformed(String),
    #[error("no dispatch_command or pgstat_report_activity among the symbols of {0}, of which 64 MiB are read at most")]
    NoFunction(String),
}

const POSTGRESQL: &str = "postgresql";
const MYSQL: &str = "mysql";
/// Names of functions; of those of C++ the beginnings, since the types of the arguments differ between versions.
const ACTIVITY: &[u8] = b"pgstat_report_activity";
const LOCK_WAIT: &[u8] = b"ProcSleep";
const DISPATCH: &[u8] = b"_Z16dispatch_command";
const CACHE: &[u8] = b"_ZN11Query_cache21send_result_to_client";
/// MariaDB, and MySQL before 5.7; since then
const COMMAND_FIRST: &[u8] = b"_Z16dispatch_command19enum_server_command";
const COMMAND_THIRD: &[u8] = b"_Z16dispatch_commandP3THDPK8COM_DATA19enum_server_command";
/// Of PG_VERSION, which has three
const MAX_VERSION_BYTES: u64 = 16;

impl DatabaseServer {
    /// Finds by its functions which database a process is. Of a version of PostgreSQL that cannot be read, the state numbers are those
    /// before 18. Blocks where a file system does not answer.
    pub fn detect(root: &Root, pid: u32) -> Result<DatabaseServer, UnknownDatabase> {
        let link = format!("proc/{pid}/exe");
        let executable = open_link(&root.path(&link)).and_then(reopen_regular).map_err(UnknownDatabase::Unreadable)?;
        let path = || root.read_link(&link).unwrap_or_default().to_string_lossy().into_owned();
        let found = find_functions(&executable, [ACTIVITY, LOCK_WAIT, DISPATCH, CACHE]);
        let [activity, lock_wait, dispatch, cache] = found.ok_or_else(|| UnknownDatabase::Malformed(path()))?;
        if let Some((_, activity)) = activity {
            let postgresql_version = postgresql_version(root, pid);
            let states = postgresql_version.map_or(StateNumbers::Before18, StateNumbers::from_version);
            let database = Database::PostgreSql { activity, lock_wait: lock_wait.map(|(_, offset)| offset), states };
            return Ok(DatabaseServer { database, postgresql_version, executable });
        }
        let Some((name, dispatch)) = dispatch else { return Err(UnknownDatabase::NoFunction(path())) };
        let command = if name.starts_with(COMMAND_FIRST) {
            CommandArgument::First
        } else if name.starts_with(COMMAND_THIRD) {
            CommandArgument::Third
        } else {
            CommandArgument::Unknown
        };
        let database = Database::MySql { dispatch, cache: cache.map(|(_, offset)| offset), command };
        Ok(DatabaseServer { database, postgresql_version: None, executable })
    }
}

impl Database {
    /// In the order in which they are attached: that at which a query begins comes last.
    pub fn functions(self) -> Vec<Function> {
        let at = |program, offset, returns| Function { program, offset, returns };
        match self {
            Database::PostgreSql { activity, lock_wait, .. } => {
                let waits = lock_wait.iter().flat_map(|&wait| [at("lock_wait_end", wait, true), at("lock_wait", wait, false)]);
                waits.chain([at("activity", activity, false)]).collect()
            }
            Database::MySql { dispatch, cache, .. } => {
                let cache = cache.iter().map(|&cache| at("cache_answer", cache, true));
                cache.chain([at("command_end", dispatch, true), at("command", dispatch, false)]).collect()
            }
        }
    }

    pub fn has_query_cache(self) -> bool {
        matches!(self, Database::MySql { cache: Some(_), .. })
    }

    pub(super) fn to_words(self) -> Vec<String> {
        match self {
            Database::PostgreSql { activity, lock_wait, states } => {
                let states = if states == StateNumbers::Before18 { "17" } else { "18" };
                vec![POSTGRESQL.to_owned(), activity.to_string(), optional_word(lock_wait), states.to_owned()]
            }
            Database::MySql { dispatch, cache, command } => {
                let command = match command {
                    CommandArgument::First => "first",
                    CommandArgument::Third => "third",
                    CommandArgument::Unknown => "-",
                };
                vec![MYSQL.to_owned(), dispatch.to_string(), optional_word(cache), command.to_owned()]
            }
        }
    }

    pub(super) fn from_words(words: &[String]) -> Option<Database> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [POSTGRESQL, activity, lock_wait, states] => Some(Database::PostgreSql {
                activity: activity.parse().ok()?,
                lock_wait: optional_offset(lock_wait)?,
                states: match states {
                    "17" => StateNumbers::Before18,
                    "18" => StateNumbers::Since18,
                    _ => return None,
                },
            }),
            [MYSQL, dispatch, cache, command] => Some(Database::MySql {
                dispatch: dispatch.parse().ok()?,
                cache: optional_offset(cache)?,
                command: match command {
                    "first" => CommandArgument::First,
                    "third" => CommandArgument::Third,
                    "-" => CommandArgument::Unknown,
                    _ => return None,
                },
            }),
            _ => None,
        }
    }
}

fn optional_word(offset: Option<u64>) -> String {
    offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string())
}

fn optional_offset(word: &str) -> Option<Option<u64>> {
    if word == "-" { Some(None) } else { word.parse().ok().map(Some) }
}

impl StateNumbers {
    fn from_version(major: u32) -> StateNumbers {
        if major >= 18 { StateNumbers::Since18 } else { StateNumbers::Before18 }
    }

    /// Bits: the states at which a query begins, and those at which it has ended.
    pub fn begin_and_end(self) -> (u32, u32) {
        let (begin, end) = (1 << 2 | 1 << 4, 1 << 1 | 1 << 3 | 1 << 5);
        match self {
            StateNumbers::Before18 => (begin, end),
            StateNumbers::Since18 => (begin << 1, end << 1),
        }
    }
}

/// The major version, from the data directory, in which PostgreSQL runs; `None` if it cannot be read.
fn postgresql_version(root: &Root, pid: u32) -> Option<u32> {
    let directory = root.path(format!("proc/{pid}/cwd"));
    let text = read_version(&directory).ok()?;
    // "9.6" is an old one, too.
    text.trim().split('.').next()?.parse().ok()
}

fn read_version(directory: &Path) -> Reading<String> {
    let file = open_place_below(open_link(directory)?, Path::new("PG_VERSION")).and_then(reopen_regular)?;
    let mut text = String::new();
    file.take(MAX_VERSION_BYTES).read_to_string(&mut text).map_err(|error| absent_from_io_error(&error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn states_are_those_of_the_version() {
        // Running and fastpath; idle, and idle in a transaction
        assert_eq!(StateNumbers::from_version(15).begin_and_end(), (0b1_0100, 0b10_1010));
        assert_eq!(StateNumbers::from_version(18).begin_and_end(), (0b10_1000, 0b101_0100));
    }

    #[test]
    fn this_program_is_no_database() {
        let pid = std::process::id();
        let why = DatabaseServer::detect(&Root::host(), pid).unwrap_err().to_string();
        assert!(why.starts_with("no dispatch_command or pgstat_report_activity among the symbols of /"), "{why}");
        assert!(matches!(DatabaseServer::detect(&Root::host(), 2).unwrap_err(), UnknownDatabase::Unreadable(_)));
    }

    #[test]
    fn the_version_is_that_in_the_data_directory() {
        let (tree, file) = (ProcTree::empty(), "proc/7/cwd/PG_VERSION");
        let root = tree.root();
        let version = |text: &str| {
            tree.write(file, text);
            postgresql_version(&root, 7)
        };
        assert_eq!([version("15\n"), version("9.6\n"), version("x\n"), version("")], [Some(15), Some(9), None, None]);
        // What is beyond the bound is not read.
        assert_eq!(version(&format!("18\n{}x", " ".repeat(MAX_VERSION_BYTES as usize))), Some(18));
        tree.write("proc/7/cwd/other", "18\n");
        tree.link("other", file);
        assert_eq!(postgresql_version(&root, 7), None, "a symbolic link");
        tree.remove(file);
        tree.named_pipe(file);
        assert_eq!(postgresql_version(&root, 7), None, "a pipe");
    }
}
