//! Which database server a process is, by the functions of its program, and at which of them a query begins and ends.

use std::fs::File;

use object::LittleEndian;
use object::elf::{FileHeader64, PF_X, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, STT_FUNC, Sym64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::read::{ReadCache, SectionIndex};
use thiserror::Error;

use crate::kernel::root::Root;
use crate::sample::Absent;

/// A server, with the offsets of its functions in its program.
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
    #[error("no dispatch_command or pgstat_report_activity in {0}")]
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

impl Database {
    /// The server of this process. Of a version of PostgreSQL that cannot be read, the numbers are those before 18.
    pub fn of(root: &Root, pid: u32) -> Result<Database, UnknownDatabase> {
        let executable = format!("proc/{pid}/exe");
        let file = root.open(&executable).map_err(UnknownDatabase::Unreadable)?;
        let wanted = [ACTIVITY, LOCK_WAIT, DISPATCH, CACHE];
        let [activity, lock_wait, dispatch, cache] = find_functions(file, wanted).unwrap_or_default();
        if let Some((_, activity)) = activity {
            let states = postgresql_version(root, pid).map_or(StateNumbers::Before18, StateNumbers::of_version);
            return Ok(Database::PostgreSql { activity, lock_wait: lock_wait.map(|(_, offset)| offset), states });
        }
        let Some((name, dispatch)) = dispatch else {
            let path = root.read_link(&executable).unwrap_or_default();
            return Err(UnknownDatabase::NoFunction(path.to_string_lossy().into_owned()));
        };
        let command = if name.starts_with(COMMAND_FIRST) {
            CommandArgument::First
        } else if name.starts_with(COMMAND_THIRD) {
            CommandArgument::Third
        } else {
            CommandArgument::Unknown
        };
        Ok(Database::MySql { dispatch, cache: cache.map(|(_, offset)| offset), command })
    }

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
    fn of_version(major: u32) -> StateNumbers {
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
pub fn postgresql_version(root: &Root, pid: u32) -> Option<u32> {
    let text = root.read_once(format!("proc/{pid}/cwd/PG_VERSION")).ok()?;
    let text = std::str::from_utf8(&text).ok()?.trim();
    // "9.6" is an old one, too.
    text.split('.').next()?.parse().ok()
}

type Header = FileHeader64<LittleEndian>;
type Sections<'a> = SectionTable<'a, Header, &'a ReadCache<File>>;
/// Name and offset in the file
type NamedOffset = (Vec<u8>, u64);

/// Of one section; a larger one is not read.
const MAX_SECTION_BYTES: u64 = 128 << 20;

/// The first function with each name, of a name of C++ with such a beginning; `None` if it is no 64-bit ELF file, or damaged. The file is read by read(2) and
/// not mapped: a mapped file that another truncates would end this program (SIGBUS).
fn find_functions<const N: usize>(file: File, wanted: [&[u8]; N]) -> Option<[Option<NamedOffset>; N]>
where
    [Option<NamedOffset>; N]: Default,
{
    let cache = ReadCache::new(file);
    let data = &cache;
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let offset_of = |address: u64| {
        let code = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X != 0);
        let mut within = code.filter_map(|segment| {
            let at = address.checked_sub(segment.p_vaddr(endian)).filter(|&at| at < segment.p_filesz(endian))?;
            at.checked_add(segment.p_offset(endian))
        });
        within.next()
    };
    let sections = header.sections(endian, data).ok()?;
    let mut found: [Option<NamedOffset>; N] = Default::default();
    // A stripped program has only those that it exports.
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        let Some((symbols, names)) = symbols_of(&sections, data, kind) else { continue };
        for symbol in symbols {
            if symbol.st_type() != STT_FUNC || symbol.st_shndx(endian) == SHN_UNDEF {
                continue;
            }
            let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            for (wanted, found) in wanted.iter().zip(&mut found) {
                if found.is_none() && name.starts_with(wanted) {
                    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                    // With a point: a part of it that the compiler has moved, `.cold`.
                    let is_wanted = name == *wanted || name.starts_with(b"_Z") && !name.contains(&b'.');
                    let offset = is_wanted.then(|| offset_of(symbol.st_value(endian))).flatten();
                    *found = offset.map(|offset| (name.to_vec(), offset));
                }
            }
        }
    }
    Some(found)
}

fn symbols_of<'a>(
    sections: &Sections<'a>,
    data: &'a ReadCache<File>,
    kind: u32,
) -> Option<(&'a [Sym64<LittleEndian>], &'a [u8])> {
    let bytes = |header: &<Header as FileHeader>::SectionHeader| {
        let is_in_file = header.sh_type(LittleEndian) != SHT_NOBITS && header.sh_size(LittleEndian) <= MAX_SECTION_BYTES;
        is_in_file.then(|| header.data(LittleEndian, data).ok()).flatten()
    };
    let header = sections.iter().find(|header| header.sh_type(LittleEndian) == kind)?;
    let names = sections.section(SectionIndex(usize::try_from(header.sh_link(LittleEndian)).ok()?)).ok()?;
    Some((object::pod::slice_from_all_bytes(bytes(header)?).ok()?, bytes(names)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_version() {
        // Running and fastpath; idle, and idle in a transaction
        assert_eq!(StateNumbers::of_version(15).begin_and_end(), (0b1_0100, 0b10_1010));
        assert_eq!(StateNumbers::of_version(18).begin_and_end(), (0b10_1000, 0b101_0100));
    }

    #[test]
    fn this_program_is_no_database() {
        let pid = std::process::id();
        let why = Database::of(&Root::host(), pid).unwrap_err().to_string();
        assert!(why.starts_with("no dispatch_command or pgstat_report_activity in /"), "{why}");
        assert!(matches!(Database::of(&Root::host(), 2).unwrap_err(), UnknownDatabase::Unreadable(_)));
        assert_eq!(postgresql_version(&Root::host(), pid), None);
    }

    #[test]
    fn functions_are_found_in_a_program() {
        let file = || File::open("/proc/self/exe").unwrap();
        let [function] = find_functions(file(), [b"main"]).unwrap();
        assert!(function.is_some_and(|(_, offset)| offset > 0));
        assert!(find_functions(File::open("Cargo.toml").unwrap(), [b"main"]).is_none());
    }
}
