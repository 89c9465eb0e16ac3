//! Signals to processes: only where they were allowed, only after the answer `y`, and only to the process that was selected.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::child_guard::ChildGuard;
use crate::harness::{Session, stalltop};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/lab/15-lock-convoy.stalltop");

/// A process that is ended with the test.
struct Sleeper(ChildGuard);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(ChildGuard(Command::new("sleep").arg("600").spawn().unwrap()))
    }

    /// Filters the tasks by its pid and its name. Its command line may be read later.
    fn select(&self, session: &mut Session) {
        let pid = self.0.id().to_string();
        session.type_keys(&format!("5/{pid} sleep\r"));
        session.until("the process", |screen| {
            screen
                .contents()
                .lines()
                .any(|line| line.trim_start_matches(['│', ' ']).starts_with(&pid) && line.contains("sleep"))
        });
    }
}

#[test]
fn a_confirmed_signal_ends_the_selected_process() {
    let mut sleeper = Sleeper::start();
    let question = format!("Send SIGTERM to pid {}?", sleeper.0.id());
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut session = Session::start(stalltop(&["--allow-signals"]), columns, rows);
        session.until_text("busy");
        sleeper.select(&mut session);
        session.type_keys("K");
        session.until_text(&question);
        session.until_text("│sleep");
        // Anything but y sends nothing.
        session.type_keys("jx\r");
        session.until_text("Send SIGINT to");
        session.type_keys("n");
        session.until("no question", |screen| !screen.contents().contains("Send SIG"));
        assert_eq!(sleeper.0.try_wait().unwrap(), None);
        if columns == 200 {
            session.type_keys("K");
            session.until_text(&question);
            session.type_keys("y");
            session.until_text("sent SIGTERM to pid");
            assert_eq!(sleeper.0.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
        }
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    }
}

#[test]
fn a_process_that_has_ended_gets_no_signal() {
    let mut sleeper = Sleeper::start();
    // The row remains for the interval.
    let mut session = Session::start(stalltop(&["--allow-signals", "-i", "5s"]), 80, 24);
    session.until_text("busy");
    sleeper.select(&mut session);
    session.type_keys("K");
    session.until_text("Send SIGTERM to");
    sleeper.0.kill().unwrap();
    sleeper.0.wait().unwrap();
    session.type_keys("y");
    session.until_text("SIGTERM was not sent to pid");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn the_key_says_why_it_sends_nothing() {
    let cases: [(&[&str], &str); 3] = [
        (&[], "start stalltop with --allow-signals"),
        (&["replay", RECORDING], "no signals in a replay"),
        (&["demo"], "no signals in the demo"),
    ];
    for (arguments, reason) in cases {
        let mut session = Session::start(stalltop(arguments), 80, 24);
        session.until_text("busy");
        session.type_keys("5K");
        session.until_text(reason);
        session.type_keys("\x03");
        assert_eq!(session.ended().exit_code(), 0);
    }
}
