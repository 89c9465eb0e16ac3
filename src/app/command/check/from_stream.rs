//! `check -`: evaluates a recording that arrives on standard input.

use std::sync::Arc;
use std::time::Duration;

use super::{EndReason, Ended, OnEvaluation};
use crate::app::config::Settings;
use crate::app::evaluation::SampleEvaluator;
use crate::app::program::exit::Failure;
use crate::app::program::stdio::{self, ReaderState};
use crate::app::recorder;
use crate::app::recording_stream::{RecordingStream, StreamPurpose, damage_line};
use crate::findings::Evaluator;
use crate::recording::StreamEvent;

const PURPOSE: StreamPurpose =
    StreamPurpose { what: "cannot check standard input", example: "ssh HOST stalltop record - --for 10s | stalltop check -" };

/// Evaluates the stream until it ends, or for `span` of its time. The rest is not read: its writer gets SIGPIPE.
pub fn from_stream(settings: &Settings, span: Option<Duration>, each: OnEvaluation) -> Result<Ended, Failure> {
    let mut stream = RecordingStream::open_stdin(PURPOSE)?;
    let host = Arc::new(stream.meta.host.clone());
    // A sample may be some milliseconds late.
    let span = span.map(|span| (span + stream.meta.interval / 2).as_secs_f64());
    let evaluator = Evaluator::new(stream.baselines()).with_rule_config(settings.rule_config_for(&host));
    let mut evaluator = SampleEvaluator::new(host, evaluator);
    let mut first_at = None;
    let mut ended = Ended { reason: EndReason::Completed, evaluated: 0, ends_in_damage: false, live: None };
    while let Some(event) = stream.next_event().map_err(recorder::failure)? {
        let sample = match event {
            StreamEvent::Sample(sample) => {
                ended.ends_in_damage = false;
                sample
            }
            StreamEvent::Damage(damage) => {
                stdio::print_stderr(&damage_line(&damage));
                // Until another frame follows.
                ended.ends_in_damage = damage.to.is_none();
                continue;
            }
            StreamEvent::End => {
                ended.ends_in_damage = false;
                break;
            }
            StreamEvent::Meta(_) | StreamEvent::Section { .. } | StreamEvent::Gap(_) | StreamEvent::Mark(_) => continue,
        };
        let at = sample.at;
        let elapsed = at.seconds_since(*first_at.get_or_insert(at));
        if span.is_some_and(|span| elapsed > span) {
            break;
        }
        let Some(evaluation) = evaluator.evaluate(sample) else { continue };
        ended.evaluated += 1;
        if each(&evaluation)? == ReaderState::Closed {
            ended.reason = EndReason::Interrupted;
            break;
        }
    }
    Ok(ended)
}
