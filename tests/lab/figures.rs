//! The same 20 seconds measured by stalltop and by mpstat, iostat and sar: within 2 % of each other.
//!
//! Small figures have an absolute tolerance beside them, with its reason. The samples are taken in this process, so that both
//! measure the same time. On the same counters, to the last digit: `tables`.

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler};
use stalltop::sample::Sample;

use crate::attempt::{compare_until_equal, wait_for_quiet};
use crate::proc::{IN_FLIGHT, READS_COMPLETED, diskstat};
use crate::scenario::{DISK_TOOLS, Lab, Scenario};

pub const SECONDS: &str = "20";

/// The share by which two tools may differ on the same load: their samples are some milliseconds apart.
const TOLERANCE: f64 = 0.02;

#[test]
fn figures_agree_with_mpstat_iostat_and_sar() {
    if !crate::long() {
        return;
    }
    let Some(lab) = Lab::open(&[DISK_TOOLS, &["mpstat", "iostat", "sar"]].concat()) else { return };
    // A steady load on all three: 4 reads outstanding on a disk of 5 ms, one CPU burnt, packets over loopback.
    wait_for_quiet();
    let mut scenario = lab.start("09-util100-not-saturated", 240, &[("DEPTHS", "4")]);
    let device = scenario.device();
    let _load = Load::start();
    scenario.until("reads", |_| diskstat(&device, IN_FLIGHT) >= 4 && diskstat(&device, READS_COMPLETED) > 100);

    compare_until_equal("figures", || compare(&mut scenario, &device));
}

fn compare(scenario: &mut Scenario, device: &str) -> Result<(), String> {
    let mut sampler = Sampler::new(Root::host()).expect("/proc");
    let host = Arc::new(sampler.host().clone());
    let mpstat = tool("mpstat", &["-P", "ALL", "-o", "JSON", SECONDS, "1"]);
    let iostat = tool("iostat", &["-x", "-y", "-d", "-o", "JSON", SECONDS, "1"]);
    let sar = tool("sar", &["-n", "DEV", SECONDS, "1"]);
    let older = Arc::new(sampler.sample());
    let (mpstat, iostat, sar) = (answer(mpstat), answer(iostat), answer(sar));
    let newer = Arc::new(sampler.sample());
    assert!(scenario.is_running(), "the load ended early");
    let interval = Interval::between(&host, &older, &newer).expect("20 s apart");

    let mut table = Table::default();
    compare_cpus(&mut table, &interval, &serde_json::from_str(&mpstat).expect("mpstat's JSON"));
    compare_disk(&mut table, &interval, &newer, device, &serde_json::from_str(&iostat).expect("iostat's JSON"));
    compare_nic(&mut table, &interval, &sar);
    table.conclude()
}

/// CPU shares in per cent. 1 point of floor: /proc/stat counts in ticks of 10 ms and each tool reads it at another one.
fn compare_cpus(table: &mut Table, interval: &Interval, mpstat: &Value) {
    const FLOOR: f64 = 1.0;
    let loads = &mpstat["sysstat"]["hosts"][0]["statistics"][0]["cpu-load"];
    let span = interval.cpu.as_ref().expect("CPU figures");
    for load in loads.as_array().expect("mpstat's CPUs") {
        let name = load["cpu"].as_str().expect("a CPU's name");
        let shares = match name.parse::<u32>() {
            Ok(number) => span.cpus.iter().find(|cpu| cpu.id.0 == number).expect("the same CPU").shares,
            Err(_) => span.total,
        };
        let theirs = |field: &str| load[field].as_f64().unwrap_or(f64::NAN);
        // On a tickless kernel the fields need not add up to the time that passed. mpstat takes the share of their sum;
        // stalltop of the time, and shows what is missing as unaccounted.
        let percent = 100.0 / (1.0 - shares.unaccounted);
        // stalltop includes guests in user and nice, mpstat does not.
        table.row(&format!("cpu {name} user"), percent * shares.user, theirs("usr") + theirs("guest"), FLOOR);
        table.row(&format!("cpu {name} system"), percent * shares.system, theirs("sys"), FLOOR);
        table.row(&format!("cpu {name} softirq"), percent * shares.softirq, theirs("soft"), FLOOR);
        table.row(&format!("cpu {name} steal"), percent * shares.steal, theirs("steal"), FLOOR);
        // idle and iowait differ by the time of the reading; their sum is the time that no task used.
        table.row(&format!("cpu {name} idle+iowait"), percent * shares.available(), theirs("idle") + theirs("iowait"), FLOOR);
        table.row(&format!("cpu {name} iowait"), percent * shares.iowait, theirs("iowait"), FLOOR);
    }
}

fn compare_disk(table: &mut Table, interval: &Interval, newer: &Sample, device: &str, iostat: &Value) {
    let disks = newer.disks.as_deref().expect("disks");
    let span = interval.disks.iter().find(|span| disks[span.index].name.as_bytes() == device.as_bytes()).expect("the disk");
    let listed = &iostat["sysstat"]["hosts"][0]["statistics"][0]["disk"];
    let theirs = listed.as_array().expect("iostat's disks").iter().find(|disk| disk["disk_device"] == device).expect("it");
    let theirs = |field: &str| theirs[field].as_f64().unwrap_or(f64::NAN);
    table.row("disk r/s", span.reads.rate.0, theirs("r/s"), 0.5);
    table.row("disk rkB/s", span.reads.kilobytes.0, theirs("rkB/s"), 2.0);
    // iostat prints two decimals of a millisecond; the kernel counts whole ones.
    table.row("disk r_await", span.reads.r#await.map_or(f64::NAN, |millis| millis.0), theirs("r_await"), 0.02);
    table.row("disk rareq-sz", span.reads.request_size_kib.unwrap_or(f64::NAN), theirs("rareq-sz"), 0.01);
    table.row("disk aqu-sz", span.aqu_sz.unwrap_or(f64::NAN), theirs("aqu-sz"), 0.01);
    table.row("disk busy%", span.busy.map_or(f64::NAN, |share| share.percent()), theirs("util"), 0.1);
}

fn compare_nic(table: &mut Table, interval: &Interval, sar: &str) {
    let span = interval.network.nics.iter().find(|span| span.id.name.as_bytes() == b"lo").expect("loopback");
    let mut head = Vec::new();
    for line in sar.lines().filter(|line| line.starts_with("Average:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(1) == Some(&"IFACE") {
            head = words;
        } else if words.get(1) == Some(&"lo") {
            let theirs = |field: &str| {
                let at = head.iter().position(|name| *name == field)?;
                words.get(at)?.parse().ok()
            };
            let theirs = |field: &str| theirs(field).unwrap_or(f64::NAN);
            table.row("lo rxpck/s", span.rx.packets.0, theirs("rxpck/s"), 1.0);
            table.row("lo txpck/s", span.tx.packets.0, theirs("txpck/s"), 1.0);
            table.row("lo rxkB/s", span.rx.kilobytes.0, theirs("rxkB/s"), 0.5);
            table.row("lo txkB/s", span.tx.kilobytes.0, theirs("txkB/s"), 0.5);
            return;
        }
    }
    panic!("sar does not speak of loopback:\n{sar}");
}

/// Figures side by side.
#[derive(Default)]
pub struct Table {
    text: String,
    wrong: usize,
}

impl Table {
    pub fn row(&mut self, name: &str, ours: f64, theirs: f64, floor: f64) {
        let apart = (ours - theirs).abs();
        // NaN is wrong, too.
        let agrees = apart <= floor || apart <= TOLERANCE * theirs.abs();
        self.wrong += usize::from(!agrees);
        let mark = if agrees { "" } else { "  <-- apart" };
        self.text.push_str(&format!("{name:20} {ours:12.3} {theirs:12.3}{mark}\n"));
    }

    pub fn conclude(self) -> Result<(), String> {
        println!("{:20} {:>12} {:>12}\n{}", "", "stalltop", "they", self.text);
        if self.wrong == 0 {
            return Ok(());
        }
        Err(format!("{} figures are more than 2 % apart:\n{}", self.wrong, self.text))
    }
}

pub fn tool(name: &str, arguments: &[&str]) -> Child {
    Command::new(name)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("{name}: {why}"))
}

pub fn answer(child: Child) -> String {
    let out = child.wait_with_output().expect("its output");
    String::from_utf8(out.stdout).expect("text")
}

/// A burnt CPU and a thousand packets per second over loopback, until dropped.
pub struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    pub fn start() -> Load {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let burner = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let until = Arc::clone(&over);
        let sender = thread::spawn(move || {
            let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port on loopback");
            let sender = UdpSocket::bind("127.0.0.1:0").expect("a port on loopback");
            let target = receiver.local_addr().expect("its address");
            receiver.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
            while !until.load(Ordering::Relaxed) {
                sender.send_to(&[0; 1000], target).expect("loopback takes it");
                receiver.recv(&mut [0; 1000]).expect("loopback gives it");
                thread::sleep(Duration::from_millis(1));
            }
        });
        Load { over, threads: vec![burner, sender] }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
