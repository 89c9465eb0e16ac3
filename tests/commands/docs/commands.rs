//! The commands of the pages: each line of a `sh` block is run as printed, in a directory of its page. A comment before the block
//! says otherwise: `<!-- skip: why -->`, or `<!-- endless -->`, which is interrupted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use portable_pty::CommandBuilder;
use stalltop::cli::other_tools::OTHER_TOOLS;

use super::{name, pages_with_commands, root};
use crate::harness::{Session, prepared, program};

/// After this time an endless command is interrupted, and any other one has failed.
const ENDLESS_SECONDS: &str = "3";
const MAX_SECONDS: &str = "180";

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

/// Where the commands of a page run: a directory, with the program in its path.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let program = fs::canonicalize(program()).unwrap();
        symlink(program, folder.path().join("bin/stalltop")).unwrap();
        Place { folder }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let path = format!("{}:{}:/usr/sbin:/sbin", at("bin"), std::env::var("PATH").unwrap());
        vec![
            ("PATH", path),
            ("HOME", at("home")),
            ("XDG_STATE_HOME", at("state")),
            ("XDG_CONFIG_HOME", at("config")),
            ("XDG_RUNTIME_DIR", at("run")),
        ]
    }

    /// The first program of the line that is not installed.
    fn missing(&self, line: &str) -> Option<String> {
        // Every second part is between quotes.
        let unquoted: String = line.split(['\'', '"']).step_by(2).collect::<Vec<_>>().join("x");
        let command = unquoted.split(" #").next().unwrap();
        let words = command.split(['|', ';']).filter_map(|part| part.split_whitespace().next());
        words.map(str::to_owned).find(|word| !self.status(&format!("command -v {word}"), MAX_SECONDS).0.success())
    }

    fn status(&self, line: &str, seconds: &str) -> (std::process::ExitStatus, String) {
        let mut command = Command::new("timeout");
        command.args(["--preserve-status", "--signal=INT", "--kill-after=10", seconds, "bash", "-o", "pipefail", "-c", line]);
        command.current_dir(self.folder.path()).envs(self.environment()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status, text)
    }

    /// Runs a line; says what is wrong.
    fn run(&self, line: &Line) -> Option<String> {
        let command = line.command.as_str();
        if is_screen(command) {
            self.run_on_terminal(command);
            return None;
        }
        let (status, text) = self.status(command, if line.endless { ENDLESS_SECONDS } else { MAX_SECONDS });
        // The exit code of `check` is a result; an endless command ends by the signal; `head` ends while its pipe is still written to.
        let allowed: &[i32] = match command {
            _ if line.endless => &[0, 130],
            _ if command.contains("stalltop check") => &[0, 1, 2],
            _ if command.ends_with("| head") => &[0, 141],
            _ => &[0],
        };
        let code = status.code().unwrap_or(130);
        (!allowed.contains(&code)).then(|| format!("{command}: exit code {code}: {text}"))
    }

    /// Waits for the screen, and quits.
    fn run_on_terminal(&self, line: &str) {
        let mut command = CommandBuilder::new("bash");
        command.args(["-c", line]);
        let mut command = prepared(command);
        command.cwd(self.folder.path());
        self.environment().into_iter().for_each(|(name, value)| command.env(name, value));
        let mut session = Session::start(command, 80, 24);
        session.until("screen", |screen| screen.alternate_screen() && screen.contents().contains("help"));
        // The last key ends the demo, too, where q goes to the next recording.
        session.type_keys("\u{3}");
        let status = session.ended();
        assert!(status.success(), "{line}: {status:?}: {}", session.contents());
        session.terminal_is_restored();
    }
}

/// Whether the line shows a screen until it is quit.
fn is_screen(line: &str) -> bool {
    let last = line.split('#').next().unwrap().split('|').next_back().unwrap();
    let mut words = last.split_whitespace();
    words.next() == Some("stalltop") && matches!(words.next(), None | Some("replay" | "demo" | "-i"))
}

#[test]
fn the_commands_of_the_pages_run_as_printed() {
    let run_page = |page: PathBuf| {
        let (lines, skipped) = lines(&fs::read_to_string(&page).unwrap());
        let (place, mut wrong) = (Place::new(), Vec::new());
        skipped.iter().for_each(|why| println!("skipped: {}: {why}", name(&page)));
        let run = lines.len();
        for line in lines {
            match place.missing(&line.command) {
                Some(program) => println!("skipped: {}: {}: {program} is not installed", name(&page), line.command),
                None => wrong.extend(place.run(&line).map(|why| format!("{}: {why}", name(&page)))),
            }
        }
        (run, wrong)
    };
    let threads: Vec<_> = pages_with_commands().into_iter().map(|page| std::thread::spawn(move || run_page(page))).collect();
    let (mut run, mut wrong) = (0, Vec::new());
    for thread in threads {
        let (lines, why) = thread.join().unwrap();
        run += lines;
        wrong.extend(why);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 60, "{run} commands");
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
    fs::copy(Path::new(&root()).join("assets/demo/3-slow-disk.stalltop"), place.folder.path().join("FILE")).unwrap();
    // Some run until they are interrupted: all at once.
    std::thread::scope(|scope| {
        for tool in OTHER_TOOLS {
            let line = Line { command: tool.instead.to_owned(), endless: true };
            let place = &place;
            scope.spawn(move || assert_eq!(place.run(&line), None));
        }
    });
}

#[test]
fn a_comment_before_a_block_skips_it() {
    let page =
        "<!-- skip: root -->\n```sh\nsudo a\n```\n\ntext\n```sh\nb\n```\n<!-- endless -->\n```sh\nc\n```\n```text\nd\n```\n";
    let line = |command: &str, endless| Line { command: command.to_owned(), endless };
    assert_eq!(lines(page), (vec![line("b", false), line("c", true)], vec!["sudo a: root".to_owned()]));
}
