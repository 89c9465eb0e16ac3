//! This test binary started once more, as a load that `faults` and `scan` sample.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::child_guard::ChildGuard;

/// Names the load as which this process was started.
pub const PART: &str = "STALLTOP_TEST_PART";

/// Whether this process was started as that load.
pub fn plays(part: &str) -> bool {
    std::env::var_os(PART).is_some_and(|played| played == part)
}

/// A running load; killed on drop.
pub struct Load(pub ChildGuard);

impl Load {
    pub fn start(test: &str) -> Load {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(PART, test)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().map_while(Result::ok).any(|line| line.contains("READY")), "{test} did not start");
        Load(ChildGuard(child))
    }
}

/// Waits until it is killed or its parent has ended.
pub fn ready_until_killed() {
    println!("READY");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0; 1]);
}
