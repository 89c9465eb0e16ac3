//! `stalltop mcp`, called by the client of the protocol's SDK; and the JSON schemas of assets/schema.

#![cfg(feature = "test-mcp")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test may fail loudly")]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

#[path = "support/executable.rs"]
mod executable;
#[path = "support/program.rs"]
mod program;

use executable::copy_executable;
use program::program;

/// About 2,000 tokens.
const MAX_ANSWER_BYTES: usize = 8_000;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema(name: &str) -> Value {
    let path = repository().join("assets/schema").join(name).with_extension("json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Fails with the first place where the value breaks its schema.
fn assert_valid(name: &str, value: &Value) {
    let validator = jsonschema::validator_for(&schema(name)).unwrap();
    if let Some(error) = validator.iter_errors(value).next() {
        panic!("{name}.json: {error} at {}\n{value:#}", error.instance_path());
    }
}

type Client = RunningService<RoleClient, ()>;

/// Runs `test` with a client of `stalltop mcp` with these options.
fn with_client<F: Future<Output = ()>>(options: &[&str], path: Option<&Path>, test: impl FnOnce(Client) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut command = tokio::process::Command::new(program());
        command.arg("mcp").args(options).env("XDG_STATE_HOME", std::env::temp_dir());
        if let Some(path) = path {
            command.env("PATH", format!("{}:{}", path.display(), std::env::var("PATH").unwrap_or_default()));
        }
        let client = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        test(client).await;
    });
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> Result<Value, String> {
    let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().cloned().unwrap());
    let result = client.call_tool(request).await.map_err(|error| error.to_string())?;
    let text = result.content.first().and_then(|content| content.as_text()).map(|text| text.text.clone()).unwrap_or_default();
    if result.is_error == Some(true) {
        return Err(text);
    }
    assert!(text.len() <= MAX_ANSWER_BYTES, "{tool}: {} bytes\n{text}", text.len());
    let structured = result.structured_content.expect("structured output");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), structured);
    Ok(structured)
}

fn lab_recordings() -> PathBuf {
    repository().join("tests/recordings/lab")
}

#[test]
fn tools_have_schemas_and_only_read() {
    with_client(&[], None, |client| async move {
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["diagnose", "table", "history", "compare", "recordings", "explain"]);
        for tool in &tools {
            assert_eq!(tool.annotations.as_ref().and_then(|hints| hints.read_only_hint), Some(true), "{}", tool.name);
            for schema in [Some(&tool.input_schema), tool.output_schema.as_ref()] {
                let schema = Value::Object(schema.expect("a schema").as_ref().clone());
                assert!(jsonschema::meta::is_valid(&schema), "{}: {schema}", tool.name);
            }
        }
        client.cancel().await.unwrap();
    });
}

#[derive(serde::Deserialize)]
struct LabTable {
    recording: Vec<LabRecording>,
}

#[derive(serde::Deserialize)]
struct LabRecording {
    name: String,
    #[serde(default)]
    must: Vec<Must>,
}

#[derive(serde::Deserialize)]
struct Must {
    kind: String,
}

#[test]
fn the_cause_of_every_lab_recording_is_on_the_first_page() {
    let table: LabTable = toml::from_str(&fs::read_to_string(repository().join("tests/recordings/lab.toml")).unwrap()).unwrap();
    let directory = lab_recordings();
    with_client(&["--dir", directory.to_str().unwrap()], None, |client| async move {
        for LabRecording { name, must } in table.recording {
            let answer = call(&client, "diagnose", json!({ "recording": format!("{name}.stalltop") })).await.unwrap();
            assert_valid("diagnose", &answer);
            let kinds: Vec<&str> =
                answer["findings"].as_array().unwrap().iter().filter_map(|found| found["kind"].as_str()).collect();
            for Must { kind } in must {
                assert!(kinds.contains(&kind.as_str()), "{name}: no {kind} among {kinds:?}");
            }
        }
        client.cancel().await.unwrap();
    });
}

#[test]
fn check_prints_json_by_its_schema() {
    let recordings = fs::read_dir(lab_recordings()).unwrap().map(|entry| entry.unwrap().path());
    for recording in recordings {
        let output = Command::new(program()).args(["check", "--json"]).arg(&recording).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_valid("check", &value);
        assert!(!value["figures"].is_null() && value["schema"] == "stalltop/1");
    }
}

#[test]
fn this_machine_is_diagnosed() {
    with_client(&[], None, |client| async move {
        let answer = call(&client, "diagnose", json!({ "seconds": 1, "detail": true })).await.unwrap();
        assert_valid("diagnose", &answer);
        // Not the CPUs that this process may use, which its affinity and its cgroup limit.
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let is_cpu =
            |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
        assert_eq!(answer["figures"]["cpus"].as_u64(), Some(stat.lines().filter(is_cpu).count() as u64));
        let rows = call(&client, "table", json!({ "table": "cpu" })).await.unwrap();
        assert_valid("rows", &rows);
        assert_eq!(rows["rows"].as_array().map(Vec::len), Some(1));
        client.cancel().await.unwrap();
    });
}

#[test]
fn figures_of_recordings_are_read_and_compared() {
    let directory = repository().join("assets/demo");
    with_client(&["--dir", directory.to_str().unwrap()], None, |client| async move {
        let listed = call(&client, "recordings", json!({})).await.unwrap();
        assert_valid("recordings", &listed);
        let listed = listed["recordings"].as_array().unwrap().clone();
        assert!(
            listed.iter().any(|entry| entry["recording"].as_str().is_some_and(|path| path.ends_with("3-slow-disk.stalltop")))
        );
        assert!(listed.iter().all(|entry| entry["samples"].as_u64() > Some(1)), "{listed:?}");

        let disks = call(&client, "table", json!({ "table": "disk", "recording": "3-slow-disk.stalltop" })).await.unwrap();
        assert_valid("rows", &disks);
        assert!(!disks["rows"].as_array().unwrap().is_empty());
        let history = json!({ "table": "cpu", "recording": "3-slow-disk.stalltop", "step": "2s", "columns": "%busy" });
        let history = call(&client, "history", history).await.unwrap();
        assert_valid("rows", &history);
        assert!(history["rows"].as_array().unwrap().len() >= 4, "{history}");

        let compared = json!({ "base": "6-harmless-load.stalltop", "new": "3-slow-disk.stalltop" });
        let compared = call(&client, "compare", compared).await.unwrap();
        assert_valid("compare", &compared);
        assert!(!compared["figures"].as_array().unwrap().is_empty());
        client.cancel().await.unwrap();
    });
}

#[test]
fn findings_are_explained() {
    with_client(&[], None, |client| async move {
        let kinds = call(&client, "explain", json!({})).await.unwrap();
        assert_valid("explain", &kinds);
        for kind in kinds["kinds"].as_array().unwrap() {
            let explained = call(&client, "explain", json!({ "kind": kind["kind"] })).await.unwrap();
            assert_valid("explain", &explained);
            assert!(explained["meaning"].as_str().is_some_and(|meaning| meaning.len() > 50), "{explained}");
        }
        client.cancel().await.unwrap();
    });
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    with_client(&["--dir", "/nonexistent"], None, |client| async move {
        for (tool, arguments, says) in [
            ("diagnose", json!({ "recording": "/etc/passwd" }), "no recording '/etc/passwd' in /nonexistent"),
            ("diagnose", json!({ "host": "db1" }), "host 'db1' is not allowed: start 'stalltop mcp --host db1'"),
            ("diagnose", json!({ "seconds": 0 }), "seconds: not a whole number from 1 to 60"),
            ("table", json!({}), "table is missing"),
            ("table", json!({ "table": "disks" }), "no table 'disks': there are cpu, core, disk"),
            ("table", json!({ "table": "cpu", "columns": "--from" }), "--from"),
            ("explain", json!({ "kind": "x" }), "no kind 'x'"),
            ("shell", json!({}), "no tool 'shell'"),
        ] {
            let error = call(&client, tool, arguments).await.unwrap_err();
            assert!(error.contains(says) && error.lines().count() == 1, "{tool}: {error}");
        }
        client.cancel().await.unwrap();
    });
}

/// A program in place of ssh, which runs the command here.
#[test]
fn another_host_is_diagnosed_by_ssh() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = folder.path().join("ssh");
    let program = program();
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n[ \"$2\" = db1 ] || exit 255\nshift 3\nexec {program} \"$@\"\n"
    );
    let text = folder.path().join("ssh.text");
    fs::write(&text, script).unwrap();
    copy_executable(text, ssh);
    with_client(&["--host", "db1", "--host", "db2"], Some(folder.path()), |client| async move {
        let answer = call(&client, "diagnose", json!({ "host": "db1", "seconds": 1 })).await.unwrap();
        assert_valid("diagnose", &answer);
        assert!(answer["host"].is_string() && answer["from"].is_string());
        let error = call(&client, "diagnose", json!({ "host": "db2", "seconds": 1 })).await.unwrap_err();
        assert!(error.starts_with("ssh db2: "), "{error}");
        client.cancel().await.unwrap();
    });
}

#[test]
fn arguments_that_a_tool_does_not_have_are_refused() {
    with_client(&[], None, |client| async move {
        let error = call(&client, "explain", json!({ "kinds": "idle-but-blocked" })).await.unwrap_err();
        assert_eq!(error, "no argument 'kinds': the tool has kind");
        let error = call(&client, "diagnose", json!({ "seconds": 1, "detail": "yes" })).await.unwrap_err();
        assert_eq!(error, "detail: neither true nor false");
    });
}
