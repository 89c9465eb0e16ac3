//! `info`: what a recording contains, and its damage.

use std::fmt::Write;
use std::path::Path;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio::print_localized;
use crate::app::recorder::failure;
use crate::cli::Info;
use crate::recording::{Copier, CopyTotals, DamageKind, Inspection, Redaction, Replayer, Tail, Timestamp, UnreadableFile};
use crate::report::formatting::pluralize;
use crate::report::formatting::printable;
use crate::sample::Name;
use crate::sample::operations::Operations;
use crate::units::{format, time};

pub fn info(info: &Info) -> Result<Exit, Failure> {
    let mut replayer = Replayer::open(&info.file).map_err(failure)?;
    let thorough = info.verify || info.repair.is_some();
    let inspection = Inspection::new(&mut replayer, thorough).map_err(failure)?;
    print_localized(&text(&info.file, &inspection))?;
    if let Some(out) = &info.repair {
        let CopyTotals { samples, lost_samples: lost, bytes } = Copier::repair(&mut replayer, out).map_err(failure)?;
        let what = format!(
            "{} copied, {lost} lost: {} ({})",
            pluralize(samples, "sample"),
            out.display(),
            format::bytes(bytes as f64)
        );
        print_localized(&format!("repaired  {}\n", printable(&what)))?;
    }
    // After what is known of it; with --repair, that there is nothing to copy has been said.
    // Without the remedy of `failure`, which is this command.
    replayer.require_sample().map_err(|error| Failure::new(Exit::NotRecording, error.to_string(), "", ""))?;
    if inspection.damage.is_empty() && !(thorough && inspection.is_damaged()) {
        return Ok(Exit::Success);
    }
    let torn = inspection.torn_segments + usize::from(matches!(inspection.tail, Tail::Torn { .. }));
    let places = pluralize((inspection.damage.len() + torn) as u64, "place");
    let what = format!("{} is damaged", quoted(&info.file));
    let lost = inspection.damage.iter().map(|damage| damage.lost_samples).fold(0, u64::saturating_add);
    let why = format!("{places}, {} lost", pluralize(lost, "sample"));
    Err(Failure::new(
        Exit::Damaged,
        what,
        why,
        match &info.repair {
            Some(out) => format!("the intact samples are in {}", quoted(out)),
            None => {
                let intact = inspection.intact_samples.unwrap_or(inspection.sample_count);
                format!("{} can be replayed", pluralize(intact as u64, "intact sample"))
            }
        },
    ))
}

fn text(path: &Path, inspection: &Inspection) -> String {
    let Inspection { header, meta, .. } = inspection;
    let mut lines: Vec<(&str, String)> = vec![
        ("file", format!("{} ({})", path.display(), format::bytes(inspection.bytes as f64))),
        ("format", format!("{}.{}, written by stalltop {}", header.major, header.minor, meta.version)),
        ("host", format!("{}, Linux {}, {}", lossy(&meta.host.hostname), lossy(&meta.host.kernel), lossy(&meta.host.machine))),
        ("interval", format!("{} s", meta.interval.as_secs_f64())),
    ];
    if inspection.file_count > 1 {
        lines.push(("segments", format!("{} files", inspection.file_count)));
    }
    if inspection.boot_count > 1 {
        lines.push((
            "runs",
            format!("{}: the machine was rebooted in between, or it is another machine", inspection.boot_count),
        ));
    }
    let each = inspection.bytes_per_sample().map_or_else(String::new, |bytes| format!(", {bytes:.0} bytes each"));
    lines.push(("samples", format!("{}{each}", inspection.sample_count)));
    if let Some((from, to)) = inspection.first_timestamp.zip(inspection.last_timestamp) {
        let seconds = match inspection.boot_count {
            1 => to.boottime_ns.saturating_sub(from.boottime_ns) as f64 / 1e9,
            _ => to.realtime_ns.saturating_sub(from.realtime_ns) as f64 / 1e9,
        };
        lines.push(("time", format!("{} to {} ({seconds:.1} s)", format_time(from), format_time(to))));
    }
    lines.push(("end", describe_tail(inspection.tail)));
    if inspection.torn_segments > 0 {
        let files = pluralize(inspection.torn_segments as u64, "earlier file");
        lines.push(("torn", format!("{files} with an incomplete last frame: the recorder was stopped")));
    }
    if meta.redaction == Redaction::Arguments {
        lines.push(("redacted", "arguments of commands were not recorded".to_owned()));
    }
    if inspection.is_indexed {
        lines.push(("index", "valid".to_owned()));
    } else if inspection.intact_samples.is_none() {
        lines.push(("index", "missing or invalid: all frames were read".to_owned()));
    }
    if let Some((first, last)) = inspection.operations {
        lines.push(("counted", operations_line(first, last)));
    }
    for (name, bytes) in &inspection.sections {
        lines.push(("section", format!("{name}, {}", format::bytes(*bytes as f64))));
    }
    for gap in &inspection.gaps {
        lines.push((
            "gap",
            format!(
                "{}, {} to {}: {}",
                pluralize(gap.lost_samples, "sample"),
                format_time(gap.from),
                format_time(gap.to),
                gap.reason.description()
            ),
        ));
    }
    for mark in &inspection.marks {
        lines.push(("mark", format!("{}: {}", format_time(mark.at), mark.text)));
    }
    for (what, why) in &meta.absent {
        lines.push(("not seen", format!("{what} ({why})")));
    }
    if inspection.unknown_frames > 0 {
        lines.push(("unknown", format!("{} of a later version", pluralize(inspection.unknown_frames, "frame"))));
    }
    for UnreadableFile { reason: why, .. } in &inspection.unreadable {
        lines.push(("unread", why.clone()));
    }
    for damage in inspection.damage.iter().filter(|damage| damage.kind != DamageKind::UnreadableSegment) {
        let when = damage.from.or(damage.to).map_or_else(String::new, |at| format!(", about {}", format_time(at)));
        let bytes = &damage.bytes;
        lines.push((
            "damage",
            format!(
                "bytes {} to {}: {}; {} lost{when}",
                bytes.start,
                bytes.end,
                damage.kind,
                pluralize(damage.lost_samples, "sample")
            ),
        ));
    }
    if let Some(intact) = inspection.intact_samples {
        lines.push(("verified", format!("{intact} of {} intact", pluralize(inspection.sample_count as u64, "sample"))));
    }
    let mut text = String::new();
    for (name, what) in lines {
        // Into memory: cannot fail.
        let _ = writeln!(text, "{name:<9} {}", printable(&what));
    }
    text
}

/// The running total of `record --ops`, and how fast it grew.
fn operations_line(first: Operations, last: Operations) -> String {
    let seconds = last.printed_boottime_ns.saturating_sub(first.printed_boottime_ns) as f64 / 1e9;
    let growth = last.total.since(first.total);
    let rate = growth.filter(|_| seconds > 0.0).map(|growth| format!(": {:.1} per second", growth as f64 / seconds));
    let restarted = if growth.is_none() { ": it restarted in between" } else { "" };
    format!("{} to {}{}{restarted}", first.total.0, pluralize(last.total.0, "operation"), rate.unwrap_or_default())
}

fn describe_tail(tail: Tail) -> String {
    match tail {
        Tail::Closed => "closed".to_owned(),
        Tail::Growing => "still being written".to_owned(),
        Tail::Unfinished => "not closed: the recorder was killed; all samples that it wrote are here".to_owned(),
        Tail::Torn { offset, available_bytes: have, frame_bytes: need } => {
            let need = need.map_or_else(String::new, |need| format!(" of {need}"));
            format!("last frame incomplete ({have}{need} bytes at byte {offset}): the recorder was stopped")
        }
    }
}

fn format_time(at: Timestamp) -> String {
    time::rfc3339(at.realtime_ns)
}

fn lossy(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}
