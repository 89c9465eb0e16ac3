//! The same 20 seconds by `stalltop table` and by the tools whose names its columns have: mpstat, iostat -x, pidstat -u -t,
//! vmstat, sar -n DEV,TCP. Differences that are deliberate stand in docs/tables.md.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::figures::{Load, SECONDS, Table, answer, tool};
use crate::look::agree;
use crate::machine::{IN_FLIGHT, READS_COMPLETED, diskstat};
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

    agree("tables", || compare(&mut scenario, &device));
}

fn compare(scenario: &mut Scenario, device: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lab.stalltop");
    let own = std::process::id().to_string();
    let span = format!("{SECONDS}s");
    let recorder = Command::new(env!("CARGO_BIN_EXE_stalltop"))
        .args(["record", "-i", &span, "--for", &span])
        .arg(&file)
        .env("XDG_STATE_HOME", directory.path())
        .spawn()
        .expect("stalltop");
    let mpstat = tool("mpstat", &["-P", "ALL", "-o", "JSON", SECONDS, "1"]);
    let iostat = tool("iostat", &["-x", "-y", "-d", "-o", "JSON", SECONDS, "1"]);
    let pidstat = tool("pidstat", &["-u", "-t", "-p", &own, SECONDS, "1"]);
    let vmstat = tool("vmstat", &["-n", SECONDS, "2"]);
    let sar = tool("sar", &["-n", "DEV,TCP", SECONDS, "1"]);
    let (mpstat, iostat) = (answer(mpstat), answer(iostat));
    let (pidstat, vmstat, sar) = (answer(pidstat), answer(vmstat), answer(sar));
    recorder.wait_with_output().expect("its end");
    assert!(scenario.is_running(), "the load ended early");

    let rows = |what: &str| -> Vec<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stalltop"));
        command.args(["table", what, &span, "--columns", "all", "--format", "json", "--from"]).arg(&file);
        let text = String::from_utf8(command.output().expect("stalltop").stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    };
    let mut table = Table::default();
    cpus(&mut table, &[rows("cpu"), rows("core")].concat(), &parsed(&mpstat));
    disk(&mut table, find(&rows("disk"), "name", &device.into()), device, &parsed(&iostat));
    threads(&mut table, &rows("thread"), &own, &pidstat);
    let (load, memory, cpu) = (rows("load"), rows("memory"), rows("cpu"));
    whole_line(&mut table, [&load[0], &memory[0], &cpu[0]], &vmstat);
    network(&mut table, find(&rows("nic"), "name", &"lo".into()), &rows("tcp")[0], &sar);
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

/// 1 point of floor: /proc/stat counts in ticks and each tool reads it at another one.
fn cpus(table: &mut Table, rows: &[Value], mpstat: &Value) {
    for load in mpstat["cpu-load"].as_array().expect("mpstat's CPUs") {
        let name = load["cpu"].as_str().expect("a CPU's name");
        let row = match name.parse::<u32>() {
            Ok(number) => find(rows, "cpu", &number.into()),
            Err(_) => find(rows, "name", &"all".into()),
        };
        // Theirs is of the sum of the fields, ours of the time.
        let percent = 100.0 / (1.0 - number(row, "unaccounted_ratio"));
        let guests = [("user_ratio", "usr", "guest"), ("nice_ratio", "nice", "gnice")];
        for (ours, theirs, guest) in guests {
            let theirs_too = number(load, theirs) + number(load, guest);
            table.row(&format!("{name} %{theirs}"), percent * number(row, ours), theirs_too, 1.0);
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
            table.row(&format!("{name} %{theirs}"), percent * number(row, ours), number(load, theirs), 1.0);
        }
    }
}

/// Floors: a request more or less at either end of the 20 s, and the last digit.
fn disk(table: &mut Table, row: &Value, device: &str, iostat: &Value) {
    let disks = iostat["disk"].as_array().expect("iostat's disks");
    let theirs = find(disks, "disk_device", &device.into());
    let columns = [
        ("reads_per_second", "r/s", 1.0, 0.5),
        ("read_bytes_per_second", "rkB/s", 1.0 / 1024.0, 2.0),
        ("reads_merged_ratio", "rrqm", 100.0, 0.01),
        ("read_await_seconds", "r_await", 1000.0, 0.02),
        ("read_size_bytes", "rareq-sz", 1.0 / 1024.0, 0.01),
        ("writes_per_second", "w/s", 1.0, 0.5),
        ("write_bytes_per_second", "wkB/s", 1.0 / 1024.0, 2.0),
        ("queue", "aqu-sz", 1.0, 0.02),
        ("busy_ratio", "util", 100.0, 0.1),
    ];
    for (ours, name, scale, floor) in columns {
        table.row(&format!("disk {name}"), scale * number(row, ours), number(theirs, name), floor);
    }
}

/// The burner's thread. A tick of 10 ms in 20 s is 0.05 %; 1 point for the moments at which each tool looked.
fn threads(table: &mut Table, rows: &[Value], own: &str, pidstat: &str) {
    let lines: Vec<Vec<&str>> = pidstat.lines().filter(|line| line.starts_with("Average:")).map(words).collect();
    // The averages have no heading of their own; a time stands where "Average:" does.
    let head = pidstat.lines().map(words).find(|line| line.contains(&"%CPU")).expect("pidstat's heading");
    let at = |name: &str| head.iter().position(|word| *word == name).unwrap_or_else(|| panic!("no {name} in {head:?}"));
    let cpu = |line: &Vec<&str>| line.get(at("%CPU"))?.parse::<f64>().ok();
    let busiest = lines.iter().filter(|line| line.get(at("TID")).is_some_and(|tid| tid.parse::<u32>().is_ok()));
    let busiest = busiest.max_by(|a, b| cpu(a).partial_cmp(&cpu(b)).expect("numbers")).expect("a thread");
    let tid: u32 = busiest[at("TID")].parse().expect("a TID");
    let mine: Vec<Value> = rows.iter().filter(|row| row["pid"].as_u64() == own.parse().ok()).cloned().collect();
    let row = find(&mine, "tid", &tid.into());
    let figures =
        [("user_ratio", "%usr"), ("system_ratio", "%system"), ("run_queue_wait_ratio", "%wait"), ("cpu_ratio", "%CPU")];
    for (ours, name) in figures {
        let theirs = busiest[at(name)].parse().unwrap_or(f64::NAN);
        table.row(&format!("thread {name}"), 100.0 * number(row, ours), theirs, 1.0);
    }
}

/// The second line of vmstat: whole numbers, so half a unit more. buff and cache are of a moment, and may jump by 5 % in it.
fn whole_line(table: &mut Table, [load, memory, cpu]: [&Value; 3], vmstat: &str) {
    let lines: Vec<Vec<&str>> = vmstat.lines().map(words).collect();
    let (head, last) = (&lines[1], lines.last().expect("vmstat's line"));
    let percent = 100.0 / (1.0 - number(cpu, "unaccounted_ratio"));
    let columns = [
        (memory, "swap_used_bytes", "swpd", 1.0 / 1024.0, 1.0),
        (memory, "swap_in_bytes_per_second", "si", 1.0 / 1024.0, 1.0),
        (memory, "swap_out_bytes_per_second", "so", 1.0 / 1024.0, 1.0),
        (memory, "paged_in_bytes_per_second", "bi", 1.0 / 1024.0, 5.0),
        (memory, "paged_out_bytes_per_second", "bo", 1.0 / 1024.0, 50.0),
        (load, "interrupts_per_second", "in", 1.0, 5.0),
        (load, "context_switches_per_second", "cs", 1.0, 20.0),
        (load, "user_with_nice_ratio", "us", percent, 1.5),
        (load, "system_with_irq_ratio", "sy", percent, 1.5),
        (load, "idle_ratio", "id", percent, 1.5),
        (load, "iowait_ratio", "wa", percent, 1.5),
        (load, "steal_ratio", "st", percent, 1.5),
    ];
    for (row, ours, name, scale, floor) in columns {
        let at = head.iter().position(|word| *word == name).unwrap_or_else(|| panic!("vmstat has no {name}: {head:?}"));
        table.row(&format!("vmstat {name}"), scale * number(row, ours), last[at].parse().unwrap_or(f64::NAN), floor);
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
    for (ours, name, scale, floor) in [
        ("received_packets_per_second", "rxpck/s", 1.0, 2.0),
        ("sent_packets_per_second", "txpck/s", 1.0, 2.0),
        ("received_bytes_per_second", "rxkB/s", 1.0 / 1024.0, 0.5),
        ("sent_bytes_per_second", "txkB/s", 1.0 / 1024.0, 0.5),
    ] {
        table.row(&format!("lo {name}"), scale * number(nic, ours), theirs(name, Some("lo")), floor);
    }
    for (ours, name, floor) in [
        ("segments_in_per_second", "iseg/s", 2.0),
        ("segments_out_per_second", "oseg/s", 2.0),
        ("connections_out_per_second", "active/s", 0.1),
        ("connections_in_per_second", "passive/s", 0.1),
    ] {
        table.row(&format!("tcp {name}"), number(tcp, ours), theirs(name, None), floor);
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
