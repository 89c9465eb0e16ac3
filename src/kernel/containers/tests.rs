//! Names from state files as the runtimes write them.

use std::fs;
use std::sync::Arc;

use super::*;
use crate::ids::{CgroupId, CgroupVersion};
use crate::proc_tree::ProcTree;
use crate::sample::task::{ProcessFacts, Tasks};
use crate::sample::{Instant as SampleTime, Reading};
use crate::synthetic;

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A sample with a process in each of these cgroups.
fn sample(paths: &[String]) -> Sample {
    let mut sample = Sample::empty(SampleTime::default());
    let process = |(place, path): (usize, &String)| {
        let cgroup: Reading<CgroupId> = Ok(CgroupId { version: CgroupVersion::V2, path: path.as_str().into() });
        let pid = u32::try_from(place).unwrap() + 2;
        let facts = ProcessFacts { cgroup, ..ProcessFacts::default() };
        Arc::new(synthetic::process(pid, "sh").facts(facts).threads([synthetic::thread(pid, "sh")]).build())
    };
    sample.tasks = Ok(Tasks { processes: paths.iter().enumerate().map(process).collect(), ..Tasks::default() });
    sample
}

/// The names that are known once the thread has read all files.
fn names(tree: &ProcTree, paths: &[String], expected: usize) -> Vec<String> {
    let (root, sample, mut reader) = (tree.root(), sample(paths), ContainerReader::default());
    let mut found = reader.sample(&root, &sample, Instant::now());
    for _ in 0..500 {
        if found.len() >= expected {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        found = reader.sample(&root, &sample, Instant::now());
    }
    let text = |name: &Option<Name>| name.as_ref().map_or_else(String::new, |name| format!(" {}", name.to_string_lossy()));
    let line = |name: &ContainerName| {
        format!("{} {}{}{}", name.runtime.name(), name.name.to_string_lossy(), text(&name.namespace), text(&name.pod))
    };
    found.iter().map(line).collect()
}

#[test]
fn each_runtime_has_its_state_files() {
    let tree = ProcTree::empty();
    let docker = |digit: char| format!("var/lib/docker/containers/{}/config.v2.json", id(digit));
    tree.write(
        docker('1'),
        r#"{"StreamConfig":{},"State":{"Running":true},"ID":"1","Name":"/web-1","Config":{"Env":["A=b"]}}"#,
    );
    tree.write(docker('2'), r#"{"Name":"/k8s_api_api-7d9f_shop_b8701d38-3791-422d-ad15-890ad1a0844b_0"}"#);
    let cri = r#"{"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri.container-name":"api","io.kubernetes.cri.sandbox-name":"api-7d9f","io.kubernetes.cri.sandbox-namespace":"shop"}}"#;
    tree.write(format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json", id('3')), cri);
    let crio = r#"{"annotations":{"io.kubernetes.container.name":"db","io.kubernetes.pod.name":"db-0","io.kubernetes.pod.namespace":"shop"}}"#;
    tree.write(format!("run/containers/storage/overlay-containers/{}/userdata/config.json", id('4')), crio);
    let podman =
        format!(r#"[{{"id":"{}","names":["other"]}},{{"id":"{}","names":["web-5"],"metadata":"{{}}"}}]"#, id('9'), id('5'));
    tree.write("var/lib/containers/storage/overlay-containers/containers.json", &podman);
    let pod = "/kubepods/burstable/podb8701d38-3791-422d-ad15-890ad1a0844b";
    let paths = [
        format!("/system.slice/docker-{}.scope", id('1')),
        format!("{pod}/{}", id('2')),
        format!("{pod}/{}", id('3')),
        format!("{pod}/crio-{}", id('4')),
        format!("/machine.slice/libpod-{}.scope/container", id('5')),
        format!("/docker/{}", id('6')),
        "/system.slice/nginx.service".to_owned(),
    ];
    let expected =
        ["docker web-1", "docker api shop api-7d9f", "containerd api shop api-7d9f", "cri-o db shop db-0", "podman web-5"];
    assert_eq!(names(&tree, &paths, expected.len()), expected);
}

#[test]
fn files_that_are_no_state_are_not_read() {
    let tree = ProcTree::empty();
    let docker = |digit: char| format!("var/lib/docker/containers/{}/config.v2.json", id(digit));
    tree.write(docker('1'), "{\"Name\":");
    tree.write(docker('2'), r#"{"Name":["a"]}"#);
    tree.write(docker('3'), "[".repeat(100_000));
    tree.write(docker('4'), r#"{"Name":"/"}"#);
    fs::create_dir_all(tree.path(docker('5'))).unwrap();
    tree.named_pipe(docker('6'));
    tree.write(docker('7'), format!(r#"{{"Name":"/{}"}}"#, "é\\u001b[2J".repeat(200)));
    let paths: Vec<String> = ('1'..='7').map(|digit| format!("/docker/{}", id(digit))).collect();
    let found = names(&tree, &paths, 1);
    assert_eq!(found.len(), 1, "the last one has a name: {found:?}");
    assert!(found[0].len() < 300, "cut");
}

#[test]
fn a_container_that_is_gone_has_no_name() {
    let tree = ProcTree::with([(format!("var/lib/docker/containers/{}/config.v2.json", id('1')), r#"{"Name":"/web-1"}"#)]);
    let root = tree.root();
    let mut reader = ContainerReader::default();
    let running = sample(&[format!("/docker/{}", id('1'))]);
    for _ in 0..500 {
        if !reader.sample(&root, &running, Instant::now()).is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(reader.sample(&root, &running, Instant::now()).len(), 1);
    assert_eq!(reader.sample(&root, &sample(&[]), Instant::now() + SEARCH_INTERVAL), []);
}

/// Each search finds all names old, and the thread accepts some of the requests.
#[test]
fn of_many_containers_each_name_is_requested_in_its_turn() {
    let id = |number: usize| format!("{number:064x}");
    let last = id(MAX_CONTAINERS - 1);
    let tree = ProcTree::with([(format!("var/lib/docker/containers/{last}/config.v2.json"), r#"{"Name":"/last"}"#)]);
    let paths: Vec<String> = (0..MAX_CONTAINERS).map(|number| format!("/docker/{}", id(number))).collect();
    let (root, running, mut reader) = (tree.root(), sample(&paths), ContainerReader::default());
    let mut now = Instant::now();
    for _ in 0..500 {
        now += NAME_TTL;
        if !reader.sample(&root, &running, now).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the last container has no name");
}
