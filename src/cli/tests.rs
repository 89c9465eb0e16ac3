//! Command lines: what they mean, and the messages for wrong ones.

use std::time::Duration;

use super::time_range::RecordingTime;
use super::*;
use crate::units::time_spec::TimeSpec;

fn line(words: &str) -> Result<Invocation, EarlyExit> {
    parse(std::iter::once("stalltop").chain(words.split_whitespace()).map(OsString::from))
}

#[test]
fn the_definition_is_consistent() {
    clap_command().debug_assert();
}

#[test]
fn a_command_takes_options_without_effect_but_does_not_show_them() {
    const ALL: [&str; 3] = ["--no-config", "--nic-speed", "--probes"];
    for (words, shown) in [
        ("help info", &[][..]),
        ("help probe runq", &[]),
        ("help baseline set", &[]),
        ("help baseline show", &["--no-config"]),
        ("help report", &["--no-config", "--nic-speed"]),
        ("help compare", &["--no-config", "--nic-speed"]),
        ("help trace", &["--no-config", "--probes"]),
        ("help check", &ALL),
        ("help options", &ALL),
    ] {
        let Err(EarlyExit::HelpOrVersion(text)) = line(words) else { panic!("{words}") };
        let found: Vec<&str> = ALL.into_iter().filter(|option| text.contains(option)).collect();
        assert_eq!(found, shown, "{words}: {text}");
    }
    assert!(line("info --no-config x.stalltop").is_ok_and(|line| line.configuration.no_config));
    for words in ["report --probes off x -o y", "--probes off compare x y", "baseline set --probes off vda read 1ms"] {
        assert!(line(words).is_ok_and(|line| line.configuration.probes == Some(ProbeMode::Off)), "{words}");
    }
}

#[test]
fn a_time_is_also_the_text_of_a_mark() {
    let at = |text: &str| RecordingTime::parse(text);
    assert_eq!(at("12:03"), Ok(RecordingTime::Time(TimeSpec::TimeOfDay(43_380))));
    assert_eq!(at("deploy 42"), Ok(RecordingTime::Mark("deploy 42".to_owned())));
    for wrong in ["", "25:61", "-5min", "+x", "12.03"] {
        assert!(at(wrong).is_err_and(|why| why.ends_with("or the text of a mark")), "{wrong}");
    }
}

#[test]
fn clap_messages_become_one_line() {
    let message = |words: &str| match line(words) {
        Err(EarlyExit::UsageError(message) | EarlyExit::PluginUsageError(message)) => message,
        _ => panic!("{words}"),
    };
    for (words, end) in [
        ("chekc", "unrecognized subcommand 'chekc': did you mean 'check'?: try 'stalltop --help'"),
        ("demo 9", ": they are 1 to 7, and 'stalltop demo --list' has their titles: try 'stalltop demo --help'"),
        ("demo x", ": they are 1 to 7, and 'stalltop demo --list' has their titles: try 'stalltop demo --help'"),
        ("table disc", ": did you mean 'disk'?: try 'stalltop table --help'"),
        ("check --for -5s", "unexpected argument '-5' found: times and counts are not negative: try 'stalltop check --help'"),
        (
            "table disk --columns r_await, w_await",
            "such as 500ms or 10m: a list has no blanks after its commas: try 'stalltop table --help'",
        ),
        ("record x.stalltop, y", "unexpected argument 'y' found: try 'stalltop record --help'"),
        ("cat", "not provided: --output <FILE>, <FILES> <FILES>...: try 'stalltop cat --help'"),
        ("baseline set vda", "not provided: <OPERATION>, <VALUE>: try 'stalltop baseline set --help'"),
        ("check --rotate 1d", "'--rotate' found: it is an option of 'stalltop record': try 'stalltop check --help'"),
        ("--rotat 1d", "'--rotat' found: did you mean '--rotate' of 'stalltop record'?: try 'stalltop --help'"),
        (
            "record -o x",
            "'-o' found: it is an option of 'stalltop report', 'stalltop cut', 'stalltop cat', …: try 'stalltop record --help'",
        ),
        ("/var/tmp/night", "is not a command but a path: for a recording try 'stalltop replay /var/tmp/night'"),
    ] {
        assert!(message(words).ends_with(end), "{words}: {}", message(words));
    }
}

/// Each option of at least four letters is recognized without the last one, and with two exchanged. (`--form` may be
/// `--for` or `--format`.)
#[test]
fn a_misspelt_option_is_reported_with_the_right_one() {
    fn misspelt(name: &str) -> [String; 2] {
        let mut letters: Vec<char> = name.chars().collect();
        let middle = letters.len() / 2;
        letters.swap(middle - 1, middle);
        [name[..name.len() - 1].to_owned(), letters.into_iter().collect()]
    }
    let mut tried = 0;
    for command in clap_command().get_subcommands().filter(|command| !command.has_subcommands()) {
        let longs: Vec<&str> = command.get_arguments().filter_map(|argument| argument.get_long()).collect();
        for long in longs.iter().filter(|long| long.len() >= 4) {
            let is_other = |wrong: &String| longs.iter().any(|known| wrong.starts_with(known));
            for wrong in misspelt(long).iter().filter(|wrong| !is_other(wrong)) {
                let words = format!("{} --{wrong}", command.get_name());
                let Err(EarlyExit::UsageError(text) | EarlyExit::PluginUsageError(text) | EarlyExit::NicstatUsageError(text)) =
                    line(&words)
                else {
                    panic!("{words}")
                };
                assert!(text.contains(&format!("did you mean '--{long}")), "{words}: {text}");
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "{tried}");
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
    assert_eq!((replay.at, replay.speed), (Some(RecordingTime::Time(TimeSpec::BeforeEnd(300.0))), 10.0));
    let Ok(Invocation { command: Command::Record(record), .. }) = line("record - --for 10m --max-size 1G --redact") else {
        panic!()
    };
    assert_eq!((record.span, record.max_size, record.redact), (Some(Duration::from_secs(600)), Some(1 << 30), true));
    let Ok(Invocation { command: Command::Check(check), root, .. }) = line("check --json --root /tmp/x") else { panic!() };
    assert!(check.json && root == Some(PathBuf::from("/tmp/x")));
    assert_eq!(line("--root /tmp/x check").map(|line| line.root), Ok(Some(PathBuf::from("/tmp/x"))));
}

#[test]
fn options_of_other_tools_are_accepted_or_explained() {
    assert_eq!(line("-d 2").map(|it| it.command), line("-i 2s").map(|it| it.command), "top's");
    let Err(EarlyExit::HelpOrVersion(text)) = line("help record") else { panic!() };
    assert!(text.contains("--rotate"), "{text}");
    assert!(matches!(line("help"), Err(EarlyExit::HelpOrVersion(text)) if text == help::FIRST_SCREEN));
    assert!(matches!(line("-h"), Err(EarlyExit::HelpOrVersion(text)) if text == help::FIRST_SCREEN));
    assert!(matches!(line("help options"), Err(EarlyExit::HelpOrVersion(text)) if text.contains("--allow-signals")));
    let Err(EarlyExit::UsageError(text)) = line("iostat -x 1") else { panic!() };
    assert!(text.contains("instead of 'iostat -x 1' try 'stalltop table disk 1'"), "{text}");
    let Err(EarlyExit::UsageError(text)) = line("1 5") else { panic!() };
    assert!(text.contains("'stalltop -i 1'") && text.contains("'stalltop table cpu 1'"), "{text}");
}

#[test]
fn a_recording_without_a_command_gets_a_hint() {
    let Err(EarlyExit::UsageError(text)) = line("slow.stalltop") else { panic!() };
    assert!(text.contains("'stalltop replay slow.stalltop'"), "{text}");
}

#[test]
fn wrong_usage_is_one_line_with_a_remedy() {
    for words in [
        "--nonsense",
        "-i 5ms",
        "-i 2h",
        "-i x",
        "record --for 0s",
        "replay",
        "replay x --at 25:61",
        "nonsense",
        "check x -i 1s",
        "-i 5s record",
    ] {
        let Err(EarlyExit::UsageError(text) | EarlyExit::PluginUsageError(text)) = line(words) else { panic!("{words}") };
        assert_eq!(matches!(line(words), Err(EarlyExit::PluginUsageError(_))), words.starts_with("check"), "{words}");
        let command = words.split(' ').next().filter(|word| ["record", "replay", "check"].contains(word));
        let help = command.map_or("try 'stalltop --help'".to_owned(), |word| format!("try 'stalltop {word} --help'"));
        assert!(!text.contains('\n') && (text.ends_with(&help) || text.contains("follow its name")), "{text}");
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
        // Independent of COLUMNS.
        assert!(command.clone().term_width(80).render_help().to_string().contains("Example: "), "{name}");
    }
}
