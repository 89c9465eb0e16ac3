//! `table WHAT -- COMMAND`: what a whole experiment cost, the box's figures and the command's own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use super::{INTERVAL, Lines, Watch};
use crate::app::config::Settings;
use crate::app::exit::{Exit, Failure};
use crate::app::sampling::Order;
use crate::app::{signals, stdout};
use crate::cli::table::Table;
use crate::kernel::Root;
use crate::report::table::Cost;

/// As a shell has them.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
const SIGNAL: i32 = 128;

pub(super) fn measure(root: Root, settings: &Settings, options: &Table, lines: &mut Lines) -> Result<Exit, Failure> {
    let [program, arguments @ ..] = options.command.as_slice() else { return Ok(Exit::Fine) };
    // An interrupt is for the command. When it has ended of it there is a total all the same.
    let stop = signals::Ending::hold().map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let mut watch = Watch::start(root, settings, options.interval.unwrap_or(INTERVAL), (options, &lines.choice))?;
    stop.then(|| ());
    // The first sample comes before the command.
    let Some(first) = watch.sampling.samples.blocking_recv() else { return Err(Failure::told(Exit::Failed)) };
    watch.judge(first);
    let orders = watch.sampling.orders();
    let begun = Instant::now();
    let mut child =
        signals::as_started(Command::new(program).args(arguments)).spawn().map_err(|error| cannot_run(program, &error))?;
    let wait = move || {
        let status = child.wait();
        let elapsed = begun.elapsed();
        let _ = orders.send(Order::Last);
        (status, elapsed)
    };
    let failed = |why: &str| Failure::new(Exit::Failed, "cannot wait for the command", why, "");
    let waiting = thread::Builder::new().name("command".to_owned()).spawn(wait);
    let waiting = waiting.map_err(|error| failed(&error.to_string()))?;
    while let Some(taken) = watch.sampling.samples.blocking_recv() {
        let Some(judged) = watch.judge(taken) else { continue };
        if !lines.take(&judged)? {
            lines.silent = true;
        }
    }
    let (status, elapsed) = waiting.join().map_err(|_| failed("its thread ended"))?;
    let status = status.map_err(|error| failed(&error.to_string()))?;
    let whole = lines.end()?;
    let cpus = whole.map_or(0, |whole| whole.interval.cpus());
    let cost = cost(status, elapsed, cpus).map_err(|error| failed(&error.to_string()))?;
    lines.page.print(&cost.lines(lines.printer.format()))?;
    if let Some(line) = watch.lessons.keep_in_time() {
        stdout::complain(&line);
    }
    Ok(Exit::Passed(cost.exit_code))
}

fn cannot_run(program: &OsString, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Failure::new(Exit::Passed(code), format!("cannot run '{}'", program.to_string_lossy()), error, "")
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The command is the only child there is: what the children used is what it used, with those that it waited for.
fn cost(status: ExitStatus, elapsed: Duration, cpus: usize) -> io::Result<Cost> {
    const KB: u64 = 1024;
    const BLOCK: u64 = 512;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let (user, system, elapsed) = (seconds(usage.user_time()), seconds(usage.system_time()), elapsed.as_secs_f64());
    let share = |of: f64| (of > 0.0).then(|| (user + system) / of);
    Ok(Cost {
        exit_code: code(status),
        elapsed_seconds: elapsed,
        user_seconds: user,
        system_seconds: system,
        cpu_ratio: share(elapsed),
        box_ratio: share(elapsed * cpus as f64),
        max_resident_bytes: count(usage.max_rss()) * KB,
        minor_faults: count(usage.minor_page_faults()),
        major_faults: count(usage.major_page_faults()),
        voluntary_switches: count(usage.voluntary_context_switches()),
        involuntary_switches: count(usage.involuntary_context_switches()),
        read_bytes: count(usage.block_reads()) * BLOCK,
        written_bytes: count(usage.block_writes()) * BLOCK,
    })
}
