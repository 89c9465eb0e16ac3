//! Chains that end at a remote end (loads/relays.py): of locks whose holder is an event loop, and of processes of this host that ask a remote
//! end for others. The remote end is in a network namespace of its own.

use std::path::Path;
use std::process::Command;

use crate::attempt::Attempt;
use crate::check_result::CheckResult;
use crate::disk_load::{Load, link};
use crate::long;
use crate::scenario::Lab;

const DATABASE: &str = "10.99.7.2:5432";

/// `verify` also gets what the load wrote: holders of the mutex, and the process relay.
fn check(mode: &str, mut verify: impl FnMut(&mut CheckResult, &str)) {
    let Some(_lab) = Lab::open(&["python3", "ip"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let truth = state.path().join("truth");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/relays.py");
    let mut command = Command::new("python3");
    command.arg(source).args([mode, "120"]).env("TRUTH", &truth);
    let _load = Load::start(command);
    if mode.starts_with("group") {
        // The database stops answering after 2 s; 5 s are the threshold.
        std::thread::sleep(std::time::Duration::from_secs(9));
    }
    Attempt { seconds: 5, ..Attempt::new(&format!("relays-{mode}"), state.path()) }.check(|_, said| {
        verify(said, &std::fs::read_to_string(&truth).unwrap_or_default());
    });
}

fn relay(written: &str) -> &str {
    written.lines().find_map(|line| line.strip_prefix("relay ")).expect("the relay")
}

/// The threads wait behind a thread that held the mutex, and this is what it waits for.
fn held(mode: &str, waits: impl Fn(&str) -> String, known_by: &str) {
    check(mode, |said, written| {
        let found = said.must("idle-but-blocked", "host", "critical");
        said.says(&found, &["threads wait for a lock (one mutex, by the futex call) behind worker/", &waits(written)]);
        said.word(&found, "chain_confidence", "medium");
        let holder = found["evidence"]["lock_holder"].as_str().unwrap_or_default();
        let tid = holder.strip_prefix("worker/").and_then(|rest| rest.split([' ', ',']).next()).unwrap_or_default();
        said.expect(written.lines().any(|line| line == format!("holder {tid}")), || format!("`{holder}` held no lock"));
        if !found.is_null() {
            link(said, &found, &format!("{DATABASE} has not answered"), known_by);
        }
    });
}

fn nothing_is_wrong(mode: &str) {
    check(mode, |said, _| said.nothing_wrong_but(&[]));
}

const LOOP: &str = "inference: of the connections that it opened and watches those on which it sent last go there (tcp_info)";
const RECEIVES: &str = "inference: it opened the connection and sent last (tcp_info)";

#[test]
fn a_holder_that_waits_for_a_remote_end_in_epoll() {
    held("loop", |_| format!(", which waits for an answer of {DATABASE} (epoll_wait)"), LOOP);
}

#[test]
fn a_holder_in_epoll_whose_connections_are_idle() {
    nothing_is_wrong("loop-idle");
}

#[test]
fn a_holder_in_epoll_that_asked_several_remote_ends() {
    if !long() {
        return;
    }
    nothing_is_wrong("loop-several");
}

#[test]
fn a_holder_in_epoll_that_sent_last_to_its_clients() {
    if !long() {
        return;
    }
    nothing_is_wrong("loop-clients");
}

fn over_relay(written: &str, call: &str) -> String {
    let relay = relay(written);
    format!(
        ", which waits for an answer of 127.0.0.1:16432, that is of relay ({relay}), which waits for an answer of {DATABASE} ({call})"
    )
}

#[test]
fn a_holder_that_waits_for_an_event_loop_that_asked_a_remote_end() {
    held("proxy", |written| over_relay(written, "epoll_wait"), LOOP);
}

#[test]
fn a_holder_that_waits_for_a_server_of_threads_of_which_one_asked_a_remote_end() {
    if !long() {
        return;
    }
    held("threads", |written| over_relay(written, "recvfrom"), RECEIVES);
}

#[test]
fn a_holder_that_waits_over_a_unix_socket_for_a_server_that_asked_a_remote_end() {
    if !long() {
        return;
    }
    let waits = |written: &str| {
        let relay = relay(written);
        format!(
            ", which waits over a socket for an answer of relay ({relay}), which waits for an answer of {DATABASE} (recvfrom)"
        )
    };
    held("unix", waits, RECEIVES);
}

#[test]
fn a_holder_that_waits_for_news_of_an_event_loop() {
    if !long() {
        return;
    }
    nothing_is_wrong("relay-idle");
}

#[test]
fn threads_that_wait_for_an_event_loop_that_asked_a_remote_end() {
    check("group", |said, written| {
        let found = said.must("answer-blocked", "127.0.0.1:16432", "note");
        let relay = relay(written);
        let whose = format!("127.0.0.1:16432, relay ({relay}) on this host, which waits for an answer of {DATABASE} itself");
        said.says(&found, &["app (", "): 8 threads wait for an answer of ", &whose]);
        said.word(&found, "server_waits_for", DATABASE);
        if !found.is_null() {
            link(said, &found, &format!("relay ({relay}) waits for an answer of {DATABASE}"), LOOP);
        }
        said.nothing_wrong_but(&[]);
    });
}

#[test]
fn threads_that_were_answered_by_an_event_loop() {
    if !long() {
        return;
    }
    nothing_is_wrong("group-idle");
}
