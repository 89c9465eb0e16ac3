//! The program of `probe/block` for sampling: loaded when sampling begins, attached for as much of the time as its CPU limit
//! allows.
//!
//! Its cost is the number of requests times `NS_PER_REQUEST`: what the kernel measures of each run (bpf_stats_enabled) costs more
//! than the program itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::time::ClockId;

use super::block::{BlockLayout, BlockProbe};
use super::duty_cycle::DutyCycle;
use super::loader_process::{Loaded, LoaderProcess, ProbeProgram};
use super::probe_error::ProbeError;
use super::{load_obstacle, possible_cpus};
use crate::kernel::fields::parse_single_u64;
use crate::kernel::root::Root;
use crate::kernel::scan::read_clock_ns;
use crate::sample::block_latencies::BlockLatencies;
use crate::sample::disk::Disk;
use crate::sample::{Absent, Reading};

/// CPU time that the program adds to a request, by the requests per second that a machine completes with and without it: docs/cost.md.
const NS_PER_REQUEST: u64 = 125;

/// The program, in whatever state it is.
#[derive(Debug)]
pub struct BlockLatencyReader {
    state: State,
    /// It is kept until it has exited, so that it becomes no zombie.
    loader: Option<LoaderProcess>,
    /// Of one CPU that it may take; `None`: any
    max_cpu_share: Option<f64>,
}

#[derive(Debug)]
enum State {
    /// Not wanted, or it cannot be loaded
    Off(Absent),
    Loading(BlockLayout),
    Counting(Box<Counting>),
}

#[derive(Debug)]
struct Counting {
    probe: BlockProbe,
    /// CLOCK_BOOTTIME when it was first attached
    since_ns: u64,
    duty_cycle: DutyCycle,
}

impl Default for BlockLatencyReader {
    fn default() -> BlockLatencyReader {
        let state = State::Off(Absent::NotRead);
        BlockLatencyReader { state, loader: None, max_cpu_share: None }
    }
}

/// The layout of the maps for this machine. Loop devices without a file, and drives without a medium, have no size: they need no memory.
pub fn layout(root: &Root) -> BlockLayout {
    let has_size = |name: &OsString| {
        let size = root.read_once(Path::new("sys/block").join(name).join("size"));
        size.is_ok_and(|text| parse_single_u64(&text) != Some(0))
    };
    let names = root.list_directory("sys/block").unwrap_or_default();
    let devices = names.iter().filter(|name| has_size(name)).count();
    BlockLayout::new(possible_cpus(root), u32::try_from(devices).unwrap_or(u32::MAX))
}

/// Loads and attaches the program, and waits for that: for `doctor`. `program`: the path of stalltop, run again as the loader.
pub fn try_to_attach(root: &Root, program: &Path) -> Result<(), ProbeError> {
    if let Some((_, why)) = load_obstacle(root) {
        return Err(ProbeError::NotPossible(why));
    }
    let layout = layout(root);
    attach(layout, LoaderProcess::load(program, ProbeProgram::Block(layout))).map(drop)
}

fn attach(layout: BlockLayout, loaded: Result<Loaded, ProbeError>) -> Result<BlockProbe, ProbeError> {
    let mut probe = BlockProbe::new(layout, loaded?.descriptors)?;
    probe.attach().map_err(ProbeError::Refused)?;
    Ok(probe)
}

impl BlockLatencyReader {
    /// Starts the loader, which is `program`; does not wait. With a share, the program is attached for so much of the
    /// time that it takes no more of a CPU.
    pub fn start(root: &Root, program: PathBuf, max_cpu_share: Option<f64>) -> BlockLatencyReader {
        let layout = layout(root);
        let (state, loader) = match load_obstacle(root) {
            Some((why, _)) => (State::Off(why), None),
            None => match LoaderProcess::spawn(&program, ProbeProgram::Block(layout)) {
                Ok(loader) => (State::Loading(layout), Some(loader)),
                Err(_) => (State::Off(Absent::Unsupported), None),
            },
        };
        BlockLatencyReader { state, loader, max_cpu_share }
    }

    /// What was counted of these devices, which are sorted by id.
    pub fn read(&mut self, disks: &[Disk]) -> Reading<BlockLatencies> {
        self.attach_when_loaded();
        if !matches!(self.state, State::Loading(_)) && self.loader.as_mut().is_some_and(LoaderProcess::has_exited) {
            self.loader = None;
        }
        let counting = match &mut self.state {
            State::Off(why) => return Err(*why),
            State::Loading(_) => return Err(Absent::NotRead),
            State::Counting(counting) => counting,
        };
        let buckets = counting.probe.read(disks);
        counting.duty_cycle.measure(counting.probe.requests(), boottime_ns());
        let since_boottime_ns = counting.since_ns;
        self.attach_or_detach();
        Ok(BlockLatencies { since_boottime_ns, buckets })
    }

    /// Whether the program is attached for a part of the time only: then `pace` is to be called about ten times a second.
    pub fn is_limited(&self) -> bool {
        matches!(&self.state, State::Counting(counting) if counting.duty_cycle.is_limited())
    }

    /// Attaches or detaches the program, between samples, where it is limited.
    pub fn pace(&mut self) {
        if self.is_limited() {
            self.attach_or_detach();
        }
    }

    fn attach_or_detach(&mut self) {
        let State::Counting(counting) = &mut self.state else { return };
        if !counting.duty_cycle.update(boottime_ns()) {
            counting.probe.detach();
        } else if counting.probe.attach().is_err() {
            // Such as too many open files: it was attached before, so it may succeed again.
            counting.duty_cycle.attach_failed();
        }
    }

    fn attach_when_loaded(&mut self) {
        let State::Loading(layout) = self.state else { return };
        let Some(loaded) = self.loader.as_mut().and_then(LoaderProcess::try_result) else { return };
        // `doctor` says why.
        let _ = self.attach_loaded(layout, loaded);
    }

    fn attach_loaded(&mut self, layout: BlockLayout, loaded: Result<Loaded, ProbeError>) -> Result<(), ProbeError> {
        let (state, result) = match attach(layout, loaded) {
            Ok(probe) => {
                let since_ns = boottime_ns();
                let duty_cycle = DutyCycle::new(NS_PER_REQUEST, self.max_cpu_share, since_ns);
                (State::Counting(Box::new(Counting { probe, since_ns, duty_cycle })), Ok(()))
            }
            Err(why) => (State::Off(Absent::Unsupported), Err(why)),
        };
        self.state = state;
        result
    }

    /// Waits until it is loaded, and attaches it; why that is not possible.
    pub fn wait_until_attached(&mut self, root: &Root) -> Result<(), ProbeError> {
        match (&self.state, &mut self.loader) {
            (State::Loading(layout), Some(loader)) => {
                let (layout, loaded) = (*layout, loader.wait_for_result());
                self.attach_loaded(layout, loaded)
            }
            (State::Off(why), _) => {
                Err(load_obstacle(root).map_or(ProbeError::NotRead(*why), |(_, words)| ProbeError::NotPossible(words)))
            }
            _ => Ok(()),
        }
    }
}

/// Later than whatever was counted before.
fn boottime_ns() -> u64 {
    read_clock_ns(ClockId::CLOCK_BOOTTIME).unwrap_or(0)
}
