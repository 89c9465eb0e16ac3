//! `fleet --once` and `--json`: all hosts are evaluated, and none disturbs another.

use std::collections::BTreeMap;

use serde_json::Value;

use super::host_script::Hosts;

#[test]
fn each_host_is_evaluated_or_says_why_not() {
    let hosts = Hosts::new();
    let names = "web1 banner1 dying1 hanging1 garbage1 text1 refused1 missing1";
    let (report, code) = hosts.json(&format!("{names} --for 500ms"));
    assert_eq!(report["schema"], "stalltop/1");
    let listed = report["hosts"].as_array().unwrap();
    let by_name: BTreeMap<&str, &Value> = listed.iter().map(|host| (host["name"].as_str().unwrap(), host)).collect();
    assert_eq!(by_name.len(), 8, "{report}");
    for known in ["web1", "banner1", "dying1", "hanging1"] {
        let host = by_name[known];
        assert_eq!(host["error"], Value::Null, "{known}: {host}");
        assert!(host["figures"]["busy_ratio"].is_number() && host["verdict"] != "unknown", "{known}: {host}");
    }
    for (unknown, why) in [
        ("garbage1", "no text and no recording"),
        ("text1", "you may not enter"),
        ("refused1", "Connection refused"),
        ("missing1", "not found"),
    ] {
        let host = by_name[unknown];
        assert!(host["error"].as_str().unwrap().contains(why), "{unknown}: {host}");
        assert_eq!((&host["verdict"], &host["figures"]["busy_ratio"]), (&"unknown".into(), &Value::Null));
    }
    // The findings of a machine that tests are not known.
    match report["verdict"].as_str().unwrap() {
        "unknown" => assert_eq!(code, 3),
        "warning" => assert_eq!(code, 1),
        "critical" => assert_eq!(code, 2),
        other => panic!("{other}"),
    }
}

#[test]
fn the_text_names_each_host_and_is_printable() {
    let output = Hosts::new().run("web1 banner1 refused1 --once --for 400ms");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("3 hosts: ") && text.lines().all(|line| !line.contains('\u{1b}')), "{text}");
    for line in ["\nweb1: 20", "\nbanner1: 20", "\nrefused1: unknown: ssh: connect to host: Connection refused\n"] {
        assert!(text.contains(line), "{line:?}: {text}");
    }
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_wrong_list_of_hosts_is_one_line() {
    let hosts = Hosts::new();
    for (words, why) in [("", "no host is named"), ("--hosts /nonexistent", "No such file"), ("--hosts -", "no host is named")]
    {
        let output = hosts.run(words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().count() == 1 && text.contains(why), "{words}: {text}");
    }
}

/// A host is a word: nothing of it reaches a shell here, or is an option of ssh.
#[test]
fn a_host_that_is_an_option_is_refused() {
    let hosts = Hosts::new();
    std::fs::write(hosts.path("list"), "-oProxyCommand=touch${IFS}pwned\n").unwrap();
    let output = hosts.run(&format!("--hosts {}", hosts.path("list").display()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!hosts.path("pwned").exists());
}
