//! The state files of container runtimes, of which only the names are taken.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use serde::Deserialize;

use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::cgroup::ContainerName;
use crate::sample::cgroup::owner::ContainerRuntime;

/// A larger state file is not read. Podman's list has some hundred bytes a container.
const MAX_STATE_BYTES: u64 = 4 << 20;
/// Names are cut after this many bytes; those of Kubernetes have at most 253.
const MAX_NAME_BYTES: usize = 256;

/// A container whose name is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerKey {
    pub id: Name,
    /// By the path of its cgroup.
    pub runtime: Option<ContainerRuntime>,
    pub pod_uid: Option<Name>,
}

/// Where a runtime keeps the state of a container. `{id}` is its id.
struct StateFile {
    runtime: ContainerRuntime,
    path: &'static str,
    parse: fn(&[u8], &str) -> Option<StateNames>,
}

/// The default directories, in the order in which they are tried.
const STATE_FILES: [StateFile; 8] = [
    StateFile { runtime: ContainerRuntime::Docker, path: "var/lib/docker/containers/{id}/config.v2.json", parse: parse_docker },
    StateFile {
        runtime: ContainerRuntime::Containerd,
        path: "run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json",
        parse: parse_annotations,
    },
    StateFile {
        runtime: ContainerRuntime::Containerd,
        path: "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json",
        parse: parse_annotations,
    },
    StateFile {
        runtime: ContainerRuntime::Containerd,
        path: "run/containerd/io.containerd.runtime.v2.task/default/{id}/config.json",
        parse: parse_annotations,
    },
    StateFile {
        runtime: ContainerRuntime::CriO,
        path: "run/containers/storage/overlay-containers/{id}/userdata/config.json",
        parse: parse_annotations,
    },
    StateFile {
        runtime: ContainerRuntime::CriO,
        path: "var/lib/containers/storage/overlay-containers/{id}/userdata/config.json",
        parse: parse_annotations,
    },
    StateFile {
        runtime: ContainerRuntime::Podman,
        path: "var/lib/containers/storage/overlay-containers/containers.json",
        parse: parse_podman,
    },
    StateFile {
        runtime: ContainerRuntime::Podman,
        path: "var/lib/containers/storage/overlay-containers/volatile-containers.json",
        parse: parse_podman,
    },
];

/// The names in a state file.
#[derive(Debug, PartialEq, Eq)]
struct StateNames {
    name: String,
    pod: Option<String>,
    namespace: Option<String>,
}

/// The name of a container; `None` if no state file of its runtime can be read. May block.
pub fn read_name(root: &Root, key: &ContainerKey) -> Option<ContainerName> {
    // The id is part of a path: only hexadecimal digits.
    let id = std::str::from_utf8(key.id.as_bytes()).ok().filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let candidates = STATE_FILES.iter().filter(|file| key.runtime.is_none_or(|runtime| runtime == file.runtime));
    for file in candidates {
        let Some(bytes) = read_state(root, &file.path.replace("{id}", id)) else { continue };
        let Some(names) = (file.parse)(&bytes, id) else { continue };
        let bounded = |text: String| Name::from(text.get(..text.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default());
        return Some(ContainerName {
            id: key.id.clone(),
            runtime: file.runtime,
            name: bounded(names.name),
            pod_uid: key.pod_uid.clone(),
            pod: names.pod.map(bounded),
            namespace: names.namespace.map(bounded),
        });
    }
    None
}

/// The bytes of a regular file of bounded size. A FIFO in its place does not block.
fn read_state(root: &Root, path: &str) -> Option<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(root.path(path)).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_STATE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_STATE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// `Name` of Docker's config.v2.json: `/web-1`, or `/k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT` of the kubelet.
fn parse_docker(bytes: &[u8], _: &str) -> Option<StateNames> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(rename = "Name")]
        name: String,
    }
    let config: Config = serde_json::from_slice(bytes).ok()?;
    let name = config.name.strip_prefix('/').unwrap_or(&config.name);
    let mut of_kubelet = name.strip_prefix("k8s_").unwrap_or_default().split('_').map(named);
    if let (Some(Some(name)), Some(pod), Some(namespace)) = (of_kubelet.next(), of_kubelet.next(), of_kubelet.next()) {
        return Some(StateNames { name, pod, namespace });
    }
    named(name).map(|name| StateNames { name, pod: None, namespace: None })
}

/// The annotations of an OCI config.json: those of containerd's CRI plugin, of CRI-O, and of nerdctl.
fn parse_annotations(bytes: &[u8], _: &str) -> Option<StateNames> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let annotations = serde_json::from_slice::<Config>(bytes).ok()?.annotations;
    let first = |keys: &[&str]| keys.iter().find_map(|key| annotations.get(*key)).and_then(|text| named(text));
    let pod = first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let namespace = first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]);
    let own = first(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"]);
    // The container that holds the namespaces of a pod has no name of its own.
    let name = own.or_else(|| pod.as_ref().map(|_| "pause".to_owned()))?;
    Some(StateNames { name, pod, namespace })
}

/// `names` of the container in the list of containers/storage. CRI-O keeps its containers there too, under the names of Docker's
/// kubelet.
fn parse_podman(bytes: &[u8], id: &str) -> Option<StateNames> {
    #[derive(Deserialize)]
    struct Container {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let containers: Vec<Container> = serde_json::from_slice(bytes).ok()?;
    let container = containers.into_iter().find(|container| container.id == id)?;
    let name = named(container.names.first()?)?;
    Some(StateNames { name, pod: None, namespace: None })
}

fn named(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
