//! `probe query` against what pgbench and sysbench report of the same queries. As root, with BTF, PostgreSQL, MariaDB and sysbench.

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
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use nix::unistd::User;
use program::program;
use serde_json::Value;
use tempfile::TempDir;

/// The probe of one server.
struct Probe {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Probe {
    /// Waits until it counts.
    fn start(pid: &str) -> Probe {
        let mut command = Command::new(program());
        command.args(["probe", "query", "--json", "--pid", pid, "200ms"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut probe = Probe { child, lines };
        probe.next();
        probe
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("the probe ended").unwrap()).unwrap()
    }

    /// What it has counted, when nothing more is counted. Ends it.
    fn total(mut self) -> Totals {
        let mut totals = Totals::default();
        let mut idle = 0;
        while idle < 2 {
            let line = self.next();
            // Those before the first query do not count.
            let is_idle = line["all"]["queries"] == 0;
            idle = if is_idle && !totals.lines.is_empty() { idle + 1 } else { 0 };
            if !is_idle {
                totals.lines.push(line);
            }
        }
        totals
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[derive(Default)]
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
                // Eight buckets to a power of two, of 128 ns or more
                let mut width = 128.0;
                while middle >= 16.0 * width {
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
}

fn p95(latencies: &mut [f64]) -> f64 {
    latencies.sort_by(f64::total_cmp);
    latencies[(latencies.len() * 95).div_ceil(100) - 1]
}

fn assert_close(what: &str, counted: f64, expected: f64, share: f64) {
    println!("{what}: {counted:.2}, expected {expected:.2}");
    assert!((counted - expected).abs() <= expected * share, "{what}: {counted}, expected {expected}");
}

/// Runs a program to its end as this user, ahead of all others, so that what it measures is the server.
fn run_as(user: &str, program: &Path, arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new("nice");
    command.args(["-n", "-20", "runuser", "-u", user, "--"]).arg(program).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {words}", program.display());
    output
}

/// A directory of this user.
fn directory_of(user: &User) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(directory.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    directory
}

/// Why the probe cannot run here.
fn obstacle() -> Option<String> {
    // No database: whether it gets as far as that.
    let probe = Command::new(program()).args(["probe", "query", "--pid", &std::process::id().to_string()]).output().unwrap();
    let why = String::from_utf8_lossy(&probe.stderr).trim().to_owned();
    (!why.contains("no dispatch_command or pgstat_report_activity in /")).then_some(why)
}

/// Stopped when it is dropped.
struct PostgreSql {
    bin: PathBuf,
    directory: TempDir,
}

const POSTGRES: &str = "postgres";
const PORT: &str = "54331";

impl PostgreSql {
    fn start() -> Result<PostgreSql, String> {
        if let Some(why) = obstacle() {
            return Err(why);
        }
        let user = User::from_name(POSTGRES).ok().flatten().ok_or("there is no user postgres")?;
        let versions = fs::read_dir("/usr/lib/postgresql").map_err(|_| "PostgreSQL is not installed")?;
        let bins = versions.map(|version| version.unwrap().path().join("bin"));
        let bin = bins.filter(|bin| bin.join("initdb").exists()).max().ok_or("PostgreSQL is not installed")?;
        let server = PostgreSql { bin, directory: directory_of(&user) };
        server.run("initdb", &["-D", "data", "-A", "trust", "-U", POSTGRES, "--no-sync"]);
        let socket = server.directory.path().to_str().unwrap();
        let options = format!("-c listen_addresses= -c unix_socket_directories={socket} -c port={PORT} -c autovacuum=off");
        server.run("pg_ctl", &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]);
        Ok(server)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        run_as(POSTGRES, &self.bin.join(program), arguments, self.directory.path())
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
        self.run("pgbench", &[&connection[..], &load[..]].concat());
        let files = fs::read_dir(self.directory.path()).unwrap().map(|file| file.unwrap().path());
        let log = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("latencies"));
        let log: Vec<PathBuf> = log.collect();
        let text = fs::read_to_string(&log[0]).unwrap();
        fs::remove_file(&log[0]).unwrap();
        text.lines().map(|line| line.split(' ').nth(2).unwrap().parse::<f64>().unwrap() / 1000.0).collect()
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "-w", "stop"]);
    }
}

/// Sleeps and computes, for 20 to 80 ms.
const MIXED: &str = "\\set n random(1, 4)\nselect count(*), pg_sleep(0.02 * :n) from generate_series(1, 10000);\n";

#[test]
fn queries_of_postgresql_are_those_of_pgbench() {
    let server = match PostgreSql::start() {
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
        assert!(totals.sum("/other_seconds") > totals.sum("/all/total_seconds") * 0.5, "it sleeps for most of the time");
        let parts = totals.sum("/preempted/queries") + totals.sum("/not_preempted/queries");
        assert_close("pre-empted and not", parts, totals.queries(), 0.0);
        assert!(totals.lines.iter().all(|line| line["cached"].is_null()));
    }
}

#[test]
fn locks_and_preemptions_of_postgresql_are_counted() {
    let server = match PostgreSql::start() {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    // One at a time has the lock for 20 ms.
    let probe = Probe::start(&server.pid());
    let locked = "select pg_advisory_xact_lock(1), pg_sleep(0.02);\n";
    let latencies = server.bench(locked, 4, 20, "simple");
    let totals = probe.total();
    let waited: f64 = latencies.iter().map(|latency| latency - 20.0).sum();
    assert_close("ms behind locks", totals.sum("/locks_seconds") * 1000.0, waited, 0.1);
    // Four compute on each CPU.
    let cpus = std::thread::available_parallelism().unwrap().get();
    let probe = Probe::start(&server.pid());
    server.bench("select count(*) from generate_series(1, 400000);\n", cpus * 4, 4, "simple");
    let totals = probe.total();
    totals.assert_times_add_up();
    assert!(
        totals.sum("/preempted/queries") > 0.0 && totals.sum("/run_queue_seconds") > totals.sum("/all/total_seconds") * 0.2
    );
    let by = totals.lines.iter().flat_map(|line| line["preempted_by"].as_array().unwrap());
    let by: Vec<&Value> = by.filter(|row| row["name"] == POSTGRES).collect();
    assert!(!by.is_empty(), "other backends pre-empt");
}

/// Killed when it is dropped.
struct MariaDb {
    child: Child,
    directory: TempDir,
}

impl MariaDb {
    fn start() -> Result<MariaDb, String> {
        if let Some(why) = obstacle() {
            return Err(why);
        }
        for tool in ["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db", "/usr/bin/mariadb", "/usr/bin/sysbench"] {
            if !Path::new(tool).exists() {
                return Err(format!("{tool} is not installed"));
            }
        }
        let user = User::from_name("nobody").ok().flatten().ok_or("there is no user nobody")?;
        let directory = directory_of(&user);
        let data = format!("--datadir={}", directory.path().join("data").display());
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--user=nobody", "--auth-root-authentication-method=normal", &data]);
        assert!(install.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        let mut server = Command::new("/usr/sbin/mariadbd");
        server.args([
            "--no-defaults",
            "--user=nobody",
            "--skip-networking",
            "--query-cache-type=1",
            "--query-cache-size=4M",
            &data,
        ]);
        server.arg(format!("--socket={}", directory.path().join("socket").display()));
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = MariaDb { child, directory };
        while server.query("create database sbtest").is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "mariadbd has ended");
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
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Sleeps and computes, for 20 to 80 ms.
const SYSBENCH_SCRIPT: &str = "
function thread_init() connection = sysbench.sql.driver():connect() end
function event()
  connection:query('select sleep(' .. 0.02 * sysbench.rand.uniform(1, 4) .. \"), benchmark(2000, sha1('x'))\")
end
";

/// The figure in the line with this word.
fn figure(text: &str, word: &str) -> f64 {
    let line = text.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn queries_of_mariadb_are_those_of_sysbench() {
    let server = match MariaDb::start() {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let script = server.directory.path().join("script.lua");
    fs::write(&script, SYSBENCH_SCRIPT).unwrap();
    let socket = format!("--mysql-socket={}", server.socket().display());
    let options = ["--mysql-user=root", "--threads=4", "--events=240", "--time=0", "--percentile=95"];
    let arguments = [&[socket.as_str()], &options[..], &[script.to_str().unwrap(), "run"]].concat();
    let probe = Probe::start(&server.pid());
    let output = run_as("nobody", Path::new("/usr/bin/sysbench"), &arguments, server.directory.path());
    let report = String::from_utf8(output.stdout).unwrap();
    let totals = probe.total();
    // Each of the four connections says its character set.
    let events = figure(&report, "total number of events:");
    assert!((events..=events + 4.0 + events * 0.01).contains(&totals.queries()), "{} of {events} queries", totals.queries());
    assert_close("p95 in ms", totals.p95_ms(), figure(&report, "95th percentile:"), 0.05);
    totals.assert_times_add_up();
}

#[test]
fn answers_of_mariadb_s_query_cache_are_counted() {
    let server = match MariaDb::start() {
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
