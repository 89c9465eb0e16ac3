//! What a command has printed.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::collections::BTreeMap;
use std::process::Output;

/// Exit code, standard output and standard error of a command that no signal ended.
pub fn texts_of(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Whether standard error is one message of the program.
pub fn is_one_line(stderr: &str) -> bool {
    stderr.starts_with("stalltop: ") && stderr.ends_with('\n') && stderr.lines().count() == 1
}

/// The records of CSV by the names of their fields.
pub fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|record| record.expect("CSV with as many fields as names")).collect()
}
