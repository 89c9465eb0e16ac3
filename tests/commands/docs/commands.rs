//! The commands of the pages: each line of a `sh` block is run as printed, in a directory of its page. A comment before the block
//! says otherwise: `<!-- skip: why -->`, or `<!-- endless -->`, which is interrupted.

use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;
use std::{env, fs};

use stalltop::cli::other_tools::OTHER_TOOLS;

use super::place::{MAX_SECONDS, Place};
use super::{name, pages_with_commands, root};
use crate::harness::Session;

/// After this time an endless command is interrupted.
const ENDLESS_SECONDS: &str = "3";

/// A line of a block.
#[derive(Debug, PartialEq)]
struct Line {
    command: String,
    endless: bool,
}

/// The lines of a page to run, and why others are not run.
fn lines(page: &str) -> (Vec<Line>, Vec<String>) {
    let (mut run, mut skipped) = (Vec::new(), Vec::new());
    let (mut comment, mut block): (&str, Option<&str>) = ("", None);
    for line in page.lines() {
        match (line, block) {
            ("```", Some(_)) => (comment, block) = ("", None),
            (_, Some("sh")) => match comment.strip_prefix("<!-- skip: ") {
                Some(why) => skipped.push(format!("{line}: {}", why.trim_end_matches(" -->"))),
                None => run.push(Line { command: line.to_owned(), endless: comment == "<!-- endless -->" }),
            },
            (_, Some(_)) => {}
            _ if line.starts_with("```") => block = line.strip_prefix("```"),
            _ if !line.is_empty() => comment = line,
            _ => {}
        }
    }
    (run, skipped)
}

/// Runs a line; says what is wrong.
fn run(place: &Place, line: &Line) -> Option<String> {
    let command = line.command.as_str();
    if is_screen(command) {
        run_on_terminal(place, command);
        return None;
    }
    let (status, text) = place.output(command, if line.endless { ENDLESS_SECONDS } else { MAX_SECONDS });
    // The exit code of `check` is a result; an endless command ends by the signal; `head` ends while its pipe is still written to.
    let allowed: &[i32] = match command {
        _ if line.endless => &[0, 130],
        _ if command.contains("stalltop check") => &[0, 1, 2],
        _ if command.ends_with("| head") => &[0, 141],
        _ => &[0],
    };
    let code = status.code().unwrap_or(130);
    // Of a machine that is so busy that samples are lost `check` says that it does not know.
    if code == 3 && command.contains("stalltop check") && text.contains(": too early for an all-clear") {
        return None;
    }
    (!allowed.contains(&code)).then(|| format!("{command}: exit code {code}: {text}"))
}

/// Waits for the screen, and quits.
fn run_on_terminal(place: &Place, line: &str) {
    let mut session = place.terminal(line);
    session.until("screen", |screen| screen.alternate_screen() && screen.contents().contains("help"));
    quit(session, line);
}

/// By the key that ends the demo, too, where q goes to the next recording.
fn quit(mut session: Session, line: &str) {
    session.type_keys("\u{3}");
    let status = session.ended();
    assert!(status.success(), "{line}: {status:?}: {}", session.contents());
    session.terminal_is_restored();
}

/// Whether the line shows a screen until it is quit.
fn is_screen(line: &str) -> bool {
    let last = line.split('#').next().unwrap().split('|').next_back().unwrap();
    let mut words = last.split_whitespace();
    words.next() == Some("stalltop") && matches!(words.next(), None | Some("replay" | "demo" | "-i"))
}

/// The lines of a section of a page, which need nothing of other sections.
struct Section {
    page: String,
    lines: Vec<Line>,
}

/// Debian has it in non-free alone: it may be missing everywhere.
const NOT_FREE: &str = "nicstat";

/// Runs the lines that can be run here; returns how many those are, and what is wrong. With `STALLTOP_NO_SKIP` (tests/packages) a
/// missing tool is wrong, too.
fn run_section(section: &Section) -> (usize, Vec<String>) {
    let (place, page) = (Place::new(), &section.page);
    let no_skip = env::var_os("STALLTOP_NO_SKIP").is_some_and(|value| !value.is_empty());
    let (mut tried, mut wrong) = (0, Vec::new());
    for line in &section.lines {
        match place.lacks(&line.command) {
            Some(why) if no_skip && !line.command.starts_with(NOT_FREE) => {
                wrong.push(format!("{page}: {}: {why}, and STALLTOP_NO_SKIP is set", line.command));
            }
            Some(why) => println!("skipped: {page}: {}: {why}", line.command),
            None => {
                tried += 1;
                wrong.extend(run(&place, line).map(|why| format!("{page}: {why}")));
            }
        }
    }
    (tried, wrong)
}

/// Everywhere: those that need the program alone.
const MIN_TRIED: usize = 20;

/// Sections that are run at a time: their commands wait more than they compute.
const AT_A_TIME: usize = 12;

#[test]
fn the_commands_of_the_pages_run_as_printed() {
    let mut sections = Vec::new();
    for path in pages_with_commands() {
        let page = name(&path);
        for text in fs::read_to_string(path).unwrap().split("\n## ") {
            let (lines, skipped) = lines(text);
            skipped.iter().for_each(|why| println!("skipped: {page}: {why}"));
            sections.push(Section { page: page.clone(), lines });
        }
    }
    let printed: usize = sections.iter().map(|section| section.lines.len()).sum();
    assert!(printed > 60, "{printed} commands");
    sections.retain(|section| !section.lines.is_empty());
    // The longest ones first.
    sections.sort_by_key(|section| section.lines.len());
    let (sections, result) = (Mutex::new(sections), Mutex::new((0, Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let next = || sections.lock().unwrap().pop();
                while let Some(section) = next() {
                    let (tried, wrong) = run_section(&section);
                    let mut result = result.lock().unwrap();
                    result.0 += tried;
                    result.1.extend(wrong);
                }
            });
        }
    });
    let (tried, wrong) = result.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{tried} of {printed} commands of the pages run as printed");
    // The others need a tool or a kernel feature that the machine lacks.
    assert!(tried >= MIN_TRIED, "{tried} of {printed}");
}

#[test]
fn the_table_of_other_tools_is_that_of_the_program() {
    for page in ["README.md", "docs/start.md"] {
        let page = fs::read_to_string(root().join(page)).unwrap();
        let (_, table) = page.split_once("| you used | type | |\n| --- | --- | --- |\n").expect("the table");
        let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
        let wanted: Vec<String> =
            OTHER_TOOLS.iter().map(|tool| format!("| `{}` | `{}` | {} |", tool.typed, tool.instead, tool.note)).collect();
        assert_eq!(rows, wanted);
    }
}

#[test]
fn the_commands_of_the_table_of_other_tools_run() {
    let place = Place::new();
    place.write("FILE", &fs::read(Path::new(&root()).join("assets/demo/3-slow-disk.stalltop")).unwrap());
    let is_root = place.is_root();
    // Some run until they are interrupted: all at once.
    std::thread::scope(|scope| {
        for tool in OTHER_TOOLS {
            if tool.instead.starts_with("stalltop probe ") && !is_root {
                println!("skipped: {}: needs root", tool.instead);
                continue;
            }
            let line = Line { command: tool.instead.to_owned(), endless: true };
            let place = &place;
            scope.spawn(move || assert_eq!(run(place, &line), None));
        }
    });
}

/// Of README.md's first command; how long it took is printed for tests/packages/pages.sh, which has the limit.
#[test]
fn the_first_verdict_stands_on_the_live_screen() {
    let place = Place::new();
    let begun = Instant::now();
    let mut session = place.terminal("stalltop");
    let is_verdict = |line: &str| line.starts_with(['✔', '•', '▲', '✖']);
    session.until("a verdict", |screen| screen.contents().lines().nth(1).is_some_and(is_verdict));
    println!("the first verdict after {} ms", begun.elapsed().as_millis());
    quit(session, "stalltop");
}

#[test]
fn a_comment_before_a_block_skips_it() {
    let page =
        "<!-- skip: root -->\n```sh\nsudo a\n```\n\ntext\n```sh\nb\n```\n<!-- endless -->\n```sh\nc\n```\n```text\nd\n```\n";
    let line = |command: &str, endless| Line { command: command.to_owned(), endless };
    assert_eq!(lines(page), (vec![line("b", false), line("c", true)], vec!["sudo a: root".to_owned()]));
}
