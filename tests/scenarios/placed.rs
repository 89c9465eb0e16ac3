//! A scenario on some CPUs of a larger machine, beside another one (`pairs`).

use crate::format::{Case, Core, Phase, Process, Shares};

/// Intervals of each pair: findings are raised, and the order has settled, before the last third of them.
const INTERVALS: u32 = 12;

/// Pids of the second scenario are higher by this.
const PID_OFFSET: u32 = 200_000;

/// A case on the CPUs from `first_cpu` of a machine whose other CPUs are idle; the second of a pair has other names.
pub fn placed(case: &Case, first_cpu: u32, cpus: u32, is_second: bool) -> Case {
    let mut phase = case.phase[0].clone();
    let of_cpu = |cpu: u32| phase.core.iter().find(|core| core.cpu == cpu).map_or(&phase.cpu, |core| &core.shares).clone();
    let core = (0..case.cpus).map(|cpu| Core { cpu: cpu + first_cpu, shares: of_cpu(cpu) }).collect();
    phase.core = core;
    phase.cpu = Shares::default();
    phase.softnet.iter_mut().for_each(|softnet| softnet.cpu += first_cpu);
    phase.intervals = INTERVALS;
    for process in &mut phase.process {
        process.on_cpu += first_cpu;
        process.moves_on = Some((first_cpu, case.cpus));
        if is_second {
            process.pid += PID_OFFSET;
            process.parent += if process.parent > 2 { PID_OFFSET } else { 0 };
            process.queue.iter_mut().filter_map(|queue| queue.holder.as_mut()).for_each(|pid| *pid += PID_OFFSET);
            process.pipe.iter_mut().for_each(|pipe| pipe.other += PID_OFFSET);
        }
    }
    account_for_ticks(&mut phase);
    if is_second {
        let rename = |name: &mut String| name.push_str("-second");
        let disks = phase.disk.iter_mut();
        disks
            .flat_map(|disk| std::iter::once(&mut disk.name).chain(&mut disk.stands_on).chain(&mut disk.serial))
            .for_each(rename);
        phase.process.iter_mut().filter_map(|process| process.holder.as_mut()?.disk.as_mut()).for_each(rename);
        phase
            .process
            .iter_mut()
            .flat_map(|process| &mut process.owner)
            .filter_map(|owner| owner.disk.as_mut())
            .for_each(rename);
        phase.process.iter_mut().filter_map(|process| process.cgroup.as_mut()).for_each(rename);
        phase.weight.iter_mut().map(|weight| &mut weight.path).for_each(rename);
        phase.nic.iter_mut().map(|nic| &mut nic.name).for_each(rename);
        phase.namespace.iter_mut().for_each(|namespace| namespace.pid += PID_OFFSET);
        phase.peer.iter_mut().filter_map(|peer| peer.via.as_mut()).for_each(rename);
        let groups = phase.cgroup.iter_mut();
        groups
            .flat_map(|group| std::iter::once(&mut group.path).chain(group.io.iter_mut().map(|io| &mut io.disk)))
            .for_each(rename);
    }
    Case { title: case.title.clone(), must_not_raise: None, cpus, hidepid: false, hypervisor: None, phase: vec![phase] }
}

/// Difference between run time and ticks of a CPU that is no statement of the scenario.
const NEGLIGIBLE_CPUS: f64 = 0.05;

/// Processes that use the ticks of a CPU for which the scenario has no process: so many that none is named.
const FILLERS: u32 = 12;
const FIRST_FILLER_PID: u32 = 150_000;

/// A scenario states the ticks of its CPUs and the run time of the processes that matter. On a machine each tick is the run time of
/// a task, otherwise the ticks of one scenario would explain the run time of the other one: processes with more run time than their
/// CPU has ticks are those of other CPUs, too, and small processes use the rest.
fn account_for_ticks(phase: &mut Phase) {
    let run = |process: &Process| (process.cpu + process.ended) * f64::from(process.count);
    let ticks = |core: &Core| (core.shares.user + core.shares.nice + core.shares.system) / 100.0;
    let stays = |process: &&Process, cpu: u32| process.on_cpu == cpu && !process.moves;
    let stayed = |processes: &[Process], cpu: u32| processes.iter().filter(|process| stays(process, cpu)).map(run).sum::<f64>();
    let lacks = |processes: &[Process], core: &Core| (ticks(core) - stayed(processes, core.cpu)).max(0.0);
    let total: f64 = phase.core.iter().map(|core| lacks(&phase.process, core)).sum();
    for core in &phase.core {
        let excess = stayed(&phase.process, core.cpu) - ticks(core);
        if excess > NEGLIGIBLE_CPUS && total > excess - NEGLIGIBLE_CPUS {
            let there = phase.process.iter_mut().filter(|process| process.on_cpu == core.cpu && process.cpu > 0.0);
            there.for_each(|process| process.moves = true);
        }
    }
    let total: f64 = phase.core.iter().map(|core| lacks(&phase.process, core)).sum();
    let moving: f64 = phase.process.iter().filter(|process| process.moves).map(run).sum();
    let left = if total > 0.0 { (1.0 - moving / total).max(0.0) } else { 0.0 };
    let fillers: Vec<Process> = phase
        .core
        .iter()
        .map(|core| (core.cpu, lacks(&phase.process, core) * left))
        .filter(|&(_, cpus)| cpus > NEGLIGIBLE_CPUS)
        .map(|(cpu, cpus)| {
            let (pid, each) = (FIRST_FILLER_PID + cpu * FILLERS, cpus / f64::from(FILLERS));
            let row = format!("name = 'filler'\npid = {pid}\ncount = {FILLERS}\ncpu = {each}\non-cpu = {cpu}");
            toml::from_str(&row).expect("a process")
        })
        .collect();
    phase.process.extend(fillers);
}
