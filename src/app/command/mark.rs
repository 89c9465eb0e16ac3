//! `mark`: leaves a word at every recorder and every live screen of this user.

use crate::app::mark_socket::{self, Delivery};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio;
use crate::cli;
use crate::recording::Mark;

pub fn mark(mark: &cli::mark::Mark) -> Result<Exit, Failure> {
    let words = mark.words.join(" ");
    let refused = |why: &str| Failure::new(Exit::Usage, "cannot mark", why, "say in a few words what happens now");
    if words.len() > Mark::MAX_TEXT_BYTES {
        return Err(refused("the text is longer than 1024 bytes"));
    }
    let text = Mark::sanitize(&words).ok_or_else(|| refused("the text is empty"))?;
    let knocked = mark_socket::send_mark(&text).map_err(|error| Failure::new(Exit::Failed, "cannot mark", error, ""))?;
    let taken = knocked.iter().filter(|knocked| knocked.result.is_ok()).count();
    for Delivery { pid, result: received } in &knocked {
        if let Err(why) = received {
            stdio::print_stderr(&format!("not marked by process {pid}: {why}"));
        }
    }
    match (taken, knocked.len()) {
        (0, 0) => {
            let remedy = "start 'stalltop record', or stalltop itself, as this user";
            Err(Failure::new(Exit::Failed, "not marked", "nobody of this user is recording or watching", remedy))
        }
        (0, _) => Err(Failure::already_reported(Exit::Failed)),
        (taken, all) => {
            let programs = if taken == 1 { "program" } else { "programs" };
            stdio::print_localized(&format!("marked by {taken} {programs}\n"))?;
            if taken == all { Ok(Exit::Success) } else { Err(Failure::already_reported(Exit::Failed)) }
        }
    }
}
