//! What bash, zsh and fish offer at the cursor: bash and zsh in a terminal, as a user types, fish by its `complete -C`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use portable_pty::CommandBuilder;

use crate::harness::{Session, program};

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

/// Records this machine, with marks.
fn marked_recording(path: &Path) {
    let runtime = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(arguments).env("XDG_RUNTIME_DIR", runtime.path()).env("XDG_STATE_HOME", runtime.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut recorder = command(&["record", "-i", "100ms", "--for", "3s", path.to_str().unwrap()]).spawn().unwrap();
    // The recorder accepts marks from its first sample on.
    for text in ["deploy 42", "rollback"] {
        while !command(&["mark", text]).status().unwrap().success() {
            assert!(recorder.try_wait().unwrap().is_none(), "the recorder has ended without a mark");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    assert!(recorder.wait().unwrap().success());
}

/// Where the program is found first.
fn search_path() -> String {
    format!("{}:{}", Path::new(program()).parent().unwrap().display(), std::env::var("PATH").unwrap())
}

const PROMPT: &str = "ready>";

/// Types each case at a prompt, with a tab, until what is wanted is on the screen.
fn in_terminal(shell: &str, arguments: &[&str], setup: &str) {
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
    let is_ready = |screen: &vt100::Screen| screen.contents().trim_end() == PROMPT;
    session.until("prompt", is_ready);
    for Case { typed, offered, not_offered } in cases() {
        session.type_keys(&format!("{typed}\t"));
        // Without the backslashes before blanks.
        let text = |screen: &vt100::Screen| screen.contents().replace('\\', "");
        session.until(&format!("{offered:?} after '{typed}'"), |screen| offered.iter().all(|word| text(screen).contains(word)));
        let screen = session.contents().replace('\\', "");
        assert!(!screen.split_whitespace().any(|word| word == not_offered), "{typed}: {screen}");
        // Clears the line, and the screen.
        session.type_keys("\x15\x0c");
        session.until("empty line", is_ready);
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

#[test]
fn bash_completes_words_of_this_moment() {
    if is_installed("bash") {
        let setup = "bind 'set show-all-if-ambiguous on'; bind 'set bell-style none'; source ./stalltop.bash";
        in_terminal("bash", &["--noprofile", "--norc", "-i"], setup);
    }
}

/// From the first tab on, although the function is only loaded then.
#[test]
fn zsh_completes_words_of_this_moment() {
    if is_installed("zsh") {
        let setup = "fpath=($HOME/functions $fpath); autoload -U compinit; compinit -u -D; \
                     unsetopt beep promptsp listambiguous automenu; LISTMAX=1000";
        in_terminal("zsh", &["-f", "-i"], setup);
    }
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
        assert!(
            is_taken || said.contains("has no mark 'release': its marks are 'deploy 42', 'rollback': a time is 12:03, "),
            "{said}"
        );
    }
}
