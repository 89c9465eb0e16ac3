//! The YAML of the pages, as python3's parser reads it: each block is YAML, and the DaemonSet starts `serve` with options that exist.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use stalltop::cli::{self, Command as Subcommand};

use super::root;

const TO_JSON: &str = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";

/// The YAML blocks of a page of docs/.
fn blocks(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    text.split("```yaml\n").skip(1).map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// `None` where python3 has no parser.
fn parsed(block: &str) -> Option<Value> {
    let has_parser = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !has_parser.is_ok_and(|status| status.success()) {
        println!("skipped: no python3 with yaml");
        return None;
    }
    let mut python = Command::new("python3");
    let mut python = python.args(["-c", TO_JSON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(block.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "no YAML: {block}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_blocks_of_yaml_are_yaml() {
    for page in ["containers.md", "serve.md"] {
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{page} has no YAML");
        for block in blocks {
            let Some(value) = parsed(&block) else { return };
            assert!(value.is_object(), "{page}: {value}");
        }
    }
}

#[test]
fn the_daemon_set_starts_serve_with_what_the_page_explains() {
    let block = blocks("containers.md").into_iter().find(|block| block.contains("kind: DaemonSet")).unwrap();
    let Some(set) = parsed(&block) else { return };
    let template = &set["spec"]["template"];
    assert_eq!(set["spec"]["selector"]["matchLabels"], template["metadata"]["labels"], "the selector is that of its pods");
    let pod = &template["spec"];
    assert!(pod["hostPID"] == true && pod["hostNetwork"] == true, "{pod}");
    let container = &pod["containers"][0];

    let words =
        container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("$(NODE_IP)", "10.0.0.7"));
    let invocation = cli::parse(words.map(Into::into)).unwrap();
    let Subcommand::Serve(serve) = invocation.command else { panic!("{:?}", invocation.command) };
    let port = container["ports"][0]["containerPort"].as_u64().unwrap();
    assert!(serve.allow_remote && serve.listen.to_string() == format!("10.0.0.7:{port}"), "{serve:?}");
    assert_eq!(template["metadata"]["annotations"]["prometheus.io/port"], port.to_string());

    let page = fs::read_to_string(root().join("docs/containers.md")).unwrap();
    for capability in container["securityContext"]["capabilities"]["add"].as_array().unwrap() {
        let option = format!("--cap-add={}", capability.as_str().unwrap());
        assert!(page.contains(&option), "{option} is not explained");
    }
    let names = |list: &Value| list.as_array().unwrap().iter().map(|row| row["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&container["volumeMounts"]), names(&pod["volumes"]));
}
