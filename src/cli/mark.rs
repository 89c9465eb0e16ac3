//! `mark`: a word into every recording of this user.

use clap::Args;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Mark {
    /// The word, or several: at most 1024 bytes
    #[arg(required = true, value_name = "TEXT", trailing_var_arg = true)]
    pub words: Vec<String>,
}
