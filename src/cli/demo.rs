//! The options of `demo`.

use clap::Args;

use super::screen::Appearance;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Demo {
    /// Only the recording with this number
    #[arg(value_parser = clap::value_parser!(u8).range(1..=6))]
    pub number: Option<u8>,
    /// Print the list of recordings
    #[arg(long, conflicts_with = "number")]
    pub list: bool,
    #[command(flatten)]
    pub appearance: Appearance,
}
