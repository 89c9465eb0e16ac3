//! Servers whose thread is in fdatasync at each request, and the connections that wait for them (loads/stuck-server.py).

use std::path::Path;
use std::process::Command;

use crate::attempt::Attempt;
use crate::disk_load::{DiskLoad, Load, link};
use crate::long;
use crate::proc::FLUSHES_COMPLETED;
use crate::scenario::Lab;

fn server(mode: &str, folder: &Path, connections: u32) -> Load {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/stuck-server.py");
    let mut command = Command::new("python3");
    command.arg(source).arg(mode).arg(folder).args([&connections.to_string(), "80"]);
    Load::start(command)
}

/// 50 connections at one thread that commits eight requests at a time, in 40 ms: 42 to 50 of them wait.
fn stuck(mode: &str, least: f64, most: f64) {
    let Some(mut ground) = DiskLoad::open_with(&["python3"], &[("FLUSH_US", "40000")]) else { return };
    let load = server(mode, &ground.folder, 50);
    ground.until(FLUSHES_COMPLETED, 20);
    ground.check(&format!("stuck-server-{mode}"), 5, |window, said| {
        let truth = window.disk(&ground.device);
        window.known("flush await", truth.flush_await, 0.039, 0.046);
        let stuck = said.must("idle-but-blocked", "host", "critical");
        said.word(&stuck, "group", "server");
        said.word(&stuck, "device", &ground.device);
        said.word(&stuck, "limit", "flushes");
        said.evidence(&stuck, "group_waiting_connections", least, most);
        said.says(&stuck, &[&format!("server ({})", load.pid()), "in fdatasync on ", " connections wait for it"]);
        link(said, &stuck, "connections wait for an answer", "the receive queues and tcp_info of its sockets");
        said.at_most_a_note("disk-latency", &ground.device);
        said.must_not("send-blocked");
    });
}

#[test]
fn connections_of_a_server_in_fdatasync() {
    stuck("tcp", 40.0, 50.0);
}

#[test]
fn unix_connections_of_a_server_in_fdatasync() {
    if !long() {
        return;
    }
    // Of a Unix socket what is read and not answered is not known.
    stuck("unix", 30.0, 50.0);
}

/// Connections that are not kept: they wait in the accept queue.
#[test]
fn an_accept_queue_behind_an_fdatasync() {
    if !crate::long() {
        return;
    }
    stuck("queue", 40.0, 50.0);
}

/// The same server on a file system in memory: its thread waits for requests, not for storage.
#[test]
fn a_server_on_tmpfs_is_not_stuck() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["python3"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let _load = server("tcp", memory.path(), 50);
    Attempt { seconds: 5, ..Attempt::new("server-tmpfs", state.path()) }.check(|_, said| {
        said.must_not("idle-but-blocked");
        said.must_not("disk-latency");
    });
}

/// One client that streams to a server which syncs: the thread on storage serves the connection, and none waits behind it.
#[test]
fn a_receiver_that_syncs_is_a_note() {
    if !crate::long() {
        return;
    }
    let Some(mut ground) = DiskLoad::open_with(&["python3"], &[("FLUSH_US", "40000")]) else { return };
    let _load = server("oneway", &ground.folder, 1);
    ground.until(FLUSHES_COMPLETED, 20);
    ground.check("server-oneway", 5, |_, said| {
        let stuck = said.must("idle-but-blocked", "host", "note");
        said.evidence(&stuck, "group_waiting_connections", 0.0, 1.0);
        said.nothing_wrong_but(&[]);
    });
}
