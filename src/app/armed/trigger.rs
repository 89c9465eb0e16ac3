//! What starts a capture, and its words: the mark in the recording and a part of the file name.

use crate::cli::pressure_trigger::PressureTrigger;
use crate::findings::{Finding, Kind, Severity};
use crate::recording::{Redaction, Timestamp};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub at: Timestamp,
    pub cause: TriggerCause,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TriggerCause {
    Finding {
        severity: Severity,
        kind: Kind,
        sentence: String,
    },
    Pressure(PressureTrigger),
    /// The text of `stalltop mark`
    Mark(String),
    /// SIGUSR1
    Signal,
}

/// Bytes of the words in a file name.
const MAX_SLUG_BYTES: usize = 100;

impl Trigger {
    pub fn from_finding(at: Timestamp, finding: &Finding) -> Trigger {
        let (severity, kind, sentence) = (finding.severity, finding.kind, finding.sentence_without_kind().to_owned());
        Trigger { at, cause: TriggerCause::Finding { severity, kind, sentence } }
    }

    /// Its sentence, the mark in the recording. Untrusted: it has names of processes. The sentence of a finding may name a container,
    /// which a redacted recording must not.
    pub fn text(&self, redaction: Redaction) -> String {
        match &self.cause {
            TriggerCause::Finding { severity, kind, .. } if redaction == Redaction::Arguments => {
                format!("{} {}", severity.as_str(), kind.as_str())
            }
            TriggerCause::Finding { severity, kind, sentence } => {
                format!("{} {}: {sentence}", severity.as_str(), kind.as_str())
            }
            TriggerCause::Pressure(trigger) => format!("pressure: {trigger}"),
            TriggerCause::Mark(text) => text.clone(),
            TriggerCause::Signal => "SIGUSR1".to_owned(),
        }
    }

    /// The same as a part of a file name: letters, digits, dots and dashes. It begins with a letter.
    pub fn slug(&self, redaction: Redaction) -> String {
        let text = self.text(redaction);
        slug(&if matches!(self.cause, TriggerCause::Mark(_)) { format!("mark {text}") } else { text })
    }
}

/// The words of the text, joined by dashes; at most `MAX_SLUG_BYTES`, cut between words where possible.
fn slug(text: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let words = text.split(|c| !is_kept(c)).map(|word| word.trim_matches('.')).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words {
        let left = MAX_SLUG_BYTES.saturating_sub(slug.len() + 1);
        if word.len() > left && !slug.is_empty() {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        // ASCII: each byte is a character.
        slug.push_str(word.get(..left.min(word.len())).unwrap_or(word));
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(cause: TriggerCause) -> Trigger {
        Trigger { at: Timestamp::default(), cause }
    }

    #[test]
    fn the_words_of_a_file_name_are_harmless_and_bounded() {
        let finding = |sentence: &str| {
            let (severity, kind) = (Severity::Critical, Kind::IdleButBlocked);
            trigger(TriggerCause::Finding { severity, kind, sentence: sentence.to_owned() })
        };
        let words = |trigger: &Trigger| trigger.slug(Redaction::Nothing);
        assert_eq!(
            words(&finding(
                "convoy: 63 threads wait behind 1 in fsync, f on loop0: flush 10.3 ms, 97.4/s → 1.89 of 2 CPUs idle"
            )),
            "critical-idle-but-blocked-convoy-63-threads-wait-behind-1-in-fsync-f-on-loop0-flush-10.3-ms-97.4-s"
        );
        let hostile = finding("../../etc/passwd\0\n\u{1b}]0;x\u{7} -rf * $(reboot) \u{202e} é");
        assert_eq!(words(&hostile), "critical-idle-but-blocked-etc-passwd-0-x-rf-reboot");
        assert_eq!(hostile.slug(Redaction::Arguments), "critical-idle-but-blocked");
        assert_eq!(hostile.text(Redaction::Arguments), "critical idle-but-blocked");
        let long = words(&finding(&"x".repeat(5000)));
        assert_eq!(long, "critical-idle-but-blocked");
        assert_eq!(words(&trigger(TriggerCause::Mark("42".to_owned()))), "mark-42");
        assert_eq!(words(&trigger(TriggerCause::Mark("é".to_owned()))), "mark");
        assert_eq!(slug(&"y".repeat(5000)).len(), MAX_SLUG_BYTES - 1);
        assert_eq!(words(&trigger(TriggerCause::Signal)), "SIGUSR1");
        let pressure = trigger(TriggerCause::Pressure(PressureTrigger::DEFAULT));
        assert_eq!(
            (pressure.text(Redaction::Nothing).as_str(), words(&pressure).as_str()),
            ("pressure: full memory 300ms 2s", "pressure-full-memory-300ms-2s")
        );
    }
}
