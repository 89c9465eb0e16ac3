//! What a command has printed.

use std::process::Output;

/// Exit code, standard output and standard error of a command that no signal ended.
pub fn texts_of(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
