//! Whether eBPF programs can be loaded and attached here: tries it.

use crate::app::program::privileges::bpf_remedy;
use crate::cli::ProbeMode;
use crate::kernel::probe::loader_process::{self, TaskAccess};
use crate::kernel::probe::{TaskIterator, block_latencies};
use crate::kernel::{Root, wake_trace};
use crate::report::formatting::printable;

/// Whether eBPF programs can be loaded: loads the task iterator.
pub fn bpf_iterator_line(in_initial_pid_namespace: bool, probes: ProbeMode) -> String {
    if probes == ProbeMode::Off {
        return "eBPF      holders of locks inside the kernel are not named: probes = \"off\"\n".to_owned();
    }
    if !in_initial_pid_namespace {
        return "eBPF      holders of locks inside the kernel are not named: this is a pid namespace of its own, and the kernel names \
                threads by their numbers on the host: docker run --pid=host, hostPID: true\n"
            .to_owned();
    }
    match TaskIterator::load(&loader_process::own_executable()) {
        Ok(_) => {
            "eBPF      programs can be loaded: holders of locks inside the kernel are named where the kernel has the fields \
             (mutexes from Linux 6.15 on, rw-semaphores from 6.17 on, before that mmap_lock alone)\n"
                .to_owned()
        }
        Err(why) => {
            let why = printable(&why.to_string());
            format!(
                "eBPF      programs cannot be loaded, and holders of locks inside the kernel are not named: {why}: {}\n",
                bpf_remedy()
            )
        }
    }
}

/// Whether the latencies of single disk requests can be measured: attaches the program, and detaches it again.
pub fn block_latencies_line(root: &Root, probes: ProbeMode) -> String {
    if probes == ProbeMode::Off {
        return "eBPF      latencies of single disk requests are not measured: probes = \"off\"\n".to_owned();
    }
    match block_latencies::try_to_attach(root, &loader_process::own_executable()) {
        Ok(()) => "eBPF      latencies of single disk requests are measured: p50, p99 and others of each disk and operation\n"
            .to_owned(),
        Err(why) => {
            let why = printable(&why.to_string());
            format!(
                "eBPF      latencies of single disk requests are not measured: {why}: {}, on a kernel with CONFIG_DEBUG_INFO_BTF\n",
                bpf_remedy()
            )
        }
    }
}

/// Whether wake-ups can be traced: attaches the programs, for no process, and detaches them again.
pub fn trace_line(root: &Root, probes: ProbeMode) -> String {
    let why = match probes {
        ProbeMode::Off => "probes = \"off\"".to_owned(),
        _ => match wake_trace::try_to_attach(root, &loader_process::own_executable()) {
            Ok(access) => {
                let how = match access {
                    TaskAccess::Types => "",
                    TaskAccess::Layout => {
                        ": the kernel does not describe its types (no BTF), where it keeps its threads was found"
                    }
                };
                return format!(
                    "eBPF      wake-ups show which thread holds a mutex of Rust that others queue for; stalltop trace can tell which thread wakes which{how}\n"
                );
            }
            Err(why) => {
                let why = printable(&why.to_string());
                format!("{why}: {}, on Linux 5.15 or later", bpf_remedy())
            }
        },
    };
    format!(
        "eBPF      wake-ups do not show which thread holds a mutex of Rust, and stalltop trace cannot tell which thread wakes which: {why}\n"
    )
}
