//! More work than CPUs on the few that a cpuset or an affinity mask allows, on a box with room.

use super::cpu::{is_throttled, throttled_groups};
use super::groups::applies;
use super::scene::{Scene, Suspicion, number, text};
use super::words::{count, figure, name, percent};
use super::{Severity, Subject};
use crate::ids::CgroupId;
use crate::interval::crowd::Crowd;
use crate::sample::cgroup::Controller;

/// So many threads are named.
const NAMED: usize = 3;

pub fn saturated(scene: &Scene) -> Vec<Suspicion> {
    scene.interval.crowds.iter().filter_map(|crowd| one(scene, crowd)).collect()
}

fn one(scene: &Scene, crowd: &Crowd) -> Option<Suspicion> {
    let thresholds = scene.thresholds;
    let throttled = throttled_groups(scene);
    let free = crowd.waiting.iter().filter(|(task, _)| !is_throttled(scene, &throttled, task.pid));
    let waiting: f64 = free.clone().map(|(_, wait)| wait).sum();
    let cpus = crowd.cpus.len() as f64;
    if crowd.taken < thresholds.cpu_busy_ratio || waiting < thresholds.cpu_waiting_per_cpu * cpus {
        return None;
    }
    let (first, _) = free.clone().next()?;
    let all = scene.interval.cpus();
    let cpuset = cpuset(scene, crowd, first.pid);
    let list = name(&crowd.allowed);
    let whose = match &cpuset {
        Some(id) => format!("cpuset {} allows", name(&id.path)),
        None => "their CPU affinity allows".into(),
    };
    let place = match crowd.cpus.as_slice() {
        [only] => format!("CPU {}, the only one of {all} that {whose}", only.0),
        few => format!("CPUs {list}, the {} of {all} that {whose}", few.len()),
    };
    let wanted = crowd.running + waiting;
    let box_taken = scene.interval.cpu.as_ref().map_or(0.0, |cpu| cpu.total.busy() + cpu.total.steal);
    let who: Vec<String> = free.take(NAMED).map(|(task, _)| scene.who(*task).1).collect();
    let sentence = format!(
        "{} threads want {place}: {} of them wait, while the box is {} busy; first: {}",
        count(wanted),
        figure(waiting),
        percent(box_taken),
        who.join(", "),
    );
    let subject = match (cpuset, crowd.cpus.as_slice()) {
        (Some(id), _) => Subject::Cgroup(id),
        (None, [only]) => Subject::Cpu(*only),
        (None, _) => {
            let process = scene.process(first.pid)?;
            Subject::Group { id: process.group(), name: process.comm.clone() }
        }
    };
    Some(Suspicion {
        severity: Severity::Warning,
        subject,
        value: waiting / cpus,
        threshold: thresholds.cpu_waiting_per_cpu,
        unit: "ratio",
        sentence,
        evidence: vec![
            text("allowed_cpus", crowd.allowed.clone()),
            number("busy_ratio", crowd.taken),
            number("waiting_threads", waiting),
            number("wanting_threads", wanted),
            number("box_busy_ratio", box_taken),
        ],
        explains: (cpus / scene.cpus()).min(1.0),
    })
}

/// The group whose cpuset is the reason: it applies to the thread and allows the very same CPUs.
fn cpuset(scene: &Scene, crowd: &Crowd, pid: u32) -> Option<CgroupId> {
    let process = scene.process(pid)?;
    let mut groups = scene.interval.cgroups.iter().filter(|group| group.cpus.as_ref() == Some(&crowd.allowed));
    groups.find(|group| applies(Controller::Cpuset, &group.id, process)).map(|group| group.id.clone())
}
