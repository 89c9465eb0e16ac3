//! The cgroups of a process on its page: that of each controller, with the limit that applies, which may be that of a group above.

use super::page::Page;
use crate::ids::CgroupId;
use crate::interval::Interval;
use crate::interval::cgroup::CgroupSpan;
use crate::safe;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;
use crate::units::format;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_number, format_percent};

/// One line for each controller; one for all where they share a group and no limit applies.
pub fn cgroups(interval: &Interval, process: &Process, page: &mut Page) {
    if let Err(why) = &process.facts.cgroup {
        page.labelled("cgroup", safe!("- {why}"));
        return;
    }
    let controllers: [(&'static str, Controller, Limit); 4] = [
        ("cgroup cpu", Controller::Cpu, quota),
        ("cgroup memory", Controller::Memory, memory_limit),
        ("cgroup cpuset", Controller::Cpuset, allowed_cpus),
        ("cgroup io", Controller::Io, |_| None),
    ];
    let mut shown: Option<&CgroupId> = None;
    for (label, controller, limit) in controllers {
        let Some(own) = process.cgroup_for(controller) else { continue };
        let limit = tightest(interval, own, limit);
        // A line that says nothing new is left out.
        if shown == Some(own) && limit.is_none() {
            continue;
        }
        shown = Some(own);
        let path = SafeText::from_name(&own.path);
        let words = match limit {
            None if controller == Controller::Io => path,
            None => safe!("{path}: no limit"),
            Some((group, limit)) if group == own => safe!("{path}: {limit}"),
            Some((group, limit)) => safe!("{path}: {limit}, of {}", SafeText::from_name(&group.path)),
        };
        page.labelled(label, words);
    }
}

/// The limit of a group as a number, smaller is tighter, and in words; `None` if it has none.
type Limit = fn(&CgroupSpan) -> Option<(f64, String)>;

/// The tightest limit among those of a group and of the groups above it.
fn tightest<'a>(interval: &'a Interval, own: &CgroupId, limit: Limit) -> Option<(&'a CgroupId, String)> {
    let applies = |group: &&CgroupSpan| {
        group.id.version == own.version && own.path_with_ancestors().any(|path| path == group.id.path.as_bytes())
    };
    let limits = interval.cgroups.iter().filter(applies).filter_map(|group| Some((&group.id, limit(group)?)));
    let (id, (_, words)) = limits.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    Some((id, words))
}

fn quota(group: &CgroupSpan) -> Option<(f64, String)> {
    let quota = group.quota_cpus?;
    let throttled = group.throttled_share().map_or("-".to_owned(), |share| format_percent(Some(share.0), 4));
    Some((quota, format!("quota {} CPU, throttled {throttled} % of the time", format_number(quota, 5))))
}

fn memory_limit(group: &CgroupSpan) -> Option<(f64, String)> {
    let limit = group.memory_limit?.0 as f64;
    let used = group.memory_used.map_or("-".to_owned(), |used| format::short_bytes(used.0 as f64));
    Some((limit, format!("limit {}, used {used}", format::short_bytes(limit))))
}

fn allowed_cpus(group: &CgroupSpan) -> Option<(f64, String)> {
    let cpus = group.cpus.as_ref()?;
    // The deepest group has the smallest set.
    Some((-(group.id.path.as_bytes().len() as f64), format!("CPUs {}", cpus.to_string_lossy())))
}
