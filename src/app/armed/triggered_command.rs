//! `--on-finding` without `--armed`: runs the command for each finding that counts.

use std::sync::Arc;

use super::finding_trigger::FindingTriggers;
use crate::app::finding_command::{FindingCommand, FindingNotice};
use crate::app::program::exit::Failure;
use crate::cli::on_finding::OnFinding;
use crate::findings::Evaluation;

/// The command and the findings that it is run for.
pub struct TriggeredCommand {
    triggers: FindingTriggers,
    command: FindingCommand,
}

impl TriggeredCommand {
    /// `None` without `--on-finding`. Fails if there is no such program.
    pub fn from_options(options: &OnFinding) -> Result<Option<TriggeredCommand>, Failure> {
        let Some(words) = &options.on_finding else { return Ok(None) };
        let triggers = FindingTriggers::new(options.selectors());
        Ok(Some(TriggeredCommand { triggers, command: FindingCommand::start(words)? }))
    }

    /// Runs the command for the findings that count with this interval. `file`: the recording that shows them.
    pub fn update(&mut self, evaluation: &Evaluation, file: impl Fn() -> Option<String>) {
        let at = evaluation.interval.at();
        for finding in self.triggers.update(at, &evaluation.active) {
            let host = Arc::clone(&evaluation.interval.host);
            self.command.notify(FindingNotice { host, at, finding: finding.clone(), file: file() });
        }
    }
}
