//! The options of `demo`.

use clap::Args;

use super::screen::Appearance;

/// The number of recordings.
pub const RECORDING_COUNT: u8 = 7;

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Demo {
    /// Only the recording with this number
    #[arg(value_parser = parse_number)]
    pub number: Option<u8>,
    /// Print the list of recordings
    #[arg(long, conflicts_with = "number")]
    pub list: bool,
    #[command(flatten)]
    pub appearance: Appearance,
}

fn parse_number(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| (1..=RECORDING_COUNT).contains(number));
    number.ok_or_else(|| format!("they are 1 to {RECORDING_COUNT}, and 'stalltop demo --list' has their titles"))
}
