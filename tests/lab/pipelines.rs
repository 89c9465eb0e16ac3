//! Pipelines: the parts that wait in pipes for the slowest one, and pipelines at rest.

use std::process::Command;

use crate::attempt::Attempt;
use crate::disk_load::{Load, link};
use crate::proc::{processes, ticks};
use crate::scenario::Lab;

fn pipeline(script: &str) -> Load {
    Load::start_silent(Command::new("sh").args(["-c", script]))
}

/// `cat | gzip | cat`: the first part waits at a full pipe, the last one for data.
#[test]
fn a_pipeline_behind_its_compressor() {
    let Some(_lab) = Lab::open(&["gzip"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = pipeline("cat /dev/zero | gzip -1 | cat > /dev/null");
    while !processes("gzip").into_iter().any(|pid| ticks(pid) >= 30) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Attempt { seconds: 5, ..Attempt::new("pipeline-gzip", state.path()) }.check(|window, said| {
        window.known("CPU of gzip", window.used("gzip"), 0.95, 1.02);
        window.known("cat in a full pipe", window.mean(|place| place.channel.contains("pipe_write")), 0.6, 1.0);
        let hot = said.must("saturated-thread", "gzip", "warning");
        said.says(&hot, &["gzip (", "; cat (", ") waits for it in a pipe"]);
        link(said, &hot, " waits to write to a pipe that gzip (", "the descriptors of both processes");
        link(said, &hot, "gzip (", "the scheduler's run time");
        said.must_not("idle-but-blocked");
    });
}

/// A log pipe, and a pipeline that sleeps, beside a program at its limit that writes the log.
#[test]
fn the_reader_of_a_log_does_not_wait_for_the_program() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = pipeline(
        "(i=0; while :; do i=$((i+1)); [ $((i % 20000)) = 0 ] && echo line; done) | cat > /dev/null & sleep 80 | cat > /dev/null",
    );
    Attempt { seconds: 5, ..Attempt::new("pipeline-log", state.path()) }.check(|window, said| {
        window.known("CPU of the program", window.used("sh"), 0.9, 1.02);
        let hot = said.must("saturated-thread", "sh", "note");
        said.expect(!hot["sentence"].as_str().unwrap_or_default().contains("in a pipe"), || format!("{}", hot["sentence"]));
        said.nothing_wrong_but(&["saturated-thread", "saturated-core"]);
    });
}

/// A shell that stops itself before it reads.
const STOPPED: &str = "(kill -STOP $(exec sh -c 'echo $PPID'); cat)";

/// A pipeline whose reader was stopped before stalltop began: both parts before it wait at full pipes.
#[test]
fn a_pipeline_whose_reader_is_stopped() {
    let Some(_lab) = Lab::open(&["gzip"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = pipeline(&format!("cat /dev/urandom | gzip -1 | {STOPPED} > /dev/null"));
    Attempt { seconds: 5, ..Attempt::new("pipeline-stopped", state.path()) }.check(|window, said| {
        window.known("in full pipes", window.mean(|place| place.channel.contains("pipe_write")), 1.8, 2.0);
        window.known("stopped", window.mean(|place| place.state == 'T'), 0.9, 3.0);
        let found = said.must("stuck-server", "sh", "warning");
        said.says(&found, &["sh (", ") is stopped (SIGSTOP)", ": gzip (", "), cat (", ") wait to write to its pipe"]);
        said.value(&found, 2.0, 2.0);
    });
}

/// A stopped reader whose pipe has room: the writer sleeps for a fixed time.
#[test]
fn a_stopped_reader_whose_pipe_has_room() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = pipeline(&format!("(while :; do echo line; sleep 0.3; done) | {STOPPED} > /dev/null"));
    Attempt { seconds: 5, ..Attempt::new("pipeline-stopped-room", state.path()) }.check(|window, said| {
        window.known("in a full pipe", window.mean(|place| place.channel.contains("pipe_write")), 0.0, 0.0);
        window.known("stopped", window.mean(|place| place.state == 'T'), 0.9, 3.0);
        said.must_not("stuck-server");
    });
}
