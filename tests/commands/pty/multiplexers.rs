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

/// The screens appear, follow keys and another size, and the multiplexer ends with the program. `line`: rows of its status line.
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
    // A test that fails leaves no server.
    let configuration = sockets.path().join("tmux.conf");
    std::fs::write(&configuration, "set -g destroy-unattached on\n").unwrap();
    command.args(["-u", "-f", configuration.to_str().unwrap(), "new-session", program()]);
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
    command.env("SYSSCREENRC", "/dev/null");
    let configuration = sockets.path().join("screenrc");
    std::fs::write(&configuration, "autodetach off\n").unwrap();
    command.args(["-U", "-c", configuration.to_str().unwrap(), program()]);
    draws_screens(command, 0);
}

#[test]
fn mosh_draws_the_screens() {
    if !is_installed("mosh-server") || !is_installed("mosh-client") {
        return;
    }
    // The server goes into the background once it has said where it listens.
    let mut server = Command::new("mosh-server");
    server.args(["new", "-i", "127.0.0.1", "-p", "61000:61999", "--", program()]);
    let state = tempfile::tempdir().unwrap();
    server.env("LANG", "C.UTF-8").env("TERM", "xterm-256color").env("XDG_STATE_HOME", state.path());
    ["LC_ALL", "LC_CTYPE", "NO_COLOR"].into_iter().for_each(|name| {
        server.env_remove(name);
    });
    server.env("MOSH_SERVER_NETWORK_TMOUT", "60");
    let said = server.output().unwrap();
    let said = format!("{} {}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let words: Vec<&str> = said.split_whitespace().collect();
    let [_, _, port, key, ..] = words[..] else { panic!("mosh-server: {said}") };
    let mut client = prepared(CommandBuilder::new("mosh-client"));
    client.env("MOSH_KEY", key);
    client.args(["127.0.0.1", port]);
    draws_screens(client, 0);
}
