//! Parses the command line into a `Command`. Uses no files, no terminal and no clock.

pub mod armed;
pub mod baseline;
pub mod bug_report;
pub mod check;
pub mod compare;
mod configuration;
pub mod demo;
pub mod export;
pub mod finding_options;
pub mod fleet;
pub mod help;
pub mod mark;
pub mod mcp;
pub mod nicstat;
pub mod on_finding;
pub mod other_tools;
pub mod pressure_trigger;
pub mod probe;
pub mod record;
pub mod report;
pub mod screen;
pub mod serve;
mod suggestion;
pub mod table;
#[cfg(test)]
mod tests;
pub mod time_range;
pub mod trace;
mod usage_error;
pub mod value_parsers;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

pub use bug_report::BugReport;
pub use check::Check;
use configuration::options_without_effect;
pub use configuration::{Configuration, ProbeMode};
pub use demo::Demo;
pub use fleet::Fleet;
pub use mcp::Mcp;
pub use record::{Info, Record};
pub use screen::{Appearance, Live, Replay};
pub use serve::Serve;
pub use usage_error::EarlyExit;
use usage_error::{has_split_list, one_line_error, subcommand_path};

/// The parsed command line.
#[derive(Debug, PartialEq)]
pub struct Invocation {
    /// The directory with /proc and /sys: `/`, or a tree of captured files
    pub root: Option<PathBuf>,
    pub configuration: Configuration,
    pub command: Command,
}

impl Command {
    /// Whether it reads a recording from the beginning to the end.
    pub fn evaluates_whole_recording(&self) -> bool {
        match self {
            Command::Report(_) | Command::Compare(_) | Command::Export(_) => true,
            Command::Check(check) => check.file.is_some(),
            Command::Table(table) => table.from.is_some(),
            _ => false,
        }
    }

    /// Whether it shows a recording on the screen.
    pub fn shows_recording(&self) -> bool {
        matches!(self, Command::Replay(_) | Command::Demo(_))
    }
}

#[derive(Debug, PartialEq, Subcommand)]
pub enum Command {
    #[command(skip)]
    Live(Live),
    /// Record without a screen, until stopped
    #[command(after_help = "Example: stalltop record --for 10m /var/tmp/slow.stalltop\n\
                            A file per day for a week: stalltop record --rotate 1d --keep 7d /var/lib/stalltop-record\n\
                            Counting operations: stalltop record --ops 'redis-cli info stats | sed -n s/total_commands_processed://p' base.stalltop\n\
                            Only what happens: stalltop record --armed /var/lib/stalltop-armed --on-finding /usr/local/bin/tell\n\
                            A remote live screen: ssh db1 stalltop record - | stalltop replay -")]
    Record(Record),
    /// Show a recording on the same screens, and move in time
    #[command(after_help = "Example: stalltop replay db1-20261120T120000.stalltop --at 12:03\n\
                            A remote live screen: ssh db1 stalltop record - | stalltop replay -")]
    Replay(Replay),
    /// Show recordings of seven loads, each with a note that says what to notice
    #[command(after_help = "Example: stalltop demo\nOne of them: stalltop demo 3")]
    Demo(Demo),
    /// Print the findings and exit: 0 none, 1 a warning, 2 a critical one, 3 unknown
    #[command(after_help = "Example: stalltop check --for 10s --json\n\
                            For Nagios: stalltop check --for 30s --format nagios --ignore swapping --threshold disk-latency=5\n\
                            Another machine: ssh db1 stalltop record - --for 10s | stalltop check -\n\
                            As a log: stalltop check --watch >> /var/log/stalltop.log")]
    Check(Check),
    /// Show many hosts over ssh: one row per host, the worst first, findings grouped by cause
    #[command(after_help = "Example: stalltop fleet web1 web2 db1\n\
                            Hosts of a file, for a script: stalltop fleet --hosts hosts.txt --json\n\
                            Recorded, and replayed: stalltop fleet --hosts hosts.txt --record night; stalltop fleet --replay night")]
    Fleet(Fleet),
    /// Serve metrics of this machine to Prometheus, at http://127.0.0.1:9709/metrics
    #[command(after_help = "Example: stalltop serve\n\
                            To be scraped from another machine: stalltop serve --listen 10.0.0.7:9709 --allow-remote")]
    Serve(Serve),
    /// Tools for agents: a server of the Model Context Protocol on standard input and output. They change nothing but learned latencies of disks
    #[command(after_help = "Example: claude mcp add stalltop -- stalltop mcp\n\
                            With recordings and other machines: stalltop mcp --dir /var/lib/stalltop-record --host db1 --host db2")]
    Mcp(mcp::Mcp),
    /// Print what a recording contains
    #[command(after_help = "Example: stalltop info --verify db1-20261120T120000.stalltop")]
    Info(Info),
    /// Write a recording as one self-contained page, to attach to a ticket
    #[command(after_help = "Example: stalltop report db1-20261120T120000.stalltop -o slow.html")]
    Report(report::Report),
    /// Copy a part of a recording to a new recording
    #[command(after_help = "Example: stalltop cut night.stalltop --from 03:10 --to 03:25 -o slow.stalltop")]
    Cut(time_range::Cut),
    /// Join recordings of one boot of a machine, with the gaps between them
    #[command(after_help = "Example: stalltop cat db1-*.stalltop -o day.stalltop")]
    Cat(time_range::Cat),
    /// Compare recordings: median and p95 of each figure, what became worse and how certain that is, cost per operation
    #[command(after_help = "Example: stalltop compare before.stalltop after.stalltop --ops BASE=120000,NEW=131000\n\
                            The certainty refers to the recorded time: it does not include how one run differs from the next.")]
    Compare(compare::Compare),
    /// Add a mark with a text to every recording and live session of this user; as root, also of the services
    #[command(after_help = "Example: stalltop mark \"deploy 42\"")]
    Mark(mark::Mark),
    /// Print what this user can and cannot read on this kernel, why, and what to change, if anything can be
    #[command(after_help = "Example: sudo stalltop doctor")]
    Doctor,
    /// Write an archive for a bug report: version, kernel, what can be read here, a recording of 10 s. Asks first, sends nothing
    #[command(after_help = "Example: sudo stalltop bug-report\n\
                            Of another machine: ssh db1 stalltop bug-report --yes -o - > report.tar.zst")]
    BugReport(BugReport),
    /// A replacement for nicstat: the same options and columns; --compat for the same arithmetic
    #[command(after_help = "Example: stalltop nicstat -z 1 10\nThe same: ln -s stalltop nicstat; ./nicstat -z 1 10")]
    #[command(disable_version_flag = true)]
    Nicstat(nicstat::Nicstat),
    /// Show, set, learn or forget the learned latencies of disks
    #[command(subcommand, after_help = "Example: stalltop baseline show")]
    Baseline(baseline::Baseline),
    /// Print figures as lines: text, CSV or JSON; live, of a recording, or of a command
    #[command(after_help = "Example: stalltop table disk 1 10\n\
                            Of a recording: stalltop table task 1m --from slow.stalltop --top 5 --format csv\n\
                            Of a command: stalltop table cpu -- make -j8")]
    Table(table::Table),
    /// Count what the kernel does while it is asked, by eBPF: operations of file systems, waits for a CPU, queries. As root
    #[command(subcommand, after_help = "Example: stalltop probe fs --mount /data 10 6")]
    Probe(probe::Probe),
    /// Trace which thread wakes which, for some seconds: which thread holds a lock that names no owner, and what the holders wait for
    #[command(after_help = "Example: sudo stalltop trace --for 5s $(pidof server)\n\
                            Every process with a queue of 4 threads: sudo stalltop trace")]
    Trace(trace::Trace),
    /// Write every figure of every interval of a recording as CSV, JSON lines or Parquet
    #[command(after_help = "Example: stalltop export slow.stalltop -o slow.csv")]
    Export(export::Export),
    /// Print the completions for a shell
    #[command(after_help = "Example: stalltop completions bash > /etc/bash_completion.d/stalltop\n\
                            zsh: stalltop completions zsh > /usr/local/share/zsh/site-functions/_stalltop\n\
                            fish: stalltop completions fish > ~/.config/fish/completions/stalltop.fish")]
    Completions { shell: Shell },
    /// Print the manual page of the program or of a command
    #[command(after_help = "Example: stalltop man > /usr/share/man/man1/stalltop.1\n\
                            Of a command: stalltop man baseline set > /usr/share/man/man1/stalltop-baseline-set.1")]
    Man {
        /// The command, such as record or baseline set
        command: Vec<String>,
    },
}

/// Parses the command line; `arguments` begin with the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, EarlyExit> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if nicstat::is_invoked_as_nicstat(&arguments) {
        return nicstat::parse(arguments);
    }
    if arguments.get(1).is_some_and(|word| word == "help") && arguments.get(2).is_some_and(|word| word == "options") {
        return Err(EarlyExit::HelpOrVersion(help::all_options()));
    }
    // `stalltop help record` is `stalltop record --help`.
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    if let Some(usage_error) = arguments.get(1).and_then(|word| word.to_str()).and_then(misplaced_operand) {
        return Err(EarlyExit::UsageError(usage_error));
    }
    let command_path = subcommand_path(&arguments);
    let is_plugin = is_monitoring_plugin(command_path.as_deref(), &arguments);
    let has_split_list = has_split_list(&arguments);
    let for_caller = |exit: EarlyExit| {
        let exit = if has_split_list { exit.with_list_hint() } else { exit };
        if is_plugin { exit.of_plugin() } else { exit }
    };
    let matches = clap_command().override_help(help::FIRST_SCREEN).try_get_matches_from(arguments);
    let parsed =
        matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| match command_path.as_deref() {
            Some("nicstat") => nicstat::nicstat_error(&error, "stalltop nicstat -h"),
            Some(command) => for_caller(one_line_error(&error, Some(command), &format!("stalltop {command} --help"))),
            None => for_caller(one_line_error(&error, None, "stalltop --help")),
        })?;
    let Cli { root, configuration, live, command } = parsed;
    let default_live = Live {
        interval: value_parsers::DEFAULT_INTERVAL,
        history: value_parsers::DEFAULT_HISTORY,
        allow_signals: false,
        appearance: Appearance::default(),
    };
    match command {
        Some(_) if live != default_live => {
            let what = "options of a command follow its name: 'stalltop record -i 5s', not 'stalltop -i 5s record'";
            Err(for_caller(EarlyExit::UsageError(format!("{what}: try 'stalltop --help'"))))
        }
        Some(command) => Ok(Invocation { root, configuration, command }),
        None => Ok(Invocation { root, configuration, command: Command::Live(live) }),
    }
}

/// Whether the exit code is that of a monitoring plugin: of `check`, `fleet --once` and `fleet --json`.
fn is_monitoring_plugin(command: Option<&str>, arguments: &[OsString]) -> bool {
    let has = |option: &str| arguments.iter().any(|word| word == option);
    command == Some("check") || (command == Some("fleet") && (has("--once") || has("--json")))
}

/// The usage error for what is not a command but an interval, as vmstat takes it, a recording, or another tool.
fn misplaced_operand(word: &str) -> Option<String> {
    if word.parse::<f64>().is_ok_and(|number| number > 0.0) {
        let what = format!("'{word}' is not a command: for another interval try 'stalltop -i {word}'");
        return Some(format!("{what}, for lines 'stalltop table cpu {word}'"));
    }
    if word.ends_with(".stalltop") {
        return Some(format!("'{word}' is not a command but a recording: try 'stalltop replay {word}'"));
    }
    if word.contains('/') {
        return Some(format!("'{word}' is not a command but a path: for a recording try 'stalltop replay {word}'"));
    }
    let tool = other_tools::instead_of(word).filter(|tool| tool.name() != "nicstat")?;
    Some(format!("'{word}' is not a command: instead of '{}' try '{}': {}", tool.typed, tool.instead, tool.note))
}

/// The definition for completions and manual pages.
pub fn clap_command() -> clap::Command {
    let program = Cli::command();
    let hidden: Vec<clap::Arg> = program.get_arguments().map(|option| option.clone().hide(true)).collect();
    without_ineffective_options(program, &hidden)
}

/// Hides in the help of each command the options of all commands that change nothing there; it takes them nevertheless.
fn without_ineffective_options(program: clap::Command, hidden: &[clap::Arg]) -> clap::Command {
    program.mut_subcommands(|command| {
        let ids = options_without_effect(command.get_name());
        let options = hidden.iter().filter(|option| ids.contains(&option.get_id().as_str())).cloned();
        // clap gives a command the global options that it does not have.
        without_ineffective_options(command.args(options), hidden)
    })
}

/// Says why a machine is slow although its CPUs are idle: which threads are blocked, on what, and behind which other thread. Without
/// a command: the live screen, or, if standard output is not a terminal, one summary per second
#[derive(Debug, Parser)]
#[command(name = "stalltop", version, disable_help_subcommand = true)]
#[command(after_help = "Example: stalltop -i 500ms      (? shows the keys, q quits)")]
struct Cli {
    /// Read /proc and /sys below this directory
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(flatten)]
    configuration: Configuration,
    #[command(flatten)]
    live: Live,
    #[command(subcommand)]
    command: Option<Command>,
}
