//! The same counters, 20 seconds of a real load, by `stalltop table` and by the tools after which its columns are named: mpstat,
//! iostat -x, pidstat -u -r -w -t, vmstat, sar -n DEV,TCP. Equal to the last printed digit, except for the deliberate
//! differences in docs/tables.md.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::figures::{Load, SECONDS, Table};
use crate::frozen::{Frozen, Running};
use crate::proc::{IN_FLIGHT, READS_COMPLETED, diskstat};
use crate::scenario::{DISK_TOOLS, Lab, Scenario};

#[test]
fn tables_agree_with_the_tools_they_are_named_after() {
    let tools = ["mpstat", "iostat", "pidstat", "vmstat", "sar"];
    let Some(lab) = Lab::open(&[DISK_TOOLS, &tools].concat()) else { return };
    let mut scenario = lab.start("09-util100-not-saturated", 120, &[("DEPTHS", "4")]);
    let device = scenario.device();
    let _load = Load::start();
    let _chat = Chat::start();
    scenario.until("reads", |_| diskstat(&device, IN_FLIGHT) >= 4 && diskstat(&device, READS_COMPLETED) > 100);

    // Both read the same counters: they agree on a busy machine, too.
    compare(&mut scenario, &device).unwrap_or_else(|wrong| panic!("{wrong}"));
}

fn compare(scenario: &mut Scenario, device: &str) -> Result<(), String> {
    let own = std::process::id().to_string();
    let frozen = Frozen::begin(std::process::id());
    let mpstat = frozen.tool("mpstat", &["-P", "ALL", "-o", "JSON", SECONDS, "1"]);
    let iostat = frozen.tool("iostat", &["-x", "-y", "-d", "-o", "JSON", SECONDS, "1"]);
    let pidstat = frozen.tool("pidstat", &["-u", "-r", "-w", "-t", "-p", &own, SECONDS, "1"]);
    let vmstat = frozen.tool("vmstat", &["-n", SECONDS, "2"]);
    let sar = frozen.tool("sar", &["-n", "DEV,TCP", SECONDS, "1"]);
    let ours = ["cpu", "core", "disk", "thread", "load", "memory", "nic", "tcp"].map(|what| (what, frozen.table(what)));
    frozen.end()?;
    assert!(scenario.is_running(), "the load ended early");
    let moment = frozen.tool("vmstat", &["-n"]);
    let (mpstat, iostat) = (mpstat.answer(), iostat.answer());
    let (pidstat, vmstat, sar) = (pidstat.answer(), [vmstat.answer(), moment.answer()], sar.answer());
    let rows = |(_, child): (&str, Running)| -> Vec<Value> {
        child.answer().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    };
    let [cpu, core, disks, thread, load, memory, nic, tcp] = ours.map(rows);

    let mut table = Table::default();
    cpus(&mut table, &[cpu.clone(), core].concat(), &parsed(&mpstat));
    disk(&mut table, find(&disks, "name", &device.into()), device, &parsed(&iostat));
    threads(&mut table, &thread, &own, &pidstat);
    whole_line(&mut table, [&load[0], &memory[0], &cpu[0]], &vmstat.each_ref().map(String::as_str));
    network(&mut table, find(&nic, "name", &"lo".into()), &tcp[0], &sar);
    table.conclude()
}

fn parsed(json: &str) -> Value {
    serde_json::from_str::<Value>(json).expect("JSON")["sysstat"]["hosts"][0]["statistics"][0].clone()
}

fn find<'a>(rows: &'a [Value], field: &str, value: &Value) -> &'a Value {
    rows.iter().find(|row| row[field] == *value).unwrap_or_else(|| panic!("no row with {field} {value} in {rows:?}"))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or(f64::NAN)
}

/// The last digit of a figure with two decimals.
const LAST: f64 = 0.01;

/// Their `all` is the sum of the lines cpuN, ours the line cpu: the kernel cuts each of them to whole ticks, two in 20 s.
const CUT: f64 = 0.1;

fn cpus(table: &mut Table, rows: &[Value], mpstat: &Value) {
    for load in mpstat["cpu-load"].as_array().expect("mpstat's CPUs") {
        let name = load["cpu"].as_str().expect("a CPU's name");
        let row = match name.parse::<u32>() {
            Ok(number) => find(rows, "cpu", &number.into()),
            Err(_) => find(rows, "name", &"all".into()),
        };
        let floor = if name == "all" { CUT } else { LAST };
        // mpstat divides by the sum of the fields, stalltop by the elapsed time.
        let percent = 100.0 / (1.0 - number(row, "unaccounted_ratio"));
        let guests = [("user_ratio", "usr", "guest"), ("nice_ratio", "nice", "gnice")];
        for (ours, theirs, guest) in guests {
            let theirs_too = number(load, theirs) + number(load, guest);
            table.row(&format!("{name} %{theirs}"), percent * number(row, ours), theirs_too, floor);
        }
        let plain = [
            ("system_ratio", "sys"),
            ("iowait_ratio", "iowait"),
            ("irq_ratio", "irq"),
            ("softirq_ratio", "soft"),
            ("steal_ratio", "steal"),
            ("idle_ratio", "idle"),
        ];
        for (ours, theirs) in plain {
            table.row(&format!("{name} %{theirs}"), percent * number(row, ours), number(load, theirs), floor);
        }
    }
}

fn disk(table: &mut Table, row: &Value, device: &str, iostat: &Value) {
    let disks = iostat["disk"].as_array().expect("iostat's disks");
    let theirs = find(disks, "disk_device", &device.into());
    let columns = [
        ("reads_per_second", "r/s", 1.0),
        ("read_bytes_per_second", "rkB/s", 1.0 / 1024.0),
        ("reads_merged_per_second", "rrqm/s", 1.0),
        ("reads_merged_ratio", "rrqm", 100.0),
        ("read_await_seconds", "r_await", 1000.0),
        ("read_size_bytes", "rareq-sz", 1.0 / 1024.0),
        ("writes_per_second", "w/s", 1.0),
        ("write_bytes_per_second", "wkB/s", 1.0 / 1024.0),
        ("writes_merged_per_second", "wrqm/s", 1.0),
        ("discards_per_second", "d/s", 1.0),
        ("flushes_per_second", "f/s", 1.0),
        ("queue", "aqu-sz", 1.0),
        ("busy_ratio", "util", 100.0),
    ];
    for (ours, name, scale) in columns {
        table.row(&format!("disk {name}"), scale * number(row, ours), number(theirs, name), LAST);
    }
}

/// The burner's thread and all others. What pidstat takes from ticks, of which each time is a whole number, is right to two
/// ticks of 10 ms in 20 s: 0.1 %. What it counts is right to the last digit.
fn threads(table: &mut Table, rows: &[Value], own: &str, pidstat: &str) {
    const TICKS: f64 = 0.1;
    let columns = [
        ("user_ratio", "%usr", 100.0, TICKS),
        ("system_ratio", "%system", 100.0, TICKS),
        ("guest_ratio", "%guest", 100.0, TICKS),
        ("run_queue_wait_ratio", "%wait", 100.0, TICKS),
        ("cpu_ratio", "%CPU", 100.0, TICKS),
        ("minor_faults_per_second", "minflt/s", 1.0, LAST),
        ("major_faults_per_second", "majflt/s", 1.0, LAST),
        ("voluntary_switches_per_second", "cswch/s", 1.0, LAST),
        ("involuntary_switches_per_second", "nvcswch/s", 1.0, LAST),
    ];
    let lines: Vec<Vec<&str>> = pidstat.lines().filter(|line| line.starts_with("Average:")).map(words).collect();
    let number = |text: &str| text.parse::<u64>().map(Value::from).unwrap_or_default();
    let mut seen = 0;
    for (ours, name, scale, floor) in columns {
        let head = lines.iter().position(|line| line.contains(&name)).unwrap_or_else(|| panic!("pidstat has no {name}"));
        let at = |name: &str| lines[head].iter().position(|word| *word == name).expect("a heading");
        let (tid, place) = (at("TID"), at(name));
        // One line of the process, then its threads; the next block has a heading of its own.
        let threads = lines[head + 1..].iter().take_while(|line| !line.contains(&"TID"));
        for line in threads.filter(|line| line[tid].parse::<u32>().is_ok()) {
            let mine = rows.iter().find(|row| [&row["pid"], &row["tid"]] == [&number(own), &number(line[tid])]);
            let mine = mine.unwrap_or_else(|| panic!("no thread {} in {rows:?}", line[tid]));
            let theirs = line[place].parse().unwrap_or(f64::NAN);
            let ours = mine[ours].as_f64().unwrap_or(f64::NAN);
            table.row(&format!("{} {name}", line[tid]), scale * ours, theirs, floor);
            seen += 1;
        }
    }
    assert!(seen >= 3 * columns.len(), "the burner, the sender and the chat at least:\n{pidstat}");
}

/// The second line of vmstat: whole numbers. Its amounts of memory are those of the first line again (procps 4.0.2), so they
/// are taken from a first line at the end.
fn whole_line(table: &mut Table, [load, memory, cpu]: [&Value; 3], vmstat: &[&str; 2]) {
    const WHOLE: f64 = 1.0;
    const KB: f64 = 1.0 / 1024.0;
    let lines = vmstat.map(|text| text.lines().map(words).collect::<Vec<_>>());
    let (head, last) = (&lines[0][1], lines.each_ref().map(|lines| lines.last().expect("vmstat's line")));
    let percent = 100.0 / (1.0 - number(cpu, "unaccounted_ratio"));
    let columns = [
        (load, "procs_running", "r", 1.0),
        (load, "procs_blocked", "b", 1.0),
        (memory, "swap_used_bytes", "swpd", KB),
        (memory, "free_bytes", "free", KB),
        (memory, "buffers_bytes", "buff", KB),
        (memory, "cache_bytes", "cache", KB),
        (memory, "swap_in_bytes_per_second", "si", KB),
        (memory, "swap_out_bytes_per_second", "so", KB),
        (memory, "paged_in_bytes_per_second", "bi", KB),
        (memory, "paged_out_bytes_per_second", "bo", KB),
        (load, "interrupts_per_second", "in", 1.0),
        (load, "context_switches_per_second", "cs", 1.0),
        (load, "user_with_nice_ratio", "us", percent),
        (load, "system_with_irq_ratio", "sy", percent),
        (load, "idle_ratio", "id", percent),
        (load, "iowait_ratio", "wa", percent),
        (load, "steal_ratio", "st", percent),
    ];
    let gauges = ["swpd", "free", "buff", "cache"];
    for (row, ours, name, scale) in columns {
        let at = head.iter().position(|word| *word == name).unwrap_or_else(|| panic!("vmstat has no {name}: {head:?}"));
        table.row(
            &format!("vmstat {name}"),
            scale * number(row, ours),
            last[usize::from(gauges.contains(&name))][at].parse().unwrap_or(f64::NAN),
            WHOLE,
        );
    }
}

fn network(table: &mut Table, nic: &Value, tcp: &Value, sar: &str) {
    let lines: Vec<Vec<&str>> = sar.lines().filter(|line| line.starts_with("Average:")).map(words).collect();
    let theirs = |name: &str, row: Option<&str>| -> f64 {
        let head = lines.iter().position(|line| line.contains(&name)).unwrap_or_else(|| panic!("sar has no {name}"));
        let at = lines[head].iter().position(|word| *word == name).expect("it is there");
        let mut below = lines[head + 1..].iter();
        let line = below.find(|line| row.is_none_or(|row| line.get(1) == Some(&row))).expect("a line");
        line[at].parse().unwrap_or(f64::NAN)
    };
    for (ours, name, scale) in [
        ("received_packets_per_second", "rxpck/s", 1.0),
        ("sent_packets_per_second", "txpck/s", 1.0),
        ("received_bytes_per_second", "rxkB/s", 1.0 / 1024.0),
        ("sent_bytes_per_second", "txkB/s", 1.0 / 1024.0),
    ] {
        table.row(&format!("lo {name}"), scale * number(nic, ours), theirs(name, Some("lo")), LAST);
    }
    for (ours, name) in [
        ("segments_in_per_second", "iseg/s"),
        ("segments_out_per_second", "oseg/s"),
        ("connections_out_per_second", "active/s"),
        ("connections_in_per_second", "passive/s"),
    ] {
        table.row(&format!("tcp {name}"), number(tcp, ours), theirs(name, None), LAST);
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A byte to and fro over TCP, some hundred times a second, a new connection every twenty, until dropped.
struct Chat {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Chat {
    fn start() -> Chat {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("its address");
        let body = move || {
            while !until.load(Ordering::Relaxed) {
                let mut here = TcpStream::connect(address).expect("loopback");
                let (mut there, _) = listener.accept().expect("a connection");
                for _ in 0..20 {
                    here.write_all(b"x").expect("loopback takes it");
                    there.read_exact(&mut [0]).expect("loopback gives it");
                    thread::sleep(Duration::from_millis(4));
                }
            }
        };
        Chat { over, thread: Some(thread::spawn(body)) }
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}
