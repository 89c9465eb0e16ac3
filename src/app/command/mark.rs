//! `mark`: sends a mark to every recorder and every live screen of this user.

use nix::unistd::geteuid;

use crate::app::mark_socket::{self, Delivery};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio;
use crate::cli;
use crate::recording::Mark;
use crate::report::formatting::pluralize;

pub fn mark(mark: &cli::mark::Mark) -> Result<Exit, Failure> {
    let words = mark.words.join(" ");
    let refused = |why: &str| Failure::new(Exit::Usage, "cannot mark", why, "give a short text, such as \"deploy 42\"");
    if words.len() > Mark::MAX_TEXT_BYTES {
        return Err(refused("the text is longer than 1024 bytes"));
    }
    let text = Mark::sanitize(&words).ok_or_else(|| refused("the text is empty"))?;
    let deliveries = mark_socket::send_mark(&text).map_err(|error| Failure::new(Exit::Failed, "cannot mark", error, ""))?;
    for Delivery { pid, result } in &deliveries {
        if let Err(why) = result {
            stdio::print_stderr(&format!("not marked by process {pid}: {why}"));
        }
    }
    if deliveries.is_empty() {
        let remedy = match geteuid().is_root() {
            true => "start 'stalltop record', 'stalltop' or the service stalltop-record",
            false => {
                "start 'stalltop record' or 'stalltop' as this user; the recorders of the services take marks of root: sudo stalltop mark"
            }
        };
        return Err(Failure::new(Exit::Failed, "not marked", "this user has no recorder and no live screen", remedy));
    }
    let marked = deliveries.iter().filter(|delivery| delivery.result.is_ok()).count();
    if marked > 0 {
        stdio::print_localized(&format!("marked by {}\n", pluralize(marked as u64, "program")))?;
    }
    if marked == deliveries.len() { Ok(Exit::Success) } else { Err(Failure::already_reported(Exit::Failed)) }
}
