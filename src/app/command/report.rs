//! `report`: a recording as one page, as Markdown or as JSON.

use jiff::tz::TimeZone;

use super::output::{Output, lowercase_extension};
use crate::app::config::Settings;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::cli::Configuration;
use crate::cli::report::{Format, Report};
use crate::kernel::Root;
use crate::recording::Tail;
use crate::report::html::{self, ReportSource};
use crate::report::report_data::{Gap, Mark, ReportData};
use crate::report::{json, markdown};
use crate::sample::Instant;

pub fn report(configuration: &Configuration, report: &Report) -> Result<Exit, Failure> {
    let format = format(report)?;
    let settings = Settings::load_and_warn(&Root::host(), configuration)?;
    let output = Output::for_path(&report.output)?;
    let zone = TimeZone::system();
    let mut recorded = EvaluatedRecording::open(&report.file, &settings)?.with_progress();
    recorded.narrow(&report.range, &zone)?;
    let mut data = ReportData::new(recorded.replayer().len().saturating_sub(1), recorded.thresholds());
    for evaluation in recorded.by_ref() {
        data.add(&evaluation);
    }
    add_gaps_and_marks(&recorded, &mut data);
    // A range that was asked for with --to is never truncated.
    data.truncation = if report.range.to.is_none() { incomplete_reason(recorded.replayer().tail()) } else { None };
    let source = ReportSource {
        file: report.file.file_name().unwrap_or(report.file.as_os_str()).to_string_lossy().into_owned(),
        recorder_version: recorded.replayer().meta().version.clone(),
        samples: recorded.replayer().len(),
        zone,
    };
    let text = match format {
        Format::Html => html::render(&data, &source),
        Format::Md => markdown::markdown(&data, &source),
        Format::Json => Some(json::report(&data)).filter(|_| !data.window.is_empty()),
    };
    let Some(text) = text else {
        let why = format!("it holds {} of the two samples that make an interval", recorded.replayer().len());
        return Err(Failure::new(Exit::Damaged, format!("cannot report on {}", quoted(&report.file)), why, ""));
    };
    output.write(text.as_bytes())?;
    recorded.warn_of_damage();
    Ok(if recorded.replayer().damage().is_empty() { Exit::Success } else { Exit::Damaged })
}

/// The format of `--format`, otherwise that of the file name's suffix.
fn format(report: &Report) -> Result<Format, Failure> {
    if let Some(format) = report.format {
        return Ok(format);
    }
    let ending = lowercase_extension(&report.output);
    let wrong = |why: &str, remedy: &str| {
        Err(Failure::new(Exit::Usage, format!("cannot report into {}", quoted(&report.output)), why, remedy))
    };
    match ending.as_deref() {
        Some("html" | "htm") | None => Ok(Format::Html),
        Some("md" | "markdown") => Ok(Format::Md),
        Some("json") => Ok(Format::Json),
        Some("pdf") => wrong("a report is a page for a browser", "name it .html, and let the browser print it to PDF"),
        Some("txt") => wrong("a report is HTML, Markdown or JSON", "name it .md: that is text to read"),
        Some(_) => wrong("its name ends in none of .html, .md, .json", "give one of these, or give --format"),
    }
}

/// What an end says that is none in good order.
fn incomplete_reason(tail: Tail) -> Option<&'static str> {
    match tail {
        Tail::Closed => None,
        Tail::Growing => Some("it was still being recorded"),
        Tail::Unfinished => Some("the recorder was stopped before it closed the recording: its last sample may be missing"),
        Tail::Torn { .. } => Some("the last frame is incomplete: the recorder was stopped while it wrote, or the file was cut"),
    }
}

fn add_gaps_and_marks(recorded: &EvaluatedRecording, data: &mut ReportData) {
    let replayer = recorded.replayer();
    let gaps = replayer.gaps().iter().map(|gap| Gap {
        from: Instant::from(gap.from),
        to: Instant::from(gap.to),
        missing_samples: gap.lost_samples,
        reason: gap.reason.description().to_owned(),
    });
    let damage = replayer.damage().iter().filter(|damage| damage.lost_samples > 0).filter_map(|damage| {
        let (from, to) = (damage.from.or(damage.to)?, damage.to.or(damage.from)?);
        Some(Gap {
            from: Instant::from(from),
            to: Instant::from(to),
            missing_samples: damage.lost_samples,
            reason: format!("damaged: {}", damage.kind),
        })
    });
    data.gaps = gaps.chain(damage).collect();
    data.marks = replayer.marks().iter().map(|mark| Mark { at: Instant::from(mark.at), text: mark.text.clone() }).collect();
}
