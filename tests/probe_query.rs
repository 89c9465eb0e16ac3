//! `probe query` against what pgbench, sysbench, the server and /proc say of the same queries. As root, with BTF and uprobes, PostgreSQL,
//! MariaDB and sysbench. Where latencies of clients are compared, client and server run ahead of all other load: it would come in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "support/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use nix::unistd::User;
use program::program;
use serde_json::Value;
use tempfile::TempDir;

/// For what takes a second on an idle machine
const DEADLINE: Duration = Duration::from_secs(120);

/// The probe of one server. Ended when it is dropped.
struct Probe {
    child: Child,
    lines: Receiver<String>,
}

impl Probe {
    /// Waits until it counts.
    fn start(pid: &str) -> Probe {
        let mut command = Command::new(program());
        command.args(["probe", "query", "--json", "--pid", pid, "200ms"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let probe = Probe { child, lines };
        probe.next();
        probe
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(DEADLINE).expect("the probe has ended, or prints nothing")).unwrap()
    }

    /// What it has counted of a client that has ended. Ends it.
    fn total(self) -> Totals {
        let (client_end, deadline) = (Timestamp::now(), Instant::now() + DEADLINE);
        let mut lines = Vec::new();
        loop {
            assert!(Instant::now() < deadline, "queries without a client");
            lines.push(self.next());
            let line = &lines[lines.len() - 1];
            // A query may end after the client has its answer.
            if begin_and_end(line).0 > client_end && line["all"]["queries"] == 0 {
                return Totals { lines };
            }
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// It may have ended by itself.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Of the interval of a line
fn begin_and_end(line: &Value) -> (Timestamp, Timestamp) {
    let end: Timestamp = line["at"].as_str().unwrap().parse().unwrap();
    (end - SignedDuration::from_secs_f64(line["interval_seconds"].as_f64().unwrap()), end)
}

struct Totals {
    lines: Vec<Value>,
}

impl Totals {
    fn sum(&self, pointer: &str) -> f64 {
        self.lines.iter().map(|line| line.pointer(pointer).unwrap().as_f64().unwrap()).sum()
    }

    fn queries(&self) -> f64 {
        self.sum("/all/queries")
    }

    /// In milliseconds: by rank within its bucket, as the table has it
    fn p95_ms(&self) -> f64 {
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        for pair in self.lines.iter().flat_map(|line| line["all"]["histogram"].as_array().unwrap()) {
            *buckets.entry((pair[0].as_f64().unwrap() * 1e9).round() as u64).or_default() += pair[1].as_u64().unwrap();
        }
        let rank = self.queries() * 0.95;
        let mut below = 0.0;
        for (middle, count) in buckets {
            let (middle, count) = (middle as f64, count as f64);
            if below + count >= rank {
                // 32 buckets to a power of two, of 128 ns or more
                let mut width = 128.0;
                while middle >= 64.0 * width {
                    width *= 2.0;
                }
                return (middle + width * ((rank - below) / count - 0.5)) / 1e6;
            }
            below += count;
        }
        panic!("no queries")
    }

    fn assert_times_add_up(&self) {
        let parts = ["on_cpu", "run_queue", "storage", "locks", "other"];
        let parts: f64 = parts.iter().map(|part| self.sum(&format!("/{part}_seconds"))).sum();
        let all = self.sum("/all/total_seconds");
        assert!((parts - all).abs() <= all * 0.001, "{parts} s of {all} s");
        assert!(self.sum("/on_cpu_seconds") > 0.0);
    }

    /// Each line has the rate in the time that it measured, and no time is left out or counted twice, however late a line is.
    fn assert_rates_are_of_measured_time(&self) {
        for line in &self.lines {
            let [queries, seconds] =
                ["/all/queries", "/interval_seconds"].map(|part| line.pointer(part).unwrap().as_f64().unwrap());
            assert!((line["all"]["per_second"].as_f64().unwrap() - queries / seconds).abs() < 0.01, "{queries} in {seconds} s");
        }
        let (begin, end) = (begin_and_end(&self.lines[0]).0, begin_and_end(&self.lines[self.lines.len() - 1]).1);
        let measured = self.sum("/interval_seconds");
        println!("{:.1} queries/s in {measured:.3} s, in {} lines", self.queries() / measured, self.lines.len());
        assert!((measured - end.duration_since(begin).as_secs_f64()).abs() < 0.05, "{measured} s from {begin} to {end}");
    }
}

fn p95(latencies: &mut [f64]) -> f64 {
    latencies.sort_by(f64::total_cmp);
    latencies[(latencies.len() * 95).div_ceil(100) - 1]
}

fn assert_close(what: &str, counted: f64, expected: f64, share: f64) {
    println!("{what}: {counted:.2}, expected {expected:.2}");
    assert!((counted - expected).abs() <= expected * share, "{what}: {counted}, expected {expected}");
}

#[derive(Clone, Copy, PartialEq)]
enum Scheduling {
    Ordinary,
    /// With a real-time priority: a nice value counts within a session alone (sched_autogroup), and each backend of PostgreSQL has its own
    AheadOfOthers,
}

impl Scheduling {
    fn command(self, program: &str) -> Command {
        match self {
            Scheduling::Ordinary => Command::new(program),
            Scheduling::AheadOfOthers => {
                let mut command = Command::new("chrt");
                command.args(["--rr", "1", program]);
                command
            }
        }
    }

    /// Why it is not possible.
    fn obstacle(self) -> Option<String> {
        let output = self.command("true").output();
        let why = output.map_or_else(|why| why.to_string(), |output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        (!why.is_empty()).then(|| format!("no real-time priority: {why}"))
    }

    /// A program that runs as this user.
    fn as_user(self, user: &str, program: &Path, arguments: &[&str], directory: &Path) -> Command {
        let mut command = self.command("runuser");
        command.args(["-u", user, "--"]).arg(program).args(arguments).current_dir(directory);
        command
    }
}

/// Runs it to its end.
fn run(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A directory of this user.
fn directory_of(user: &User) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(directory.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    directory
}

/// Why the probe cannot run here, in the words of `doctor`, or why its servers cannot.
fn obstacle(scheduling: Scheduling) -> Option<String> {
    static DOCTOR: OnceLock<String> = OnceLock::new();
    let text = DOCTOR.get_or_init(|| {
        let output = Command::new(program()).arg("doctor").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let line = text.lines().find(|line| line.contains("queries of databases")).unwrap_or_else(|| panic!("not in {text}"));
    let why = line.contains("cannot be counted").then(|| line.trim_start_matches("eBPF").trim().to_owned());
    why.or_else(|| scheduling.obstacle())
}

/// Held as long as a server runs: two would compete for the CPUs.
fn wait_for_turn() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // Another test has failed: that is its own matter.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stopped when it is dropped.
struct PostgreSql {
    bin: PathBuf,
    directory: TempDir,
    scheduling: Scheduling,
    _turn: MutexGuard<'static, ()>,
}

const POSTGRES: &str = "postgres";
const PORT: &str = "54331";

impl PostgreSql {
    fn start(scheduling: Scheduling) -> Result<PostgreSql, String> {
        if let Some(why) = obstacle(scheduling) {
            return Err(why);
        }
        let user = User::from_name(POSTGRES).ok().flatten().ok_or("there is no user postgres")?;
        let versions = fs::read_dir("/usr/lib/postgresql").map_err(|_| "PostgreSQL is not installed")?;
        let bins = versions.map(|version| version.unwrap().path().join("bin"));
        let bin = bins.filter(|bin| bin.join("initdb").exists()).max().ok_or("PostgreSQL is not installed")?;
        let server = PostgreSql { bin, directory: directory_of(&user), scheduling, _turn: wait_for_turn() };
        server.run("initdb", &["-D", "data", "-A", "trust", "-U", POSTGRES, "--no-sync"]);
        let socket = server.directory.path().to_str().unwrap();
        let options = format!("-c listen_addresses= -c unix_socket_directories={socket} -c port={PORT} -c autovacuum=off");
        let deadline = DEADLINE.as_secs().to_string();
        server.run("pg_ctl", &["-D", "data", "-w", "-t", &deadline, "-l", "log", "-o", &options, "start"]);
        Ok(server)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        run(self.command(program, arguments))
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        self.scheduling.as_user(POSTGRES, &self.bin.join(program), arguments, self.directory.path())
    }

    fn pid(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("data/postmaster.pid")).unwrap();
        text.lines().next().unwrap().to_owned()
    }

    /// Runs a script of pgbench, so many times for each of so many clients, with this protocol. The latencies of its transactions in
    /// milliseconds.
    fn bench(&self, script: &str, clients: usize, times: usize, protocol: &str) -> Vec<f64> {
        fs::write(self.directory.path().join("script"), script).unwrap();
        let (clients, times) = (clients.to_string(), times.to_string());
        let socket = self.directory.path().to_str().unwrap();
        let connection = ["-h", socket, "-p", PORT, "-U", POSTGRES, "-n"];
        let load = ["-c", &clients, "-t", &times, "-M", protocol, "-f", "script", "-l", "--log-prefix=latencies", "postgres"];
        let report = self.run("pgbench", &[&connection[..], &load[..]].concat());
        let report = String::from_utf8(report.stdout).unwrap();
        let files = fs::read_dir(self.directory.path()).unwrap().map(|file| file.unwrap().path());
        let log = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("latencies"));
        let log: Vec<PathBuf> = log.collect();
        let text = fs::read_to_string(&log[0]).unwrap();
        fs::remove_file(&log[0]).unwrap();
        let latency = |line: &str| line.split(' ').nth(2).unwrap().parse::<f64>().unwrap() / 1000.0;
        let latencies: Vec<f64> = text.lines().map(latency).collect();
        let counted = report.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: ")).unwrap();
        assert_eq!(counted.split('/').next().unwrap(), latencies.len().to_string());
        latencies
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        // It may not have been started.
        let _ = self.command("pg_ctl", &["-D", "data", "-m", "immediate", "-w", "stop"]).output();
    }
}

/// Sleeps and computes, for 20 to 100 ms: latencies without steps, between which p95 would depend on one query.
const MIXED: &str = "\\set us random(20000, 100000)\nselect count(*), pg_sleep(:us / 1e6) from generate_series(1, 10000);\n";

#[test]
fn queries_of_postgresql_are_those_of_pgbench() {
    let server = match PostgreSql::start(Scheduling::AheadOfOthers) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    for protocol in ["simple", "prepared"] {
        let probe = Probe::start(&server.pid());
        let mut expected = server.bench(MIXED, 4, 60, protocol);
        let totals = probe.total();
        // A prepared statement is parsed by a message of its own.
        let messages = if protocol == "prepared" { 4.0 } else { 0.0 };
        assert_close("queries", totals.queries(), expected.len() as f64 + messages, 0.01);
        assert_close("p95 in ms", totals.p95_ms(), p95(&mut expected), 0.05);
        assert_close("total ms", totals.sum("/all/total_seconds") * 1000.0, expected.iter().sum(), 0.05);
        totals.assert_times_add_up();
        totals.assert_rates_are_of_measured_time();
        assert!(totals.sum("/other_seconds") > totals.sum("/all/total_seconds") * 0.5, "it sleeps for most of the time");
        let parts = totals.sum("/preempted/queries") + totals.sum("/not_preempted/queries");
        assert_close("preempted and not", parts, totals.queries(), 0.0);
        assert!(totals.lines.iter().all(|line| line["cached"].is_null()));
    }
}

#[test]
fn locks_of_postgresql_are_counted() {
    let server = match PostgreSql::start(Scheduling::AheadOfOthers) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    // One at a time has the lock for 50 ms.
    let probe = Probe::start(&server.pid());
    let locked = "select pg_advisory_xact_lock(1), pg_sleep(0.05);\n";
    let latencies = server.bench(locked, 4, 10, "simple");
    let totals = probe.total();
    let waited: f64 = latencies.iter().map(|latency| latency - 50.0).sum();
    assert_close("ms behind locks", totals.sum("/locks_seconds") * 1000.0, waited, 0.1);
}

#[test]
fn preemptions_of_postgresql_are_counted() {
    let server = match PostgreSql::start(Scheduling::Ordinary) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    // Four compute on each CPU.
    let cpus = thread::available_parallelism().unwrap().get();
    let probe = Probe::start(&server.pid());
    server.bench("select count(*) from generate_series(1, 400000);\n", cpus * 4, 4, "simple");
    let totals = probe.total();
    totals.assert_times_add_up();
    assert!(
        totals.sum("/preempted/queries") > 0.0 && totals.sum("/run_queue_seconds") > totals.sum("/all/total_seconds") * 0.2
    );
    let by = totals.lines.iter().flat_map(|line| line["preempted_by"].as_array().unwrap());
    let by: Vec<&Value> = by.filter(|row| row["name"] == POSTGRES).collect();
    assert!(!by.is_empty(), "other backends preempt");
}

/// They report the beginning of a query and never its end. The backend that has begun it sleeps meanwhile.
#[test]
fn preemptions_of_postgresql_s_parallel_workers_are_not_counted() {
    let server = match PostgreSql::start(Scheduling::Ordinary) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let socket = server.directory.path().to_str().unwrap();
    let psql = |statements: &[&str]| {
        let statements = statements.iter().flat_map(|statement| ["-c", statement]);
        let output = server.run("psql", &["-h", socket, "-p", PORT].into_iter().chain(statements).collect::<Vec<_>>());
        String::from_utf8(output.stdout).unwrap()
    };
    psql(&["create table numbers with (parallel_workers = 6) as select n from generate_series(1, 200000) n", "analyze"]);
    let probe = Probe::start(&server.pid());
    let plan = psql(&[
        "set max_parallel_workers_per_gather = 8",
        "set parallel_leader_participation = off",
        "explain analyze select sum(sqrt(n)) from numbers, generate_series(1, 50)",
    ]);
    let totals = probe.total();
    assert!(plan.contains("Workers Launched: 6"), "{plan}");
    let by = totals.lines.iter().flat_map(|line| line["preempted_by"].as_array().unwrap());
    let count: u64 = by.map(|row| row["count"].as_u64().unwrap()).sum();
    println!("{count} preemptions");
    assert!(count < 20, "of a backend that sleeps");
}

/// Killed when it is dropped.
struct MariaDb {
    child: Child,
    directory: TempDir,
    scheduling: Scheduling,
    _turn: MutexGuard<'static, ()>,
}

impl MariaDb {
    fn start(scheduling: Scheduling) -> Result<MariaDb, String> {
        if let Some(why) = obstacle(scheduling) {
            return Err(why);
        }
        for tool in ["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db", "/usr/bin/mariadb", "/usr/bin/sysbench"] {
            if !Path::new(tool).exists() {
                return Err(format!("{tool} is not installed"));
            }
        }
        let user = User::from_name("nobody").ok().flatten().ok_or("there is no user nobody")?;
        let (directory, turn) = (directory_of(&user), wait_for_turn());
        let data = format!("--datadir={}", directory.path().join("data").display());
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--user=nobody", "--auth-root-authentication-method=normal", &data]);
        run(install);
        let mut server = scheduling.command("/usr/sbin/mariadbd");
        let options =
            ["--no-defaults", "--user=nobody", "--skip-networking", "--query-cache-type=1", "--query-cache-size=4M", &data];
        server.args(options).arg(format!("--socket={}", directory.path().join("socket").display()));
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = MariaDb { child, directory, scheduling, _turn: turn };
        let deadline = Instant::now() + DEADLINE;
        while let Err(why) = server.query("create database if not exists sbtest") {
            assert!(server.child.try_wait().unwrap().is_none(), "mariadbd has ended: {why}");
            assert!(Instant::now() < deadline, "mariadbd does not answer: {why}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn query(&self, text: &str) -> Result<String, String> {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-u", "root", "-N", "-e", text, "-S"]).arg(self.socket());
        let output = command.output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Sleeps and computes, for 20 to 100 ms.
const MIXED_EVENT: &str =
    "connection:query('select sleep(' .. sysbench.rand.uniform(20000, 100000) / 1e6 .. \"), benchmark(2000, sha1('x'))\")";

impl MariaDb {
    /// Runs this event so many times in all, by so many clients of sysbench: its report.
    fn bench(&self, event: &str, clients: usize, times: usize) -> String {
        let script = self.directory.path().join("script.lua");
        let connect = "function thread_init() connection = sysbench.sql.driver():connect() end";
        fs::write(&script, format!("{connect}\nfunction event() {event} end\n")).unwrap();
        let socket = format!("--mysql-socket={}", self.socket().display());
        let (clients, times) = (format!("--threads={clients}"), format!("--events={times}"));
        let options = ["--mysql-user=root", &clients, &times, "--time=0", "--percentile=95", &socket];
        let arguments = [&options[..], &[script.to_str().unwrap(), "run"]].concat();
        let output = run(self.scheduling.as_user("nobody", Path::new("/usr/bin/sysbench"), &arguments, self.directory.path()));
        String::from_utf8(output.stdout).unwrap()
    }

    /// How often its threads were taken from their CPU. Those of clients remain for the next ones.
    fn preemptions(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let texts = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
        texts.map(|text| figure(&text.replace('\t', " "), "nonvoluntary_ctxt_switches:")).sum()
    }
}

/// The figure in the line with this word.
fn figure(text: &str, word: &str) -> f64 {
    let line = text.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn queries_of_mariadb_are_those_of_sysbench() {
    let server = match MariaDb::start(Scheduling::AheadOfOthers) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let probe = Probe::start(&server.pid());
    let report = server.bench(MIXED_EVENT, 4, 240);
    let totals = probe.total();
    // Each of the four connections says its character set.
    let events = figure(&report, "total number of events:");
    assert!((events..=events + 4.0 + events * 0.01).contains(&totals.queries()), "{} of {events} queries", totals.queries());
    assert_close("p95 in ms", totals.p95_ms(), figure(&report, "95th percentile:"), 0.05);
    totals.assert_times_add_up();
    totals.assert_rates_are_of_measured_time();
}

/// 59 ms is just above the lower edge of a bucket, where interpolation is wrong by most of the bucket's width.
#[test]
fn p95_of_equal_latencies_is_that_of_sysbench() {
    let server = match MariaDb::start(Scheduling::AheadOfOthers) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let probe = Probe::start(&server.pid());
    let report = server.bench("connection:query('select sleep(0.059)')", 4, 120);
    let totals = probe.total();
    assert!(totals.queries() >= figure(&report, "total number of events:"), "{} queries", totals.queries());
    assert_close("p95 in ms", totals.p95_ms(), figure(&report, "95th percentile:"), 0.05);
}

#[test]
fn preemptions_of_mariadb_are_those_of_its_threads() {
    let server = match MariaDb::start(Scheduling::Ordinary) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    // Four compute on each CPU, so long that the preemptions outside queries, which the kernel counts too, are few beside theirs.
    let clients = thread::available_parallelism().unwrap().get() * 4;
    let probe = Probe::start(&server.pid());
    let before = server.preemptions();
    server.bench("connection:query(\"select benchmark(400000, sha1('x'))\")", clients, clients * 5);
    let expected = server.preemptions() - before;
    let totals = probe.total();
    let by = totals.lines.iter().flat_map(|line| line["preempted_by"].as_array().unwrap());
    let counted = by.map(|row| row["count"].as_f64().unwrap()).sum::<f64>() + totals.sum("/preempted_by_others");
    assert_close("preemptions", counted, expected, 0.1);
    assert!(totals.sum("/preempted/queries") > 0.0);
    totals.assert_times_add_up();
}

#[test]
fn answers_of_mariadb_s_query_cache_are_counted() {
    let server = match MariaDb::start(Scheduling::Ordinary) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    server.query("create table sbtest.t (k int); insert into sbtest.t values (1), (2)").unwrap();
    let probe = Probe::start(&server.pid());
    server.query(&"select count(*) from sbtest.t;".repeat(100)).unwrap();
    let totals = probe.total();
    let status = server.query("show global status like 'Qcache_hits'").unwrap();
    let hits: f64 = status.split_whitespace().last().unwrap().parse().unwrap();
    assert_close("cached", totals.sum("/cached/queries"), hits, 0.0);
    assert!(hits > 90.0 && totals.sum("/not_cached/queries") >= 1.0);
    assert_close("all", totals.sum("/cached/queries") + totals.sum("/not_cached/queries"), totals.queries(), 0.0);
}
