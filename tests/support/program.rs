//! The program under test: the one that `STALLTOP_BIN` names (a release build, a package's), else the one of this test build.

use std::sync::OnceLock;

pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var("STALLTOP_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_stalltop").to_owned()))
}
