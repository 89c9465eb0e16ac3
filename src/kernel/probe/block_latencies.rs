//! The program of `probe/block` for sampling: loaded when sampling begins, attached for as long as it costs little.
//!
//! Its cost is the number of requests times `NS_PER_REQUEST`: what the kernel measures of each run (bpf_stats_enabled) costs more
//! than the program itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::time::ClockId;

use super::block::{BlockLayout, BlockProbe};
use super::loader_process::{Loaded, LoaderProcess, ProbeProgram};
use super::probe_error::ProbeError;
use super::{load_obstacle, possible_cpus};
use crate::kernel::fields::parse_single_u64;
use crate::kernel::root::Root;
use crate::kernel::scan::read_clock_ns;
use crate::sample::block_io::BlockIo;
use crate::sample::disk::Disk;
use crate::sample::{Absent, Reading};

/// CPU time that the program adds to a request, by the requests per second that a machine completes with and without it: docs/cost.md.
const NS_PER_REQUEST: u64 = 125;
/// Samples in a row that cost too much, before the program is detached.
const MAX_EXPENSIVE_SAMPLES: u32 = 3;
/// For so long; then it is tried again.
const DETACHED_NS: u64 = 60_000_000_000;

/// The program, in whatever state it is.
#[derive(Debug)]
pub struct BlockLatencies {
    state: State,
    /// It is kept until it has exited, so that it becomes no zombie.
    loader: Option<LoaderProcess>,
    /// Of one CPU that it may take; `None`: any
    max_cpu_share: Option<f64>,
    expensive_samples: u32,
    /// Requests counted at the last sample, and CLOCK_BOOTTIME of that
    last: (u64, u64),
}

#[derive(Debug)]
enum State {
    /// Not wanted, or it cannot be loaded
    Off(Absent),
    Loading(BlockLayout),
    /// Since this CLOCK_BOOTTIME
    Attached(Box<BlockProbe>, u64),
    /// Until this CLOCK_BOOTTIME
    TooExpensive(Box<BlockProbe>, u64),
}

impl Default for BlockLatencies {
    fn default() -> BlockLatencies {
        let state = State::Off(Absent::NotRead);
        BlockLatencies { state, loader: None, max_cpu_share: None, expensive_samples: 0, last: (0, 0) }
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

/// Loads and attaches the program, and waits for that: for `doctor`. `program` is this one.
pub fn try_to_attach(root: &Root, program: &Path) -> Result<(), ProbeError> {
    if let Some((_, why)) = load_obstacle(root) {
        return Err(ProbeError::NotPossible(why));
    }
    let layout = layout(root);
    attach(layout, LoaderProcess::load(program, ProbeProgram::Block(layout))).map(drop)
}

fn attach(layout: BlockLayout, loaded: Result<Loaded, ProbeError>) -> Result<Box<BlockProbe>, ProbeError> {
    let mut probe = BlockProbe::new(layout, loaded?.descriptors)?;
    probe.attach().map_err(ProbeError::Refused)?;
    Ok(Box::new(probe))
}

impl BlockLatencies {
    /// Starts the loader, which is `program`; does not wait. With a share, the program is detached while it takes more of a CPU.
    pub fn start(root: &Root, program: PathBuf, max_cpu_share: Option<f64>) -> BlockLatencies {
        let layout = layout(root);
        let (state, loader) = match load_obstacle(root) {
            Some((why, _)) => (State::Off(why), None),
            None => match LoaderProcess::spawn(&program, ProbeProgram::Block(layout)) {
                Ok(loader) => (State::Loading(layout), Some(loader)),
                Err(_) => (State::Off(Absent::Unsupported), None),
            },
        };
        BlockLatencies { state, loader, max_cpu_share, ..BlockLatencies::default() }
    }

    /// What was counted of these devices, which are sorted by id.
    pub fn read(&mut self, disks: &[Disk], now_ns: u64) -> Reading<BlockIo> {
        self.attach_when_loaded();
        self.try_again(now_ns);
        if !matches!(self.state, State::Loading(_)) && self.loader.as_mut().is_some_and(LoaderProcess::has_exited) {
            self.loader = None;
        }
        let (probe, since_boottime_ns) = match &mut self.state {
            State::Off(why) => return Err(*why),
            State::Loading(_) => return Err(Absent::NotRead),
            State::TooExpensive(..) => return Err(Absent::TooExpensive),
            State::Attached(probe, since) => (probe, *since),
        };
        let buckets = probe.read(disks);
        let requests = probe.requests();
        self.step_back_if_expensive(requests, now_ns);
        Ok(BlockIo { since_boottime_ns, buckets })
    }

    fn attach_when_loaded(&mut self) {
        let State::Loading(layout) = self.state else { return };
        let Some(loaded) = self.loader.as_mut().and_then(LoaderProcess::try_result) else { return };
        // `doctor` says why.
        let _ = self.attach_loaded(layout, loaded);
    }

    fn attach_loaded(&mut self, layout: BlockLayout, loaded: Result<Loaded, ProbeError>) -> Result<(), ProbeError> {
        let attached = attach(layout, loaded);
        self.last = (0, boottime_ns());
        let (state, result) = match attached {
            Ok(probe) => (State::Attached(probe, boottime_ns()), Ok(())),
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

    fn try_again(&mut self, now_ns: u64) {
        if !matches!(self.state, State::TooExpensive(_, until) if now_ns >= until) {
            return;
        }
        let previous = std::mem::replace(&mut self.state, State::Off(Absent::Unsupported));
        if let State::TooExpensive(mut probe, _) = previous
            && probe.attach().is_ok()
        {
            self.last = (0, now_ns);
            self.state = State::Attached(probe, boottime_ns());
        }
    }

    fn step_back_if_expensive(&mut self, requests: u64, now_ns: u64) {
        let (before, before_ns) = std::mem::replace(&mut self.last, (requests, now_ns));
        let Some(limit) = self.max_cpu_share else { return };
        let cost_ns = requests.saturating_sub(before).saturating_mul(NS_PER_REQUEST);
        let is_expensive = cost_ns as f64 > limit * now_ns.saturating_sub(before_ns) as f64;
        self.expensive_samples = if is_expensive { self.expensive_samples + 1 } else { 0 };
        if self.expensive_samples < MAX_EXPENSIVE_SAMPLES {
            return;
        }
        self.expensive_samples = 0;
        let previous = std::mem::replace(&mut self.state, State::Off(Absent::TooExpensive));
        if let State::Attached(mut probe, _) = previous {
            probe.detach();
            self.state = State::TooExpensive(probe, now_ns.saturating_add(DETACHED_NS));
        }
    }
}

/// Later than whatever was counted before.
fn boottime_ns() -> u64 {
    read_clock_ns(ClockId::CLOCK_BOOTTIME).unwrap_or(0)
}
