//! The command line, made into a `Command`. Touches nothing: neither files nor the terminal nor a clock.

pub mod baseline;
pub mod check;
pub mod compare;
pub mod export;
pub mod finding_options;
pub mod mark;
pub mod nicstat;
pub mod report;
pub mod table;
pub mod time_range;
pub mod value_parsers;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::state::GlyphSet;
use crate::state::time_spec::TimeSpec;
pub use check::Check;

/// All of what was asked for.
#[derive(Debug, PartialEq)]
pub struct Invocation {
    /// Where /proc and /sys are: `/`, or a tree of captured files
    pub root: Option<PathBuf>,
    pub configuration: Configuration,
    pub command: Command,
}

/// In help and manual pages what all commands have stands behind what each has of its own.
const CONFIGURATION_HEADING: &str = "Configuration";
const DISPLAY_LAST: usize = 900;

/// Which configuration is read, and what goes before it.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Read this configuration instead of the user's and the system's
    #[arg(long, global = true, value_name = "FILE", help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub config: Option<PathBuf>,
    /// Read no configuration
    #[arg(long, global = true, conflicts_with = "config", help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub no_config: bool,
    /// The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd
    #[arg(long, global = true, value_name = "INT=MBPS,...", value_delimiter = ',')]
    #[arg(help_heading = CONFIGURATION_HEADING, display_order = DISPLAY_LAST)]
    pub nic_speed: Vec<String>,
}

/// What to do.
#[derive(Debug, PartialEq, Subcommand)]
pub enum Command {
    #[command(skip)]
    Live(Live),
    /// Record without a screen, until stopped
    #[command(after_help = "Example: stalltop record --for 10m /var/tmp/slow.stalltop\n\
                            A week in days: stalltop record --rotate 1d --keep 7d /var/lib/stalltop\n\
                            Counting work: stalltop record --ops 'redis-cli info stats | sed -n s/total_commands_processed://p' base.stalltop\n\
                            A live remote screen: ssh db1 stalltop record - | stalltop replay -")]
    Record(Record),
    /// The same screens on a recording, with time travel
    #[command(after_help = "Example: stalltop replay db1-20261120T120000.stalltop --at 12:03\n\
                            A live remote screen: ssh db1 stalltop record - | stalltop replay -")]
    Replay(Replay),
    /// Say what is wrong and exit: 0 nothing, 1 a warning, 2 something critical, 3 cannot tell
    #[command(after_help = "Example: stalltop check --for 10s --json\n\
                            For Nagios: stalltop check --for 30s --format nagios --ignore swapping --threshold disk-latency=5\n\
                            A log to leave running: stalltop check --watch >> /var/log/stalltop.log")]
    Check(Check),
    /// What a recording holds
    #[command(after_help = "Example: stalltop info --verify db1-20261120T120000.stalltop")]
    Info(Info),
    /// A recording as one page that needs nothing else: to attach to a ticket
    #[command(after_help = "Example: stalltop report db1-20261120T120000.stalltop -o slow.html")]
    Report(report::Report),
    /// A part of a recording as a recording of its own
    #[command(after_help = "Example: stalltop cut night.stalltop --from 03:10 --to 03:25 -o slow.stalltop")]
    Cut(time_range::Cut),
    /// Several recordings of one run of a machine as one, with the gaps between them
    #[command(after_help = "Example: stalltop cat db1-*.stalltop -o day.stalltop")]
    Cat(time_range::Cat),
    /// Recordings beside a base: each figure's median and p95, what became worse and how sure that is, cost per operation
    #[command(after_help = "Example: stalltop compare before.stalltop after.stalltop --ops BASE=120000,NEW=131000\n\
                            Certainty speaks of the time that was recorded: it knows nothing of how one run differs from the next.")]
    Compare(compare::Compare),
    /// Put a word into every recording and live session of this user
    #[command(after_help = "Example: stalltop mark \"deploy 42\"")]
    Mark(mark::Mark),
    /// What this user on this kernel can and cannot see, and what would change it
    #[command(after_help = "Example: sudo stalltop doctor")]
    Doctor,
    /// A drop-in nicstat: the same options, columns and arithmetic
    #[command(after_help = "Example: stalltop nicstat -z 1 10\nThe same: ln -s stalltop nicstat; ./nicstat -z 1 10")]
    #[command(disable_version_flag = true)]
    Nicstat(nicstat::Nicstat),
    /// The learned latencies of disks: show, set, learn, forget
    #[command(subcommand, after_help = "Example: stalltop baseline show")]
    Baseline(baseline::Baseline),
    /// Figures as lines: text, CSV, JSON; live, of a recording, or of a command
    #[command(after_help = "Example: stalltop table disk 1 10\n\
                            Of a recording: stalltop table task 1m --from slow.stalltop --top 5 --format csv\n\
                            Of a command: stalltop table cpu -- make -j8")]
    Table(table::Table),
    /// Every figure of every interval of a recording, as CSV, JSON lines or Parquet
    #[command(after_help = "Example: stalltop export slow.stalltop -o slow.csv")]
    Export(export::Export),
    /// Completions for a shell, to standard output
    #[command(after_help = "Example: stalltop completions bash > /etc/bash_completion.d/stalltop")]
    Completions { shell: Shell },
    /// The manual page of the program or of a command, to standard output
    #[command(after_help = "Example: stalltop man > /usr/share/man/man1/stalltop.1\n\
                            Of a command: stalltop man baseline set > /usr/share/man/man1/stalltop-baseline-set.1")]
    Man {
        /// The command, such as record or baseline set
        command: Vec<String>,
    },
}

/// Options of the screen.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq)]
pub struct Appearance {
    /// Draw with ASCII characters only (as with LC_ALL=C)
    #[arg(long)]
    pub ascii: bool,
    /// Draw with all characters, whatever the locale and TERM say
    #[arg(long, conflicts_with = "ascii")]
    pub unicode: bool,
    /// Draw without colours (as with NO_COLOR set)
    #[arg(long, visible_alias = "mono")]
    pub no_color: bool,
}

impl Appearance {
    /// The characters that were asked for; `None` leaves it to the environment.
    pub fn glyphs(&self) -> Option<GlyphSet> {
        let asked = [(self.ascii, GlyphSet::Ascii), (self.unicode, GlyphSet::Unicode)];
        asked.into_iter().find(|(asked, _)| *asked).map(|(_, glyphs)| glyphs)
    }
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Live {
    /// Time between samples: 100ms to 1h
    #[arg(short, long, short_alias = 'd', default_value = "1s", value_parser = value_parsers::interval)]
    pub interval: Duration,
    /// Keep so much in memory: to go back in, to write (w), to record from (R); at most 16 MiB
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = value_parsers::positive_duration)]
    pub history: Duration,
    #[command(flatten)]
    pub appearance: Appearance,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Record {
    /// The new file, `-` for standard output [default: HOST-YYYYMMDDTHHMMSS.stalltop]
    pub file: Option<PathBuf>,
    /// Time between samples: 100ms to 1h
    #[arg(short, long, default_value = "1s", value_parser = value_parsers::interval)]
    pub interval: Duration,
    /// Stop after this time, such as 10m
    #[arg(long = "for", value_name = "TIME", value_parser = value_parsers::positive_duration)]
    pub span: Option<Duration>,
    /// Keep command names and leave their arguments out
    #[arg(long)]
    pub redact: bool,
    /// Stop before the file grows larger, such as 1G; with --rotate, begin the next one
    #[arg(long, value_name = "SIZE", value_parser = value_parsers::size)]
    pub max_size: Option<u64>,
    /// FILE is a directory: begin a new recording in it after this time, such as 1d. Replay the directory as one
    #[arg(long, value_name = "TIME", value_parser = value_parsers::positive_duration, requires = "file")]
    pub rotate: Option<Duration>,
    /// Delete our own ended recordings in the directory that are older, such as 7d
    #[arg(long, value_name = "TIME", value_parser = value_parsers::positive_duration, requires = "rotate")]
    pub keep: Option<Duration>,
    /// Run `sh -c CMD` at most once a second, with your own rights, and record the running total that it prints as its first
    /// word: `compare` then tells what an operation costs. Killed after 5 s; the recording never waits for it
    #[arg(long, value_name = "CMD")]
    pub ops: Option<OsString>,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Replay {
    /// The recording, `-` for a stream on standard input
    pub file: PathBuf,
    /// Begin here: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, allow_hyphen_values = true)]
    pub at: Option<TimeSpec>,
    #[command(flatten)]
    pub range: time_range::TimeRange,
    /// Play so many times as fast
    #[arg(long, default_value = "1", value_parser = value_parsers::speed)]
    pub speed: f64,
    #[command(flatten)]
    pub appearance: Appearance,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Info {
    /// The recording, or a directory of them
    pub file: PathBuf,
    /// Check every frame
    #[arg(long)]
    pub verify: bool,
    /// Check every frame, and copy all that is sound into this new file
    #[arg(long, value_name = "OUT")]
    pub repair: Option<PathBuf>,
}

/// How the command line was not one to act upon.
#[derive(Debug, PartialEq, Eq)]
pub enum EarlyExit {
    /// `--help`, `--version`: text for standard output
    HelpOrVersion(String),
    /// Wrong usage, in one line
    UsageError(String),
    /// The same of nicstat, whose original has an exit code of its own for it
    NicstatUsageError(String),
}

/// Reads the command line; `arguments` begin with the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, EarlyExit> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if nicstat::is_invoked_as_nicstat(&arguments) {
        return nicstat::parse(arguments);
    }
    // `stalltop help record` is `stalltop record --help`.
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    if let Some(number) =
        arguments.get(1).and_then(|word| word.to_str()).filter(|word| word.parse::<f64>().is_ok_and(|it| it > 0.0))
    {
        let what = format!("'{number}' is no command: for another interval try 'stalltop -i {number}'");
        return Err(EarlyExit::UsageError(format!("{what}, for lines 'stalltop table cpu {number}'")));
    }
    if let Some(name) = arguments.get(1).and_then(|word| word.to_str()).filter(|word| word.ends_with(".stalltop")) {
        return Err(EarlyExit::UsageError(format!("'{name}' is no command but a recording: try 'stalltop replay {name}'")));
    }
    let asked = subcommand_path(&arguments);
    let line = Cli::try_parse_from(arguments).map_err(|error| match asked.as_deref() {
        Some("nicstat") => nicstat::nicstat_error(&error, "stalltop nicstat -h"),
        Some(command) => one_line_error(&error, &format!("stalltop {command} --help")),
        None => one_line_error(&error, "stalltop --help"),
    })?;
    let unused = line.live
        != Live {
            interval: value_parsers::DEFAULT_INTERVAL,
            history: value_parsers::DEFAULT_HISTORY,
            appearance: Appearance::default(),
        };
    let Cli { root, configuration, live, command } = line;
    match command {
        Some(_) if unused => {
            let what = "options of a command stand behind its name: 'stalltop record -i 5s', not 'stalltop -i 5s record'";
            Err(EarlyExit::UsageError(format!("{what}: try 'stalltop --help'")))
        }
        Some(command) => Ok(Invocation { root, configuration, command }),
        None => Ok(Invocation { root, configuration, command: Command::Live(live) }),
    }
}

/// The definition that completions and the manual page are made from.
pub fn clap_command() -> clap::Command {
    Cli::command()
}

/// How much of the idle time is really free, who is stuck, on what, behind whom. Without a command: the live screen, or,
/// where standard output is no terminal, one summary a second
#[derive(Debug, Parser)]
#[command(name = "stalltop", version, disable_help_subcommand = true)]
#[command(after_help = "Example: stalltop -i 500ms      (? shows the keys, q quits)\n\
                        Environment: STALLTOP_CONFIG=FILE, STALLTOP_THRESHOLD=KIND=VALUE,..., STALLTOP_SPEED=INT=MBPS[fd|hd],...\n\
                        Files: ~/.config/stalltop/config.toml, /etc/stalltop/config.toml\n\
                        Exit codes: 0 fine; 1 failed; 2 wrong usage; 3 damaged recording; 4 not a recording; 5 cannot write it; 6 refused; 7 no /proc")]
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

fn parse_timestamp(text: &str) -> Result<TimeSpec, String> {
    TimeSpec::parse(text)
        .ok_or_else(|| "a time is 12:03, 12:03:15, RFC 3339, -5m before the end or +90s after the start".to_owned())
}

/// The command that is meant: the first word that is one's name, and behind it that of a command below it.
fn subcommand_path(arguments: &[OsString]) -> Option<String> {
    let definition = clap_command();
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let (name, command) = words.find_map(|word| Some((word, definition.find_subcommand(word)?)))?;
    let below = words.next().filter(|word| command.find_subcommand(word).is_some());
    Some(std::iter::once(name).chain(below).collect::<Vec<_>>().join(" "))
}

/// clap explains on several lines; ours is one: what, why, what to do.
fn one_line_error(error: &clap::Error, help: &str) -> EarlyExit {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand) {
        return EarlyExit::HelpOrVersion(error.render().to_string());
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut what = lines.next().unwrap_or_default().trim_start_matches("error:").trim().trim_end_matches(':').to_owned();
    let mut last = "";
    for line in lines {
        if line.starts_with("Usage:") || line.starts_with("For more") {
            break;
        }
        if let Some(tip) = line.strip_prefix("tip:") {
            // Of the others none helps: what begins with a minus is never meant as a value.
            if let Some((_, meant)) = tip.split_once("exist").filter(|(similar, _)| similar.contains("similar")) {
                what.push_str(&format!(": did you mean {}?", meant.trim_start_matches('s').trim_start_matches([':', ' '])));
            }
            continue;
        }
        // Arguments that are missing stand one below the other.
        let is_argument = |it: &str| it.starts_with(['<', '-']);
        what.push_str(match line {
            _ if line.starts_with('[') => " ",
            _ if is_argument(last) && is_argument(line) => ", ",
            _ => ": ",
        });
        what.push_str(line);
        last = line;
    }
    EarlyExit::UsageError(format!("{what}: try '{help}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> Result<Invocation, EarlyExit> {
        parse(std::iter::once("stalltop").chain(words.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn the_definition_is_sound() {
        clap_command().debug_assert();
    }

    #[test]
    fn what_is_wrong_is_one_plain_line() {
        let said = |words: &str| match line(words) {
            Err(EarlyExit::UsageError(said)) => said,
            _ => panic!("{words}"),
        };
        for (words, end) in [
            ("chekc", "unrecognized subcommand 'chekc': did you mean 'check'?: try 'stalltop --help'"),
            ("table disc", ": did you mean 'disk'?: try 'stalltop table --help'"),
            ("check --for -5s", "unexpected argument '-5' found: try 'stalltop check --help'"),
            ("cat", "not provided: --output <FILE>, <FILES> <FILES>...: try 'stalltop cat --help'"),
            ("baseline set vda", "not provided: <OPERATION>, <VALUE>: try 'stalltop baseline set --help'"),
        ] {
            assert!(said(words).ends_with(end), "{words}: {}", said(words));
        }
    }

    #[test]
    fn without_a_command_it_is_live() {
        let Ok(Invocation { command: Command::Live(live), root: None, .. }) = line("-i 500ms --ascii") else { panic!() };
        assert_eq!(live.interval, Duration::from_millis(500));
        assert!(live.appearance.ascii);
    }

    #[test]
    fn commands_take_their_options() {
        let Ok(Invocation { command: Command::Replay(replay), .. }) = line("replay x.stalltop --at -5m --speed 10") else {
            panic!()
        };
        assert_eq!((replay.at, replay.speed), (Some(TimeSpec::BeforeEnd(300.0)), 10.0));
        let Ok(Invocation { command: Command::Record(record), .. }) = line("record - --for 10m --max-size 1G --redact") else {
            panic!()
        };
        assert_eq!((record.span, record.max_size, record.redact), (Some(Duration::from_secs(600)), Some(1 << 30), true));
        let Ok(Invocation { command: Command::Check(check), root, .. }) = line("check --json --root /tmp/x") else { panic!() };
        assert!(check.json && root == Some(PathBuf::from("/tmp/x")));
        assert_eq!(line("--root /tmp/x check").map(|line| line.root), Ok(Some(PathBuf::from("/tmp/x"))));
    }

    #[test]
    fn words_of_other_tools_lead_somewhere() {
        assert_eq!(line("-d 2").map(|it| it.command), line("-i 2s").map(|it| it.command), "top's");
        let Err(EarlyExit::HelpOrVersion(text)) = line("help record") else { panic!() };
        assert!(text.contains("--rotate"), "{text}");
        assert!(matches!(line("help"), Err(EarlyExit::HelpOrVersion(text)) if text.contains("Commands:")));
        let Err(EarlyExit::UsageError(text)) = line("1 5") else { panic!() };
        assert!(text.contains("'stalltop -i 1'") && text.contains("'stalltop table cpu 1'"), "{text}");
    }

    #[test]
    fn a_recording_alone_is_told_how_to_be_replayed() {
        let Err(EarlyExit::UsageError(text)) = line("slow.stalltop") else { panic!() };
        assert!(text.contains("'stalltop replay slow.stalltop'"), "{text}");
    }

    #[test]
    fn wrong_usage_is_one_line_that_says_what_to_do() {
        for words in [
            "--nonsense",
            "-i 5ms",
            "-i 2h",
            "-i x",
            "record --for 0s",
            "replay",
            "replay x --at noon",
            "nonsense",
            "check x -i 1s",
            "-i 5s record",
        ] {
            let Err(EarlyExit::UsageError(text)) = line(words) else { panic!("{words}") };
            let command = words.split(' ').next().filter(|word| ["record", "replay", "check"].contains(word));
            let help = command.map_or("try 'stalltop --help'".to_owned(), |word| format!("try 'stalltop {word} --help'"));
            assert!(!text.contains('\n') && (text.ends_with(&help) || text.contains("behind its name")), "{text}");
        }
        let Err(EarlyExit::UsageError(text)) = line("baseline set sda") else { panic!() };
        assert!(text.ends_with(": <OPERATION>, <VALUE>: try 'stalltop baseline set --help'"), "{text}");
        let Err(EarlyExit::UsageError(text)) = line("-i 5ms") else { panic!() };
        assert!(text.contains("100ms to 1h"), "{text}");
    }

    #[test]
    fn every_help_ends_with_an_example() {
        let mut commands: Vec<clap::Command> = clap_command().get_subcommands().cloned().collect();
        commands.push(clap_command());
        for command in commands {
            let name = command.get_name().to_owned();
            // Whatever COLUMNS says here.
            assert!(command.clone().term_width(80).render_help().to_string().contains("Example: "), "{name}");
        }
    }
}
