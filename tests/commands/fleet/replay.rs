//! `fleet --record` and `--replay`.

use super::host_script::{Hosts, run};

#[test]
fn a_recorded_session_is_replayed() {
    let hosts = Hosts::new();
    let night = hosts.path("night");
    let output = hosts.run(&format!("web1 admin@web1 banner1 refused1 --once --for 600ms --record {}", night.display()));
    assert!(output.stderr.is_empty(), "{output:?}");
    let mut names: Vec<String> =
        std::fs::read_dir(&night).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let hosts_of: Vec<&str> = names.iter().map(|name| name.rsplit_once('-').unwrap().0).collect();
    assert_eq!(hosts_of, ["admin_web1", "banner1", "web1"], "{names:?}");
    let replayed = run(&["fleet", "--replay", night.to_str().unwrap(), "--json"], hosts.directory.path());
    let report: serde_json::Value =
        serde_json::from_slice(&replayed.stdout).unwrap_or_else(|error| panic!("{error}: {replayed:?}"));
    let listed = report["hosts"].as_array().unwrap();
    assert_eq!(listed.len(), 3);
    for host in listed {
        assert!(host["figures"]["busy_ratio"].is_number() && host["error"].is_null(), "{host}");
    }
    // Each is a recording like any other.
    let single = run(&["check".as_ref(), night.join(&names[2]).as_os_str()], hosts.directory.path());
    assert!(single.status.code() != Some(3), "{single:?}");
}

#[test]
fn a_directory_without_recordings_is_one_line() {
    let hosts = Hosts::new();
    for (place, why) in [("missing", "No such file"), (".", "no recordings")] {
        let place = hosts.path(place);
        let output = run(&["fleet", "--replay", place.to_str().unwrap()], hosts.directory.path());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.lines().count() == 1 && text.contains(why), "{text}");
    }
}
