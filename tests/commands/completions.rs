//! What bash, zsh and fish offer at the cursor: bash and zsh in a terminal, as a user types, fish by its `complete -C`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use portable_pty::CommandBuilder;
use stalltop::recording::{Recorder, RecorderOptions, Replayer};

use crate::harness::{Session, program};

/// A mark whose text a shell would execute, split or change.
const HOSTILE_MARK: &str = "hotfix's $(touch executed) `touch executed` {1,2} \" & ~ [a] \\";

/// What is typed before the tab, words that are offered, and one that is not.
struct Case {
    typed: String,
    offered: Vec<String>,
    not_offered: &'static str,
}

fn case(typed: &str, offered: &[&str], not_offered: &'static str) -> Case {
    let offered = offered.iter().map(|&word| word.to_owned()).collect();
    Case { typed: format!("stalltop {typed}"), offered, not_offered }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("che", &["check"], "record"),
        case("check --only disk-", &["disk-latency", "disk-drift"], "oom-kill"),
        case("check --ignore=disk-", &["disk-latency", "disk-drift"], "oom-kill"),
        case("check --ignore=oom-kill,disk-st", &["--ignore=oom-kill,disk-stalled"], "disk-drift"),
        case("check --threshold hung-", &["hung-task=", "hung-seconds="], "disk-latency"),
        case("check --format na", &["nagios"], "json"),
        case("replay ", &["marked.stalltop", "segments/"], "notes.txt"),
        case("replay marked.stalltop --at dep", &["deploy 42"], "rollback"),
        case("replay marked.stalltop --at=", &["deploy 42", "rollback"], "notes.txt"),
        case("cut segments --from=roll", &["--from=rollback"], "deploy"),
        case("fleet ", &["db1", "included1", "known1", "ssh://gate:2222"], "*.example.org"),
        case("fleet admin@inc", &["admin@included1"], "db1"),
        case("mcp --host=know", &["--host=known1"], "gate"),
        case("--theme=hi", &["--theme=high-contrast"], "dark"),
        case("demo ", &["1", "7"], "marked.stalltop"),
        case("table thr", &["thread"], "task"),
        case("table disk --columns=r_await,w_aw", &["--columns=r_await,w_await"], "r_base"),
        case("table disk --sort w_p99.", &["w_p99.9"], "r_await"),
        case("--probes=of", &["--probes=off"], "auto"),
        case("probe ", &["fs", "runq", "query"], "marked.stalltop"),
        case("man baseline s", &["show", "set"], "check"),
    ];
    let first = |directory: &str| {
        let names = fs::read_dir(directory).into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect::<BTreeSet<String>>().pop_first()
    };
    match first("/sys/block") {
        Some(disk) => cases.push(case("baseline show ", &[&disk], "marked.stalltop")),
        None => println!("skipped: no block device"),
    }
    match first("/sys/class/net") {
        Some(nic) => cases.push(case("nicstat -i ", &[&nic], "marked.stalltop")),
        None => println!("skipped: no network interface"),
    }
    cases
}

/// A home directory with recordings, and with hosts that ssh knows.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir_all(path(".ssh/config.d")).unwrap();
    fs::write(path(".ssh/config"), "Include config.d/*\nHost db1 *.example.org\n").unwrap();
    fs::write(path(".ssh/config.d/more"), "Host included1\n").unwrap();
    fs::write(path(".ssh/known_hosts"), "known1 ssh-rsa A\n[gate]:2222 ssh-rsa A\n|1|a|b ssh-rsa A\n").unwrap();
    fs::write(path("notes.txt"), "").unwrap();
    marked_recording(&path("marked.stalltop"));
    fs::create_dir(path("segments")).unwrap();
    fs::copy(path("marked.stalltop"), path("segments/marked.stalltop")).unwrap();
    fs::create_dir(path("functions")).unwrap();
    for (shell, name) in [("bash", "stalltop.bash"), ("zsh", "functions/_stalltop"), ("fish", "stalltop.fish")] {
        let output = Command::new(program()).args(["completions", shell]).output().unwrap();
        fs::write(path(name), output.stdout).unwrap();
    }
    home
}

const MARKS: [&str; 3] = ["deploy 42", "rollback", HOSTILE_MARK];

/// Records this machine, and adds the marks.
fn marked_recording(path: &Path) {
    let without = path.with_extension("without");
    let arguments = ["record", "-i", "100ms", "--for", "600ms", without.to_str().unwrap()];
    let mut record = Command::new(program());
    record.args(arguments).env("XDG_RUNTIME_DIR", path.parent().unwrap()).env("XDG_STATE_HOME", path.parent().unwrap());
    assert!(record.output().unwrap().status.success());
    let mut replayer = Replayer::open(&without).unwrap();
    let mut recorder = Recorder::create(path, replayer.meta(), RecorderOptions::default()).unwrap();
    for at in 0..replayer.len() {
        let sample = replayer.sample(at).unwrap();
        recorder.offer(sample.clone());
        if let Some(mark) = MARKS.get(at) {
            assert!(recorder.add_mark(sample.at.into(), mark));
        }
    }
    assert!(replayer.len() > MARKS.len(), "an interval for each mark");
    recorder.finish(Duration::from_secs(60));
    fs::remove_file(without).unwrap();
}

/// Where the program is found first.
fn search_path() -> String {
    format!("{}:{}", Path::new(program()).parent().unwrap().display(), std::env::var("PATH").unwrap())
}

const PROMPT: &str = "ready>";

/// A shell at a prompt, and its home directory.
fn start(shell: &str, arguments: &[&str], setup: &str) -> (Session, tempfile::TempDir) {
    let home = home();
    let mut command = CommandBuilder::new(shell);
    command.args(arguments);
    command.cwd(home.path());
    command.env("HOME", home.path());
    command.env("PATH", search_path());
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    ["XDG_CONFIG_HOME", "LC_ALL", "PROMPT_COMMAND", "ZDOTDIR"].into_iter().for_each(|name| command.env_remove(name));
    let mut session = Session::start(command, 200, 60);
    session.type_keys(&format!("{setup}; PS1='{PROMPT} '; clear\r"));
    session.until("prompt", is_ready);
    (session, home)
}

fn is_ready(screen: &vt100::Screen) -> bool {
    screen.contents().trim_end() == PROMPT
}

/// Clears the line, and the screen.
fn clear(session: &mut Session) {
    session.type_keys("\x15\x0c");
    session.until("empty line", is_ready);
}

/// Types each case, with a tab, until what is wanted is on the screen.
fn completes_words((mut session, _home): (Session, tempfile::TempDir)) {
    for Case { typed, offered, not_offered } in cases() {
        session.type_keys(&format!("{typed}\t"));
        // Without the backslashes before blanks.
        let text = |screen: &vt100::Screen| screen.contents().replace('\\', "");
        session.until(&format!("{offered:?} after '{typed}'"), |screen| offered.iter().all(|word| text(screen).contains(word)));
        let screen = session.contents().replace('\\', "");
        assert!(!screen.split_whitespace().any(|word| word == not_offered), "{typed}: {screen}");
        clear(&mut session);
    }
    session.type_keys("exit\r");
}

/// A mark that is completed is one argument, the mark, whichever quotes it stands in.
fn keeps_a_hostile_mark_whole((mut session, home): (Session, tempfile::TempDir)) {
    for at in ["--at hot", "--at \"hot", "--at 'hot", "--at=hot", "--at=\"hot", "--at='hot"] {
        session.type_keys(&format!("stalltop table cpu --from marked.stalltop {at}\t"));
        session.until(&format!("the mark after {at}"), |screen| screen.contents().contains("[a"));
        session.type_keys("; echo code=$?\r");
        session.until(&format!("exit code after {at}"), |screen| {
            let text = screen.contents();
            text.contains("code=") && text.trim_end().ends_with(PROMPT)
        });
        let screen = session.contents();
        assert!(screen.contains("code=0"), "{at}: {screen}");
        assert!(!home.path().join("executed").exists(), "{at}: {screen}");
        clear(&mut session);
    }
    session.type_keys("exit\r");
}

fn is_installed(shell: &str) -> bool {
    let found = Command::new(shell).args(["-c", "exit 0"]).stdin(Stdio::null()).status().is_ok_and(|status| status.success());
    if !found {
        println!("skipped: {shell} is not installed");
    }
    found
}

fn bash() -> Option<(Session, tempfile::TempDir)> {
    let setup = "bind 'set show-all-if-ambiguous on'; bind 'set bell-style none'; source ./stalltop.bash";
    is_installed("bash").then(|| start("bash", &["--noprofile", "--norc", "-i"], setup))
}

/// The function is only loaded at the first tab.
fn zsh() -> Option<(Session, tempfile::TempDir)> {
    let setup = "fpath=($HOME/functions $fpath); autoload -U compinit; compinit -u -D; \
                 unsetopt beep promptsp listambiguous automenu; LISTMAX=1000";
    is_installed("zsh").then(|| start("zsh", &["-f", "-i"], setup))
}

#[test]
fn bash_completes_words_of_this_moment() {
    bash().into_iter().for_each(completes_words);
}

#[test]
fn zsh_completes_words_of_this_moment() {
    zsh().into_iter().for_each(completes_words);
}

#[test]
fn bash_executes_nothing_of_a_mark() {
    bash().into_iter().for_each(keeps_a_hostile_mark_whole);
}

#[test]
fn zsh_executes_nothing_of_a_mark() {
    zsh().into_iter().for_each(keeps_a_hostile_mark_whole);
}

#[test]
fn fish_completes_words_of_this_moment() {
    if !is_installed("fish") {
        return;
    }
    let home = home();
    for Case { typed, offered, not_offered } in cases() {
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", "source ./stalltop.fish; complete -C $argv[1]", &typed]);
        fish.current_dir(home.path()).env("HOME", home.path()).env("PATH", search_path()).env_remove("XDG_CONFIG_HOME");
        let output = fish.stdin(Stdio::null()).output().unwrap();
        let words: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            .collect();
        let is_offered = |wanted: &str| words.iter().any(|word| word == wanted || word.ends_with(&format!("={wanted}")));
        assert!(offered.iter().all(|word| is_offered(word)), "{typed}: {offered:?} in {words:?}");
        assert!(!is_offered(not_offered), "{typed}: {words:?}");
    }
}

/// Titles are shown where a shell shows descriptions.
#[test]
fn numbers_and_marks_have_descriptions() {
    let home = home();
    let lines = |words: &[&str]| {
        let mut command = Command::new(program());
        command.arg("--").args(words).env("STALLTOP_COMPLETE", "fish").current_dir(home.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(lines(&["stalltop", "demo", ""]).contains("7\tthrashing without swap\n"));
    let times = lines(&["stalltop", "replay", "marked.stalltop", "--at", "+"]);
    let time = times.lines().find_map(|line| line.strip_suffix("\tdeploy 42")).unwrap();
    assert!(
        lines(&["stalltop", "replay", "marked.stalltop", "--at", "d"]).contains(&format!("deploy 42\t{time}\n")),
        "{times}"
    );
    // What is offered is taken, and a text that is no mark is answered with those that there are.
    for (at, is_taken) in [(time, true), ("deploy 42", true), ("dep", true), ("release", false)] {
        let mut table = Command::new(program());
        let output =
            table.args(["table", "cpu", "--from", "marked.stalltop", "--at", at]).current_dir(home.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_taken, "{at}: {said}");
        assert!(is_taken || said.contains("has no mark 'release': its marks are 'deploy 42', 'rollback', "), "{said}");
    }
}
