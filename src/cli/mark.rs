//! The options of `mark`.

use clap::Args;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Mark {
    /// The text, at most 1024 bytes
    #[arg(required = true, value_name = "TEXT", trailing_var_arg = true)]
    pub words: Vec<String>,
}
