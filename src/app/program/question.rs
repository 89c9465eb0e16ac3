//! A question on the terminal before something is done.

use std::io::{self, BufRead, IsTerminal, Write};

use super::exit::{Exit, Failure};
use crate::report::formatting::printable;

/// Asks; `true` for y and yes. Fails, with `what` cannot be done, where standard input is not a terminal: then `--yes` is needed.
pub fn is_confirmed(question: &str, what: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, what, "standard input is not a terminal", "--yes does not ask"));
    }
    let question = question.lines().map(printable).collect::<Vec<_>>().join("\n");
    let mut answer = String::new();
    let asked = io::stderr().write_all(question.as_bytes()).and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(|error| Failure::new(Exit::Failed, what, error, "--yes does not ask"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
