//! Loads the programs of wake-ups: those that read tasks by the kernel's types (BTF), or, where these are not known, those of the
//! same source that read tasks at the offsets that `task_layout` finds (raw tracepoints).

use std::os::fd::OwnedFd;

use aya::{Btf, Ebpf, EbpfLoader};

use super::object_file::{self, ObjectFile};
use super::task_layout::copies::{layout_of_this_kernel, load_raw_tracepoint};
use super::task_layout::{RegisterLayout, TaskLayout};
use super::{LoadError, load_tracepoint, map_descriptor};
use crate::kernel::probe::loader_process::{Loaded, TaskAccess};

/// An object file: its programs, each with its BTF-free variant and the tracepoint of that; its maps.
#[derive(Debug)]
pub struct WakeUpObject {
    file: ObjectFile,
    programs: &'static [(&'static str, &'static str, &'static str)],
    maps: &'static [&'static str],
}

/// Which thread wakes which.
pub const WAKES: WakeUpObject = WakeUpObject {
    file: object_file::WAKES,
    programs: &[("waking", "raw_waking", "sched_waking"), ("switched", "raw_switched", "sched_switch")],
    maps: &["control_map", "threads", "futexes", "edges"],
};
/// Which thread was woken last at a futex.
pub const LOCK_WAKERS: WakeUpObject =
    WakeUpObject { file: object_file::LOCK_WAKERS, programs: &[("waking", "raw_waking", "sched_waking")], maps: &["locks"] };

/// The descriptors of the programs, then of the maps.
pub(super) fn load(object: &WakeUpObject) -> Result<Loaded, LoadError> {
    match load_by(object, TaskAccess::Types) {
        Ok(loaded) => Ok(loaded),
        // Before Linux 5.15, types alone do not lead to the registers of a thread.
        Err(why) => load_by(object, TaskAccess::Layout).map_err(|without| match why {
            LoadError::Btf(_) => LoadError::WithoutBtf(Box::new(without)),
            _ => why,
        }),
    }
}

/// Loads the programs that read tasks by `access`.
pub fn load_by(object: &WakeUpObject, access: TaskAccess) -> Result<Loaded, LoadError> {
    let (loaded, programs) = match access {
        TaskAccess::Types => load_with_types(object)?,
        TaskAccess::Layout => load_with_layout(object)?,
    };
    let mut descriptors = programs;
    for map in object.maps {
        descriptors.push(map_descriptor(&loaded, map)?);
    }
    Ok(Loaded { access, ..Loaded::new(descriptors) })
}

fn load_with_types(object: &WakeUpObject) -> Result<(Ebpf, Vec<OwnedFd>), LoadError> {
    let types = Btf::from_sys_fs()?;
    let mut loaded = EbpfLoader::new().btf(Some(&types)).load(&object.file.decompress()?)?;
    let programs = object.programs.iter().map(|&(name, _, tracepoint)| load_tracepoint(&mut loaded, name, tracepoint, &types));
    let programs = programs.collect::<Result<_, _>>()?;
    Ok((loaded, programs))
}

fn load_with_layout(object: &WakeUpObject) -> Result<(Ebpf, Vec<OwnedFd>), LoadError> {
    let (TaskLayout { state_at, pid_at, stack_at, registers_at }, RegisterLayout { call_number_at, argument_at }) =
        layout_of_this_kernel()?;
    let futex_number = libc::SYS_futex as u32;
    let mut loaded = EbpfLoader::new()
        .btf(None)
        .override_global("state_at", &state_at, true)
        .override_global("pid_at", &pid_at, true)
        .override_global("stack_at", &stack_at, true)
        .override_global("registers_at", &registers_at, true)
        .override_global("call_number_at", &call_number_at, true)
        .override_global("argument_at", &argument_at, true)
        .override_global("futex_number", &futex_number, true)
        .load(&object.file.decompress()?)?;
    let programs = object.programs.iter().map(|&(_, raw_name, _)| load_raw_tracepoint(&mut loaded, raw_name));
    let programs = programs.collect::<Result<_, _>>()?;
    Ok((loaded, programs))
}
