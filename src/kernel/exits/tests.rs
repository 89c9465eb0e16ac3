//! Which exits are reported, and for which owner.

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Processes that scans have read: pid, parent, name, second of its start, threads.
struct Scanned(Vec<(u32, u32, Name, u64, Vec<u32>)>);

impl ProcessLookup for Scanned {
    fn process(&self, pid: u32) -> Option<ProcessIdentity<'_>> {
        let (pid, ppid, comm, start, _) = self.0.iter().find(|process| process.0 == pid)?;
        let id = ProcessId { pid: *pid, start_ticks: start * 100 };
        Some(ProcessIdentity { id, start_ns: start * SECOND, ppid: *ppid, comm })
    }

    fn has_thread(&self, pid: u32, tid: u32) -> bool {
        self.0.iter().any(|process| process.0 == pid && process.4.contains(&tid))
    }
}

fn process(pid: u32, ppid: u32, comm: &str, start: u64) -> (u32, u32, Name, u64, Vec<u32>) {
    (pid, ppid, comm.into(), start, vec![pid])
}

/// struct taskstats as the kernel fills it in.
fn account(tid: u32, tgid: u32, ppid: u32, comm: &str, last: bool, cpu_ms: u64, elapsed_ms: u64) -> TaskStats {
    let mut bytes = vec![0_u8; 432];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &14_u16.to_ne_bytes());
    put(8, &[if last { 0x20 } else { 0 }]);
    put(72, &(cpu_ms * 1_000_000).to_ne_bytes());
    put(80, comm.as_bytes());
    put(128, &tid.to_ne_bytes());
    put(132, &ppid.to_ne_bytes());
    put(144, &(elapsed_ms * 1000).to_ne_bytes());
    put(368, &tgid.to_ne_bytes());
    TaskStats::parse(&bytes).expect("a valid struct")
}

fn ended(pid: u32, ppid: u32, comm: &str, cpu_ms: u64) -> TaskStats {
    account(pid, pid, ppid, comm, true, cpu_ms, cpu_ms + 1)
}

/// The exits of the sample at second 101, after a sample at second 100.
fn summarized(before: &Scanned, after: &Scanned, ends: &[TaskStats]) -> Exits {
    let mut buffer = ExitBuffer::default();
    for end in ends {
        buffer.record(end, 100 * SECOND + SECOND / 2, before);
    }
    buffer.summarize(100 * SECOND, after)
}

fn words(exits: &Exits) -> Vec<String> {
    let text = |name: &Name| String::from_utf8_lossy(name.as_bytes()).into_owned();
    let row = |row: &ExitedTasks| {
        let kind = if row.are_threads { "threads" } else { "processes" };
        format!(
            "{} > {} {} {kind} {} ms",
            text(&row.owner_name),
            text(&row.name),
            row.count,
            row.cpu.estimated_ns() / 1_000_000
        )
    };
    exits.rows.iter().map(row).collect()
}

#[test]
fn exits_belong_to_the_nearest_ancestor_that_still_runs() {
    let make = Scanned(vec![process(50, 40, "make", 3)]);
    // cc runs cc1 and as, and exits too; the next cc still runs.
    let after = Scanned(vec![process(50, 40, "make", 3), process(70, 50, "cc", 101)]);
    let ends = [ended(61, 60, "cc1", 300), ended(62, 60, "as", 20), ended(60, 50, "cc", 2), ended(71, 70, "cc1", 100)];
    let exits = summarized(&make, &after, &ends);
    assert_eq!(words(&exits), ["make > cc1 2 processes 400 ms", "make > as 1 processes 20 ms", "make > cc 1 processes 2 ms"]);
    assert_eq!((exits.rows[0].owner, exits.previously_sampled), (Some(ProcessId { pid: 50, start_ticks: 300 }), 0));
}

#[test]
fn exits_of_processes_that_a_scan_has_read_are_only_counted() {
    let before = Scanned(vec![process(50, 40, "make", 3), process(60, 50, "cc1", 99)]);
    let after = Scanned(vec![process(50, 40, "make", 3)]);
    let seen = account(60, 60, 50, "cc1", true, 900, 1600);
    // The same pid again, of a process that started later.
    let again = account(60, 60, 50, "sed", true, 2, 3);
    let exits = summarized(&before, &after, &[seen, again]);
    assert_eq!((words(&exits), exits.previously_sampled), (vec!["make > sed 1 processes 2 ms".to_owned()], 1));
}

#[test]
fn a_parent_that_exited_too_is_still_named() {
    let before = Scanned(vec![process(50, 40, "make", 3)]);
    let exits =
        summarized(&before, &Scanned(Vec::new()), &[ended(61, 50, "cc1", 5), account(50, 50, 40, "make", true, 1, 98_000)]);
    assert_eq!((words(&exits), exits.previously_sampled), (vec!["make > cc1 1 processes 5 ms".to_owned()], 1));
    let orphan = summarized(&before, &Scanned(Vec::new()), &[ended(61, 7, "x", 5)]);
    assert_eq!((words(&orphan), orphan.rows[0].owner), (vec![" > x 1 processes 5 ms".to_owned()], None));
}

#[test]
fn threads_belong_to_their_process() {
    let app = Scanned(vec![(50, 1, "app".into(), 3, vec![50, 51])]);
    let thread = |tid: u32, last| account(tid, 50, 1, "worker", last, 4, 5);
    let exits = summarized(&app, &app, &[thread(51, false), thread(52, false), thread(53, false)]);
    assert_eq!(words(&exits), ["app > worker 2 threads 8 ms"], "51 was seen");
    // A process of three threads that no scan has read is one process with the name of its leader, whichever thread exits last.
    let thread = |tid: u32, last, cpu_ms| account(tid, 80, 50, if tid == 80 { "job" } else { "io" }, last, cpu_ms, 9);
    let ends = [thread(80, false, 1), thread(81, false, 2), thread(82, true, 4)];
    assert_eq!(words(&summarized(&app, &app, &ends)), ["app > job 1 processes 7 ms"]);
}

#[test]
fn a_cycle_of_parents_is_no_endless_loop() {
    let circle = Scanned(vec![process(50, 51, "a", 101), process(51, 50, "b", 101)]);
    let exits = summarized(&Scanned(Vec::new()), &circle, &[ended(61, 50, "x", 1), ended(62, 62, "y", 1)]);
    assert_eq!(exits.rows.len(), 2);
}

#[test]
fn rows_and_memory_are_bounded_and_nothing_is_lost_silently() {
    let none = Scanned(Vec::new());
    let ends: Vec<TaskStats> =
        (0..MAX_BUFFERED_EXITS as u32 + 10).map(|n| ended(n + 1, 0, &format!("n{}", n % 100), 1)).collect();
    let exits = summarized(&none, &none, &ends);
    assert_eq!(exits.rows.len(), MAX_ROWS);
    let listed: u64 = exits.rows.iter().map(|row| u64::from(row.count)).sum();
    assert_eq!(listed + u64::from(exits.unlisted.processes), ends.len() as u64);
    let ns: u64 = exits.rows.iter().map(|row| row.cpu.run_ns).sum();
    assert_eq!(ns + exits.unlisted.cpu.run_ns, ends.len() as u64 * 1_000_000);
}
