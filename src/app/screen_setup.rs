//! What a screen begins with: the terminal's abilities, the theme, the columns that were hidden before.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::config::Settings;
use crate::app::program::exit::Failure;
use crate::app::{saved_choices, terminal};
use crate::cli;
use crate::state::{SessionOptions, Setup, Source, State, TerminalCapabilities};

/// The state that the screens begin with: the configured theme, and what was chosen in the last run. The lines are warnings.
pub fn initial_state(
    mut setup: Setup,
    options: SessionOptions,
    settings: &Settings,
    appearance: &cli::Appearance,
) -> Result<(State, Vec<String>), Failure> {
    let saved = saved_choices::load();
    let (themes, chosen, notices) = settings.themes(appearance.theme.as_deref(), saved.theme.as_deref())?;
    setup.terminal.theme = chosen;
    let mut state = State::with_options(setup, SessionOptions { themes, ..options });
    saved.apply(&mut state);
    Ok((state, notices))
}

/// The terminal and the source of a screen, from the options and the environment.
pub fn setup(appearance: &cli::Appearance, source: Source, interval: Duration) -> Setup {
    let variable = |name: &str| match name {
        "NO_COLOR" if appearance.no_color => Some("1".to_owned()),
        _ => std::env::var(name).ok(),
    };
    let terminal = TerminalCapabilities::from_env(variable, appearance.glyphs());
    Setup {
        terminal: TerminalCapabilities { is_slow: appearance.slow || terminal::is_slow_line(), ..terminal },
        source,
        time_zone: TimeZone::system(),
        size: terminal::size(),
        interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
    }
}
