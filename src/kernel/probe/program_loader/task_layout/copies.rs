//! Lets threads of this process sleep while eBPF programs copy what the kernel keeps of them, for `find_layout`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use aya::programs::RawTracePoint;
use aya::{Ebpf, EbpfLoader};
use nix::unistd::gettid;

use super::super::{LoadError, map_descriptor, missing, object_file};
use super::{LayoutError, RegisterLayout, THREAD_WORDS, THREADS, TID, TaskLayout, find_layout};
use crate::kernel::sys::{self, SharedWords};

/// Longer than any thread takes to begin to sleep
const SLEEP: Duration = Duration::from_millis(2);

/// Where members of `task_struct` lie in this kernel, and the layout of registers. Takes a few milliseconds.
pub fn layout_of_this_kernel() -> Result<(TaskLayout, RegisterLayout), LoadError> {
    let registers = RegisterLayout::native().ok_or(LayoutError::Architecture)?;
    let mut object = EbpfLoader::new()
        .btf(None)
        .override_global("call_number_at", &registers.call_number_at, true)
        .load(&object_file::TASK_LAYOUT.decompress()?)?;
    let words =
        SharedWords::map(map_descriptor(&object, "threads")?.as_fd(), THREADS * THREAD_WORDS).map_err(io::Error::from)?;
    let programs: [(&str, &CStr); 2] = [("slept", c"sched_switch"), ("entered", c"sys_enter")];
    let mut links = Vec::new();
    for (name, tracepoint) in programs {
        let program = load_raw_tracepoint(&mut object, name)?;
        links.push(sys::bpf_raw_tracepoint_open(program.as_fd(), Some(tracepoint)).map_err(io::Error::from)?);
    }
    thread::scope(|scope| {
        for place in 0..THREADS {
            let words = &words;
            scope.spawn(move || {
                words.set(place * THREAD_WORDS + TID, u64::from(gettid().as_raw().cast_unsigned()));
                thread::sleep(SLEEP);
            });
        }
    });
    drop(links);
    let words: Vec<u64> = (0..words.len()).map(|at| words.get(at)).collect();
    Ok((find_layout(&words)?, registers))
}

/// Loads a program that is told its tracepoint when it is attached.
pub fn load_raw_tracepoint(object: &mut Ebpf, name: &str) -> Result<OwnedFd, LoadError> {
    let program: &mut RawTracePoint = object.program_mut(name).ok_or_else(|| missing(name))?.try_into()?;
    program.load()?;
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}
