//! `export`: values of every interval, read back by independent parsers; targets that must not be written.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "tables/made.rs"]
mod made;
#[path = "support/output.rs"]
mod output;
#[path = "support/program.rs"]
mod program;
#[path = "support/synthetic.rs"]
mod synthetic;

#[cfg(feature = "parquet")]
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use made::{Machine, run};
use output::csv;
use program::program;

const HOSTILE: &str = "=1+1,\"a\"\n\u{1b}[31m";

fn export(recording: &str, target: &Path, more: &[&str]) -> (i32, String, String) {
    run(&[&["export", recording, "-o", target.to_str().unwrap()], more].concat())
}

fn json(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn csv_and_json_have_the_same_values() {
    let (recording, directory) = (Machine { name: HOSTILE, ..Machine::default() }.record(4), tempfile::tempdir().unwrap());
    let (wide, lines) = (directory.path().join("out.csv"), directory.path().join("out.jsonl"));
    assert_eq!(export(recording.path(), &wide, &[]), (0, String::new(), String::new()));
    assert_eq!(export(recording.path(), &lines, &[]), (0, String::new(), String::new()));
    let (wide, lines) = (csv(&fs::read_to_string(wide).unwrap()), json(&fs::read_to_string(lines).unwrap()));
    // In each of three intervals: the host, two CPUs, a disk, an interface, TCP, UDP, a busy process and its thread, load and
    // pressure. Memory was not read, and no cgroup has a limit.
    assert_eq!((wide.len(), lines.len()), (33, 33));
    for (row, object) in wide.iter().zip(&lines) {
        for (name, value) in object.as_object().unwrap() {
            let field = row.get(name).map_or("", String::as_str);
            match value {
                serde_json::Value::Number(number) => assert_eq!(field.parse::<f64>().ok(), number.as_f64(), "{name}"),
                serde_json::Value::Null => assert_eq!(field, "", "{name}"),
                serde_json::Value::String(text) if text == HOSTILE => assert!(field.starts_with("=1+1,\"a\"\\n"), "{field}"),
                serde_json::Value::String(_) if name == "schema" => {}
                serde_json::Value::String(text) => assert_eq!(field, text, "{name}"),
                other => panic!("{name}: {other}"),
            }
        }
    }
    let disk = wide.iter().find(|row| row["table"] == "disk").unwrap();
    assert_eq!((disk["read_await_seconds"].as_str(), disk["reads_per_second"].as_str()), ("0.002", "100"));
    assert_eq!(disk["user_ratio"], "", "no value of another table");
}

#[test]
fn folded_stacks_have_the_outermost_function_first_and_milliseconds() {
    let stack = Some("wait;x [jbd2]\n\u{1b}[31mdo_fsync\nentry_SYSCALL_64_after_hwframe");
    let user_stack = Some("fdatasync [libc.so.6]\nWal::append\n[unknown: db has no unwind tables]");
    let machine = Machine { stack, user_stack, ..Machine::default() };
    let (recording, directory) = (machine.record(4), tempfile::tempdir().unwrap());
    let expected = "busy;busy;[unknown: db has no unwind tables];Wal::append;fdatasync [libc.so.6];\
                    entry_SYSCALL_64_after_hwframe_[k];\\u{1b}[31mdo_fsync_[k];wait:x [jbd2]_[k] 3000\n";
    assert_eq!(run(&["export", "--folded", recording.path()]), (0, expected.to_owned(), String::new()));
    let target = directory.path().join("out.folded");
    assert_eq!(export(recording.path(), &target, &["--folded"]), (0, String::new(), String::new()));
    assert_eq!(fs::read_to_string(target).unwrap(), expected);
    let only_user = Machine { user_stack: Some("read\nmain"), ..Machine::default() }.record(2);
    assert_eq!(run(&["export", "--folded", only_user.path()]).1, "busy;busy;main;read 1000\n");
    let (code, stdout, stderr) = run(&["export", "--folded", Machine::default().record(2).path()]);
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert!(
        stderr.ends_with("has no stacks: no thread was stuck, or it was not recorded as root (CAP_SYS_ADMIN)\n"),
        "{stderr}"
    );
    assert_eq!(run(&["export", "--folded", recording.path(), "--format", "csv"]).0, 2);
}

#[test]
fn tables_selects_tables() {
    let (recording, directory) = (Machine::default().record(3), tempfile::tempdir().unwrap());
    let target = directory.path().join("out.csv");
    assert_eq!(export(recording.path(), &target, &["--tables", "task,cpu", "--idle"]).0, 0);
    let rows = csv(&fs::read_to_string(target).unwrap());
    let tables: Vec<&str> = rows.iter().map(|row| row["table"].as_str()).collect();
    assert_eq!(tables, ["cpu", "task", "task", "task"].repeat(2));
    assert!(!rows[0].contains_key("read_await_seconds"));
    let (code, stdout, _) = run(&["export", recording.path(), "-o", "-", "--format", "jsonl", "--tables", "cpu"]);
    assert_eq!((code, json(&stdout).len()), (0, 2));
}

#[test]
fn safe_formulas_escapes_text() {
    let (recording, directory) =
        (Machine { name: "=HYPERLINK(1)", ..Machine::default() }.record(4), tempfile::tempdir().unwrap());
    let (plain, safe) = (directory.path().join("plain.csv"), directory.path().join("safe.csv"));
    assert_eq!(export(recording.path(), &plain, &[]).0, 0);
    assert_eq!(export(recording.path(), &safe, &["--safe-formulas"]), (0, String::new(), String::new()));
    let (plain, safe) = (csv(&fs::read_to_string(plain).unwrap()), csv(&fs::read_to_string(safe).unwrap()));
    assert_eq!(plain.len(), safe.len());
    let mut quoted = 0;
    for (name, (plain, safe)) in
        plain.iter().zip(&safe).flat_map(|(a, b)| a.iter().map(|(name, text)| (name, (text, &b[name]))))
    {
        if plain.starts_with('=') {
            assert_eq!(*safe, format!("'{plain}"), "{name}");
            quoted += 1;
        } else {
            assert_eq!(plain, safe, "{name}");
        }
    }
    assert!(quoted >= 4, "{quoted}");
}

#[test]
fn existing_files_are_not_overwritten() {
    let (recording, directory) = (Machine::default().record(3), tempfile::tempdir().unwrap());
    let at = |name: &str| directory.path().join(name);
    fs::write(at("there.csv"), "mine").unwrap();
    symlink(at("elsewhere"), at("link.csv")).unwrap();
    let refused = |target: &str, code: i32| {
        let (exit, stdout, stderr) = export(recording.path(), &at(target), &[]);
        assert_eq!((exit, stdout.as_str(), stderr.lines().count()), (code, "", 1), "{target}: {stderr}");
        stderr
    };
    // As with `cut` and `record`.
    refused("there.csv", 6);
    refused("link.csv", 6);
    refused("none/out.csv", 5);
    assert!(refused("out.xls", 2).contains("--format"));
    // Several objects are no JSON document.
    assert!(refused("out.json", 2).contains("name it .jsonl"));
    assert_eq!(export(recording.path(), &at("OUT.CSV"), &[]).0, 0);
    fs::remove_file(at("OUT.CSV")).unwrap();
    assert_eq!(fs::read_to_string(at("there.csv")).unwrap(), "mine");
    let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["link.csv", "there.csv"]);
}

#[test]
fn a_write_error_leaves_no_file() {
    let (recording, directory) = (Machine { cpus: 64, ..Machine::default() }.record(60), tempfile::tempdir().unwrap());
    let target = directory.path().join("out.csv");
    // Like a full disk: writes beyond 64 KiB fail.
    let script = "ulimit -f 64; exec \"$0\" export \"$1\" -o \"$2\"";
    let program = program();
    let output =
        Command::new("bash").args(["-c", script, program, recording.path(), target.to_str().unwrap()]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(5), 1), "{stderr}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{stderr}");
}

#[test]
fn a_full_standard_output_exits_with_1() {
    let recording = Machine::default().record(3);
    let script = "exec \"$0\" export \"$1\" -o - --format csv > /dev/full";
    let output = Command::new("sh").args(["-c", script, program(), recording.path()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let script = "\"$0\" export \"$1\" -o - --format csv | head -c 1 > /dev/null; exit ${PIPESTATUS[0]}";
    let output = Command::new("bash").args(["-c", script, program(), recording.path()]).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// More than a pipe and the writers' buffers hold: the error comes while rows are written.
#[test]
fn a_reader_that_closes_in_the_middle_ends_it_without_a_message() {
    let recording = Machine { cpus: 64, ..Machine::default() }.record(60);
    for format in ["csv", "jsonl"] {
        let script = "\"$0\" export \"$1\" -o - --format \"$2\" | head -c 100000 > /dev/null; exit ${PIPESTATUS[0]}";
        let arguments = ["-c", script, program(), recording.path(), format];
        let output = Command::new("bash").args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{format}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_parquet_is_an_error() {
    let (recording, directory) = (Machine::default().record(3), tempfile::tempdir().unwrap());
    let (code, _, stderr) = export(recording.path(), &directory.path().join("out.parquet"), &[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--features parquet"), "{stderr}");
}

/// Read by DuckDB, an independent reader.
#[cfg(feature = "parquet")]
#[test]
fn parquet_is_read_by_duckdb() {
    let python = Command::new("python3").args(["-c", "import duckdb"]).output();
    if !python.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 has no duckdb (pip install duckdb)");
        return;
    }
    let (recording, directory) = (Machine { name: HOSTILE, ..Machine::default() }.record(4), tempfile::tempdir().unwrap());
    let (wide, columns) = (directory.path().join("out.csv"), directory.path().join("out.parquet"));
    assert_eq!(export(recording.path(), &wide, &[]).0, 0);
    assert_eq!(export(recording.path(), &columns, &[]), (0, String::new(), String::new()));
    let query = |sql: &str| {
        let script = "import duckdb, sys\nfor row in duckdb.sql(sys.argv[1]).fetchall(): print(*row, sep='|')";
        let sql = sql.replace("FILE", &format!("'{}'", columns.display()));
        let output = Command::new("python3").args(["-c", script, &sql]).env("TZ", "UTC").output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let disk =
        "SELECT epoch_ms(time), seconds, reads_per_second, read_await_seconds, user_ratio FROM FILE WHERE \"table\" = 'disk'";
    assert_eq!(
        query(&format!("{disk} ORDER BY time")),
        "1772366401000|1.0|100.0|0.002|None\n1772366402000|1.0|100.0|0.002|None\n1772366403000|1.0|100.0|0.002|None\n"
    );
    assert_eq!(query("SELECT count(*) FROM FILE"), "33\n");
    assert_eq!(query("SELECT DISTINCT pid, command FROM FILE WHERE \"table\" = 'task'"), format!("200|{HOSTILE}\n"));
    assert_eq!(query("SELECT sum(cpu_ratio) FROM FILE WHERE \"table\" = 'task'"), "3.0\n");
}

/// What the query book queries: the demonstrations' recordings as a hive of files. `None` (and the reason is printed) without DuckDB.
#[cfg(feature = "parquet")]
fn hive() -> Option<tempfile::TempDir> {
    let python = Command::new("python3").args(["-c", "import duckdb"]).output();
    if !python.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 has no duckdb (pip install duckdb)");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo");
    let words = ["export", recordings.to_str().unwrap(), "--hive", directory.path().to_str().unwrap()];
    assert_eq!(run(&words), (0, String::new(), String::new()));
    Some(directory)
}

/// Runs statements in one connection of DuckDB; returns the rows of each that has some.
#[cfg(feature = "parquet")]
fn duckdb(statements: &[String]) -> Vec<Vec<Vec<String>>> {
    const SCRIPT: &str = "import duckdb, json, sys\nconnection = duckdb.connect()\nresults = []\n\
        for statement in json.load(sys.stdin):\n    connection.execute(statement)\n    \
        results.append([[str(value) for value in row] for row in connection.fetchall()])\nprint(json.dumps(results))";
    let mut child = Command::new("python3");
    child.args(["-c", SCRIPT]).env("TZ", "UTC");
    child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), statements).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The files below a directory, and when each was written.
#[cfg(feature = "parquet")]
fn files(directory: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// A month of 50 hosts, made once of the demonstrations' recordings. `None` (and the reason is printed) without DuckDB.
#[cfg(feature = "parquet")]
fn month() -> Option<&'static Path> {
    static MONTH: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
    let make = || {
        let recordings = hive()?;
        let month = Path::new(env!("CARGO_TARGET_TMPDIR")).join("month");
        // Of the run before.
        let _ = fs::remove_dir_all(&month);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/month.py");
        let output = Command::new("python3").arg(script).args([recordings.path(), &month]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
        Some(month)
    };
    MONTH.get_or_init(make).as_deref()
}

/// The statements of docs/queries.md, in their order.
#[cfg(feature = "parquet")]
#[test]
fn the_query_book_runs_on_a_month_of_fifty_hosts() {
    let Some(directory) = month() else { return };
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/queries.md")).unwrap();
    let blocks = page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let place = directory.to_str().unwrap();
    let statements: Vec<String> = blocks.map(|block| block.replace("/srv/stalltop", place)).collect();
    assert!(statements.len() >= 7, "{statements:#?}");
    let results = duckdb(&statements);
    for (statement, rows) in statements.iter().zip(&results).skip(1) {
        println!("{} rows: {statement}", rows.len());
        assert!(!rows.is_empty(), "{statement}");
    }
    let kinds: Vec<&str> = results[3].iter().map(|row| row[0].as_str()).collect();
    for kind in ["idle-but-blocked", "disk-latency", "saturated-thread", "nic-saturated", "cpu-throttled"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn a_recorder_exports_each_recording_that_ends() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (recordings, live, later) = (path("recordings"), path("live"), path("later"));
    let times = ["--interval", "100ms", "--rotate", "1s", "--for", "3s", "--no-config"];
    let mut record = Command::new(program());
    record.args(["record", &recordings, "--export", &live]).args(times);
    // It may learn a baseline.
    let output = record.env("XDG_STATE_HOME", place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ended = said.lines().filter(|line| line.contains(": recorded ")).count();
    assert!(ended >= 2, "{said}");
    run(&["export", &recordings, "--hive", &later, "--no-config"]);
    let names = |directory: &str| -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let all = files(Path::new(directory)).into_iter();
        all.map(|(path, bytes)| (path.strip_prefix(directory).unwrap().to_owned(), bytes)).collect()
    };
    let cpu = names(&live).iter().filter(|(path, _)| path.starts_with("table=cpu")).count();
    assert_eq!(cpu, ended, "one file a recording: {:?}", names(&live).iter().map(|(path, _)| path).collect::<Vec<_>>());
    assert!(names(&live) == names(&later), "the same files and bytes as of `export --hive`");
}

#[cfg(feature = "parquet")]
#[test]
fn a_hive_has_a_file_for_each_table_host_and_day_and_is_written_again_in_the_same_way() {
    let Some(directory) = hive() else { return };
    let first = files(directory.path());
    assert!(first.keys().all(|path| {
        let text = path.strip_prefix(directory.path()).unwrap().to_str().unwrap();
        let parts: Vec<&str> = text.split('/').collect();
        parts.len() == 4
            && parts[0].starts_with("table=")
            && parts[1].starts_with("host=")
            && parts[2].starts_with("date=2026-11-2")
            && parts[3].ends_with(".parquet")
    }));
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo");
    run(&["export", recordings.to_str().unwrap(), "--hive", directory.path().to_str().unwrap()]);
    assert!(files(directory.path()) == first, "the same files and bytes");

    let place = directory.path().display();
    let of = |table: &str| format!("read_parquet('{place}/table={table}/**/*.parquet', hive_partitioning = true)");
    let rows = duckdb(&[
        format!("SELECT count(*), min(seconds) > 0 FROM {}", of("cpu")),
        format!(
            "SELECT count(*) FROM (SELECT time < lag(time) OVER (PARTITION BY filename ORDER BY file_row_number) AS back \
                 FROM read_parquet('{place}/table=disk/**/*.parquet', filename = true, file_row_number = true)) WHERE back"
        ),
        format!("SELECT DISTINCT compression FROM parquet_metadata('{place}/table=disk/**/*.parquet')"),
        format!(
            "SELECT count(*) FROM parquet_metadata('{place}/table=disk/**/*.parquet') \
                 WHERE path_in_schema = 'time' AND stats_min_value IS NULL"
        ),
    ]);
    assert!(rows[0][0][0].parse::<u32>().unwrap() > 40 && rows[0][0][1] == "True", "{:?}", rows[0]);
    assert_eq!(rows[1][0], ["0"], "rows are in the order of time");
    assert_eq!(rows[2], [["ZSTD"]]);
    assert_eq!(rows[3][0], ["0"], "each column chunk of time has statistics");
}

/// The same in an embedded ClickHouse.
#[cfg(feature = "parquet")]
#[test]
fn the_query_book_runs_in_clickhouse() {
    let python = Command::new("python3").args(["-c", "import chdb"]).output();
    if !python.is_ok_and(|output| output.status.success()) {
        return println!("skipped: python3 has no chdb (pip install chdb)");
    }
    let Some(directory) = month() else { return };
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/queries.md")).unwrap();
    let blocks = page.split("```sql clickhouse\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let place = directory.to_str().unwrap();
    let mut count = 0;
    for block in blocks {
        let statement = block.replace("/srv/stalltop", place);
        let script = "import chdb, sys\nprint(chdb.query(sys.argv[1], 'CSV'))";
        let output = Command::new("python3").args(["-c", script, &statement]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.lines().any(|line| line.contains("host")), "{statement}: {output:?}");
        println!("{} rows: {statement}", text.trim().lines().count());
        count += 1;
    }
    assert_eq!(count, 3);
}
