//! Processes of a thousand threads and more: what the kernel would add up over all of them.

use super::*;

/// A stat of a process or a thread that has used so many ticks and faults.
fn stat(id: u32, threads: usize, user: u64, system: u64, faults: u64) -> String {
    format!(
        "{id} (java) S 700 40 40 0 -1 4194304 {faults} 0 0 0 {user} {system} 0 0 20 0 {threads} 0 5 1000 50 \
         18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 77 0 0 0 0\n"
    )
}

/// A machine with a process of 1,000 threads.
fn java() -> Machine {
    let mut machine = Machine::new(true);
    let threads: Vec<Given<'_>> = (40..1040).map(one).collect();
    machine.put(40, "java", 5, 1000 * 10_000_000, &threads);
    machine
}

/// Thread 43 ran: it has so much behind it now, and so has the clock of its process.
fn run_43(machine: &mut Machine, run_ns: u64, user: u64, faults: u64) {
    machine.write("40/task/43/schedstat", format!("{run_ns} 7 {}\n", run_ns % 97));
    machine.write("40/task/43/stat", stat(43, 1000, user, 2, faults));
    machine.clock(40, 1000 * 10_000_000 + run_ns - 10_000_000);
}

#[test]
fn what_few_of_many_threads_did_is_added_up_and_now_and_then_asked_for() {
    let mut machine = java();
    machine.sweep();
    run_43(&mut machine, 20_000_000, 1001, 10);
    machine.sweep();
    // Its own stat is not asked for while few threads explain its clock.
    fs::remove_file(machine.path("40/stat")).unwrap();
    run_43(&mut machine, 60_000_000, 1005, 13);
    let tasks = machine.sweep();
    let process = tasks.process(40).unwrap();
    assert_eq!(process.thread(43).unwrap().minor_faults, Counter(13));
    assert_eq!(process.minor_faults, Counter(10 + 3));
    assert_eq!(process.user_ticks.0 + process.system_ticks.0, 1005, "as many as its clock says");
    assert_eq!(process.system_ticks.0, 2, "divided as in its life, and by what its thread did");
    assert_eq!(process.cpu_ns, Some(Counter(1000 * 10_000_000 + 50_000_000)));
    // What threads did that are gone again comes with the kernel's own sum.
    machine.write("40/stat", stat(40, 1000, 1500, 30, 99));
    machine.now_ns += 5 * SECOND;
    run_43(&mut machine, 70_000_000, 1006, 13);
    let tasks = machine.sweep();
    let process = tasks.process(40).unwrap();
    assert_eq!((process.user_ticks, process.system_ticks), (Counter(1500), Counter(30)));
    assert_eq!(process.minor_faults, Counter(99));
}

#[test]
fn ticks_that_no_thread_has_are_divided_as_the_kernel_divided_the_last() {
    let mut machine = java();
    machine.write("40/stat", stat(40, 1000, 750, 250, 10));
    machine.sweep();
    run_43(&mut machine, 20_000_000, 0, 10);
    machine.sweep();
    let mut ticks = Vec::new();
    for second in 1..=4 {
        run_43(&mut machine, 20_000_000 + second * 40_000_000, 0, 10);
        let tasks = machine.sweep();
        let process = tasks.process(40).unwrap();
        ticks.push((process.user_ticks.0, process.system_ticks.0));
    }
    assert_eq!(ticks, [(754, 251), (757, 252), (760, 253), (763, 254)]);
}

#[test]
fn what_its_threads_do_not_explain_is_asked_for_at_once() {
    let mut machine = java();
    machine.sweep();
    run_43(&mut machine, 20_000_000, 1001, 10);
    machine.sweep();
    // A thread began, worked and ended between two looks.
    machine.write("40/stat", stat(40, 1000, 1100, 30, 55));
    machine.clock(40, 1000 * 10_000_000 + 900_000_000);
    let tasks = machine.sweep();
    assert_eq!(tasks.process(40).unwrap().minor_faults, Counter(55));
}

fn io(read: u64, written: u64) -> String {
    format!("rchar: 0\nwchar: 0\nsyscr: 7\nsyscw: 7\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n")
}

#[test]
fn of_many_threads_those_that_ran_are_asked_what_they_have_read_and_written() {
    let mut machine = java();
    machine.write("40/io", io(4096, 1000));
    machine.sweep();
    let ran = |machine: &mut Machine, run_ns: u64, done: (u64, u64)| {
        machine.write("40/task/43/io", io(done.0, done.1));
        run_43(machine, run_ns, 1001, 10);
        machine.sweep().process(40).unwrap().io.map(|io| (io.read_bytes.0, io.write_bytes.0))
    };
    // What it had done before is not known, so that the kernel's sum is asked for.
    machine.write("40/io", io(8192, 1500));
    assert_eq!(ran(&mut machine, 20_000_000, (4096, 500)), Ok((8192, 1500)));
    machine.write("40/io", "nobody is to ask");
    assert_eq!(ran(&mut machine, 30_000_000, (4096, 700)), Ok((8192, 1700)));
    assert_eq!(ran(&mut machine, 40_000_000, (5096, 700)), Ok((9192, 1700)));
    machine.write("40/io", io(20_000, 1600));
    machine.now_ns += 5 * SECOND;
    assert_eq!(ran(&mut machine, 50_000_000, (5096, 700)), Ok((20_000, 1700)), "a counter does not fall");
}
