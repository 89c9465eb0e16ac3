//! The program under test, for all suites: the one that `STALLTOP_BIN` names (a release build, a package's, a script that starts it
//! by an emulator), else the one of this test build.

use std::sync::OnceLock;

/// An absolute path: tests start it in directories of their own.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var("STALLTOP_BIN") {
        Ok(path) => std::path::absolute(path).unwrap().into_os_string().into_string().unwrap(),
        Err(_) => env!("CARGO_BIN_EXE_stalltop").to_owned(),
    })
}
