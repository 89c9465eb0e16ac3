//! The disk screen: a line an operation, each latency against its own baseline.

use super::canvas::Canvas;
use super::frame::arrangement;
use super::text::{self, SafeText, figure, maybe};
use super::theme::{Ink, sign};
use super::whereabouts;
use super::widgets::spark;
use super::widgets::table::{Spec, Table};
use crate::baseline::{self, Standing};
use crate::findings::{Judged, Kind, Severity, Subject};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::sample::disk::Disk;
use crate::state::layout::{Plan, operations};
use crate::state::rows::is_idle;
use crate::state::{Column, Row, State};

const DISKS: [Spec; 11] = [
    Spec::words("DISK", 8).by(Column::Name),
    Spec::words("op", 2),
    Spec::number("/s", 6).by(Column::Rate),
    Spec::number("MB/s", 5).from(60),
    Spec::number("KB/req", 6).from(72),
    Spec::number("await", 5).by(Column::Await),
    Spec::number("base", 5).from(50),
    Spec::number("×base", 6),
    Spec::number("queue", 5).by(Column::Queue).from(50),
    Spec::number("infl", 4).from(60),
    Spec::number("busy%", 5).by(Column::Busy).from(60),
];

const HISTORY: &str = "await, log";

pub fn table(width: u16) -> Table {
    let mut specs = DISKS.to_vec();
    if width >= 120 {
        specs.insert(3, Spec::number("merged%", 7));
    }
    if width >= 76 {
        specs.push(Spec::words(HISTORY, 0));
    }
    Table::new(&specs, width)
}

pub fn draw(state: &State, judged: &Judged, plan: &Plan, canvas: &mut Canvas) {
    let interval = &*judged.interval;
    let table = table(canvas.width());
    table.heading(canvas, 0, Some(state.sort()));
    if interval.newer.disks.is_err() {
        canvas.rest(0, 1, "- /proc/diskstats cannot be read", Ink::Dim);
        return;
    }
    let end = super::list(state, plan, canvas, |canvas, y, row| {
        if let Row::Disk(at) = row
            && let Some(disk) = interval.disks.get(at)
        {
            disk_lines(state, judged, disk, &table, canvas, y);
        }
    });
    if state.rows.is_empty() && state.search().text().is_empty() {
        canvas.rest(0, end, "no device reads or writes anything", Ink::Dim);
    }
    let bottom = plan.before + plan.list;
    let idle: Vec<String> = (interval.disks.iter())
        .filter(|disk| is_idle(state, disk))
        .map(|disk| whereabouts::disk_name(&interval.newer, disk.id).to_string())
        .collect();
    let mut foot = bottom;
    if !idle.is_empty() && end + 1 < bottom {
        foot -= 1;
        canvas.rest(0, bottom - 1, safe!("idle: {}", idle.join(" ")), Ink::Dim);
    }
    let words = arrangement(state, plan);
    if !words.is_empty() && end + 1 < bottom {
        canvas.right(0, bottom - 1, canvas.width(), &words, Ink::Dim);
    }
    if end + 1 < foot && judged.standings.iter().any(|standing| standing.provisional) {
        canvas.rest(0, foot - 1, "~ a provisional baseline: not learned yet, never worse than a warning", Ink::Dim);
    }
}

fn disk_lines(state: &State, judged: &Judged, disk: &DiskSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    let interval = &*judged.interval;
    let facts = interval.newer.disks.as_ref().ok().and_then(|disks| disks.get(disk.index));
    table.put(canvas, y, "DISK", whereabouts::disk_name(&interval.newer, disk.id), Ink::Bold);
    table.put(canvas, y, "queue", safe!("{}", maybe(disk.aqu_sz, 5)), Ink::Plain);
    table.put(canvas, y, "infl", safe!("{}", disk.in_flight), if disk.stalled { Ink::Critical } else { Ink::Plain });
    table.put(canvas, y, "busy%", safe!("{}", text::percent(disk.busy.map(|busy| busy.0), 5)), Ink::Dim);
    let mut lines = 0;
    for (line, (operation, span)) in (y..).zip(operations(disk)) {
        let standing = standing(judged, disk.id, operation);
        table.put(canvas, line, "op", letter(operation), Ink::Plain);
        table.put(canvas, line, "/s", safe!("{}", figure(span.rate.0, 6)), Ink::Plain);
        table.put(canvas, line, "merged%", safe!("{}", text::percent(span.merged_share().map(|share| share.0), 6)), Ink::Dim);
        let sized = operation != Operation::Flush;
        let size = maybe(sized.then_some(span.kilobytes.0 / 1024.0), 5);
        table.put(canvas, line, "MB/s", safe!("{size}"), if sized { Ink::Plain } else { Ink::Dim });
        table.put(canvas, line, "KB/req", safe!("{}", maybe(span.request_size_kib, 6)), Ink::Dim);
        table.put(canvas, line, "await", safe!("{}", maybe(span.r#await.map(|time| time.0), 5)), Ink::Plain);
        if let Some(standing) = standing {
            let mark = if standing.provisional { "~" } else { "" };
            table.put(canvas, line, "base", safe!("{}{mark}", figure(standing.baseline.0, 4)), Ink::Dim);
        }
        let (words, ink) = multiple(judged, standing);
        table.put(canvas, line, "×base", &words, ink);
        latency_history(state, interval, (disk.id, operation), standing, table.place(HISTORY), canvas, line);
        lines += 1;
    }
    if lines == 0 {
        let words = if disk.stalled { "none completed, all wait" } else { "nothing now" };
        let (x, _) = table.place("op").unwrap_or((10, 2));
        canvas.text(x, y, 24, words, if disk.stalled { Ink::Critical } else { Ink::Dim });
    } else if lines > 1
        && let Some(facts) = facts
    {
        canvas.text(1, y + 1, 8, kind(facts), Ink::Dim);
        if lines > 2
            && let Some(size) = facts.facts.size_bytes
        {
            canvas.text(1, y + 2, 8, safe!("{}", text::bytes(size as f64)), Ink::Dim);
        }
    }
}

/// The awaits of one operation of one device, logarithmic against its baseline, at a place of a row.
pub fn latency_history(
    state: &State,
    interval: &Interval,
    (id, operation): (DiskId, Operation),
    standing: Option<&Standing>,
    place: Option<(u16, u16)>,
    canvas: &mut Canvas,
    y: u16,
) {
    let Some((x, width)) = place else { return };
    let cells = state.history.cells(interval.at(), usize::from(width));
    let awaits: Vec<Option<f32>> = cells.iter().map(|cell| cell.as_ref()?.disk_await(id, operation)).collect();
    // Without a baseline the best of the last minute stands for it.
    let best = || awaits.iter().flatten().copied().fold(f32::INFINITY, f32::min);
    let baseline = standing.map_or_else(best, |standing| standing.baseline.0 as f32);
    let levels = awaits.iter().map(|time| {
        let time = (*time)?;
        let ink = standing.map_or(Ink::Plain, |standing| {
            severity_at(f64::from(time / baseline), standing.provisional).map_or(Ink::Good, Ink::from)
        });
        Some((spark::against(time, baseline), ink))
    });
    spark::sparkline(canvas, x, y, width, levels);
}

fn letter(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "r",
        Operation::Write => "w",
        Operation::Flush => "f",
        Operation::Discard => "d",
    }
}

/// What kind of device, in a word.
pub fn kind(disk: &Disk) -> SafeText {
    let name = disk.name.as_bytes();
    let starts = |prefix: &str| name.starts_with(prefix.as_bytes());
    let word = match disk.facts.rotational {
        _ if starts("nvme") => "NVMe",
        _ if starts("vd") || starts("xvd") => "virtual",
        _ if starts("loop") => "loop",
        _ if starts("dm-") => "dm",
        _ if starts("md") => "md",
        _ if starts("zram") => "zram",
        Some(true) => "HDD",
        Some(false) => "SSD",
        None => "",
    };
    word.into()
}

/// Where that operation of that device stands.
pub fn standing(judged: &Judged, disk: DiskId, operation: Operation) -> Option<&Standing> {
    baseline::standing(&judged.standings, disk, operation)
}

/// How many times its baseline; in the cell behind the figure the sign of the finding that this is, so that no row calls
/// bad what the verdict does not: a multiple of few or cheap requests is felt by nobody.
pub fn multiple(judged: &Judged, standing: Option<&Standing>) -> (SafeText, Ink) {
    let Some((standing, times)) = standing.and_then(|standing| Some((standing, standing.multiple?))) else {
        return ("- ".into(), Ink::Dim);
    };
    let most = severity_at(times, standing.provisional);
    let severity = most.and_then(|most| Some(found_slow(judged, standing.disk)?.min(most)));
    let mark = severity.map_or(if standing.provisional { "~" } else { " " }, sign);
    (safe!("{}{mark}", figure(times, 5)), severity.map_or(Ink::Plain, Ink::from))
}

/// The worst that so many times a baseline can be.
fn severity_at(times: f64, provisional: bool) -> Option<Severity> {
    match times {
        far if far >= 10.0 => Some(if provisional { Severity::Warning } else { Severity::Critical }),
        far if far >= 3.0 && !provisional => Some(Severity::Warning),
        _ => None,
    }
}

/// How bad the verdict calls the latency of that device.
fn found_slow(judged: &Judged, disk: DiskId) -> Option<Severity> {
    let of_disk = |subject: &Subject| matches!(subject, Subject::Disk { id, .. } if *id == disk);
    let slow = judged.verdict.iter().filter(|finding| finding.kind == Kind::DiskLatency && of_disk(&finding.subject));
    slow.map(|finding| finding.severity).max()
}
