//! What stands between the program and the user's terminal: tmux, screen and mosh draw its screens, and change their size.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use portable_pty::CommandBuilder;

use crate::harness::{Session, prepared, program};

fn is_installed(name: &str) -> bool {
    let found = Command::new("sh").arg("-c").arg(format!("command -v {name}")).output().unwrap().status.success();
    if !found {
        println!("skipped: no {name}");
    }
    found
}

/// The screens appear, follow keys and another size, and the multiplexer ends with the program. `line`: rows of its own.
fn draws_screens(command: CommandBuilder, line: u16) {
    let mut session = Session::start(command, 80, 24 + line);
    session.until_text("busy");
    session.until("bar", |screen| screen.contents().contains("LOAD"));
    session.type_keys("3");
    session.until_text("KB/req");
    session.resize(120, 40 + line);
    session.type_keys("1");
    session.until_text("Who waits for whom");
    session.until("frames", |screen| screen.contents().contains('─'));
    assert!(!session.contents().contains('\u{fffd}'), "{}", session.contents());
    session.type_keys("q");
    session.ended();
}

#[test]
fn tmux_draws_the_screens() {
    if !is_installed("tmux") {
        return;
    }
    let sockets = tempfile::tempdir().unwrap();
    let mut command = prepared(CommandBuilder::new("tmux"));
    command.env("TMUX_TMPDIR", sockets.path());
    command.env_remove("TMUX");
    command.args(["-u", "-f", "/dev/null", "new-session", program()]);
    draws_screens(command, 1);
}

#[test]
fn screen_draws_the_screens() {
    if !is_installed("screen") {
        return;
    }
    let sockets = tempfile::tempdir().unwrap();
    std::fs::set_permissions(sockets.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = prepared(CommandBuilder::new("screen"));
    command.env("SCREENDIR", sockets.path());
    command.env_remove("STY");
    command.args(["-U", "-c", "/dev/null", program()]);
    draws_screens(command, 0);
}

#[test]
fn mosh_draws_the_screens() {
    if !is_installed("mosh-server") {
        return;
    }
    // The server goes into the background once it has said where it listens.
    let mut server = Command::new("mosh-server");
    server.args(["new", "-i", "127.0.0.1", "-p", "61000:61999", "--", program()]);
    server.env("LANG", "C.UTF-8").env_remove("LC_ALL").env("TERM", "xterm-256color").env_remove("NO_COLOR");
    server.env("XDG_STATE_HOME", tempfile::tempdir().unwrap().keep());
    let said = server.output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let words: Vec<&str> = said.split_whitespace().collect();
    let [_, _, port, key, ..] = words[..] else { panic!("mosh-server: {said}") };
    let mut client = prepared(CommandBuilder::new("mosh-client"));
    client.env("MOSH_KEY", key);
    client.args(["127.0.0.1", port]);
    draws_screens(client, 0);
}
