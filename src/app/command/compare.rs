//! `compare`: compares recordings with a base recording.

use std::collections::BTreeSet;
use std::path::Path;

use crate::app::config::Settings;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio;
use crate::cli::Configuration;
use crate::cli::compare::Compare;
use crate::findings::Evaluation;
use crate::kernel::Root;
use crate::report::comparison::{self, ComparedRecording, Comparison, RecordingFigures};
use crate::report::formatting::printable;
use crate::sample::Instant;
use crate::units::similar::did_you_mean;

pub fn compare(configuration: &Configuration, compare: &Compare) -> Result<Exit, Failure> {
    let settings = Settings::load_and_warn(&Root::host(), configuration)?;
    let files: Vec<&Path> = std::iter::once(&compare.base).chain(&compare.new).map(AsRef::as_ref).collect();
    let counted = operation_counts(compare, &files)?;
    let (mut sides, mut disks) = (Vec::new(), BTreeSet::new());
    for (file, operations) in files.iter().zip(counted) {
        sides.push(load_side(file, operations, compare, &settings, &mut disks)?);
    }
    check_disks(compare, &disks)?;
    let comparison = Comparison::new(sides);
    match compare.json {
        true => stdio::print(&comparison::json(&comparison)),
        false => stdio::print_localized(&comparison::text(&comparison, compare.all)),
    }?;
    Ok(Exit::Success)
}

fn load_side(
    file: &Path,
    operations: Option<f64>,
    compare: &Compare,
    settings: &Settings,
    disks: &mut BTreeSet<String>,
) -> Result<ComparedRecording, Failure> {
    let mut recorded = EvaluatedRecording::open(file, settings)?.with_progress();
    let marked = if operations.is_none() { operations_between_marks(&recorded) } else { None };
    // An interval belongs to the time between the marks if its middle does.
    let within = |evaluation: &Evaluation| {
        let interval = &evaluation.interval;
        let middle = interval.older.at.boottime_ns.midpoint(interval.at().boottime_ns);
        marked.is_none_or(|(from, to, _)| (from.boottime_ns..=to.boottime_ns).contains(&middle))
    };
    let mut figures = RecordingFigures::new(compare.disks.clone(), sample_count(&recorded, marked));
    for evaluation in recorded.by_ref().filter(within) {
        figures.add(&evaluation);
        if !compare.disks.is_empty() {
            let devices = evaluation.interval.newer.disks.as_deref().unwrap_or_default().iter();
            disks.extend(devices.map(|device| String::from_utf8_lossy(device.name.as_bytes()).into_owned()));
        }
    }
    recorded.warn_of_damage();
    if figures.window.is_empty() {
        let why = "it holds no two samples that make an interval";
        return Err(Failure::new(Exit::Damaged, format!("cannot compare {}", quoted(file)), why, ""));
    }
    // --ops comes first, then the marks in the recording, then the counter that was recorded.
    let counted = operations.or(marked.map(|(.., operations)| operations));
    let work = counted.map(|operations| figures.totals_for_operations(operations)).or_else(|| figures.counted_operations());
    Ok(ComparedRecording { name: file_label(file), figures, operation_totals: work })
}

/// Fails for a device of `--disk` that none of the recordings has. `disks`: those that they have.
fn check_disks(compare: &Compare, disks: &BTreeSet<String>) -> Result<(), Failure> {
    let Some(unknown) = compare.disks.iter().find(|name| !disks.contains(*name)) else { return Ok(()) };
    let what = format!("cannot count the requests of '{}'", printable(unknown));
    let why = format!("no recording has such a disk{}", did_you_mean(unknown, disks.iter().map(String::as_str)));
    let names: Vec<String> = disks.iter().map(|name| printable(name)).collect();
    let remedy = if names.is_empty() { String::new() } else { format!("there are {}", names.join(", ")) };
    Err(Failure::new(Exit::Usage, what, why, remedy))
}

/// The counts of `--ops`, for each file in its order.
fn operation_counts(compare: &Compare, files: &[&Path]) -> Result<Vec<Option<f64>>, Failure> {
    let mut counts = vec![None; files.len()];
    let wrong = |why: String| {
        Failure::new(Exit::Usage, "cannot take --ops", why, "give --ops BASE=N,NEW=N or a number for each recording")
    };
    for (index, count) in compare.ops.iter().enumerate() {
        let place = match count.name.as_deref() {
            None => Some(index),
            Some("BASE" | "base") => Some(0),
            Some("NEW" | "new") if files.len() == 2 => Some(1),
            Some(wanted) => files.iter().position(|file| file_label(file) == wanted || file.as_os_str() == wanted),
        };
        let slot = place.and_then(|place| counts.get_mut(place));
        let Some(slot) = slot else {
            return Err(wrong(match &count.name {
                Some(name) => format!("no recording is called '{name}'"),
                None => format!("there are {} counts for {} recordings", compare.ops.len(), files.len()),
            }));
        };
        *slot = Some(count.operations);
    }
    Ok(counts)
}

/// Its file's name without the ending.
fn file_label(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Number of samples between the marks; without marks, of all.
fn sample_count(recorded: &EvaluatedRecording, marked: Option<(Instant, Instant, f64)>) -> usize {
    let replayer = recorded.replayer();
    let Some((from, to, _)) = marked else { return replayer.len() };
    let times = (0..replayer.len()).filter_map(|index| replayer.timestamp(index));
    times.filter(|at| (from.boottime_ns..=to.boottime_ns).contains(&at.boottime_ns)).count()
}

/// From the first to the last mark that has a running total ('ops 1234'), and how many operations came between them.
fn operations_between_marks(recorded: &EvaluatedRecording) -> Option<(Instant, Instant, f64)> {
    let marks = recorded.replayer().marks();
    let mut totals = marks.iter().filter_map(|mark| {
        let total: f64 = mark.text.trim().strip_prefix("ops ")?.trim().parse().ok()?;
        Some((Instant::from(mark.at), total)).filter(|_| total.is_finite())
    });
    let (from, first) = totals.next()?;
    let (to, last) = totals.next_back()?;
    Some((from, to, last - first)).filter(|(.., operations)| *operations > 0.0)
}
