//! What a cgroup belongs to, by its path alone: a container, a pod or a unit of systemd. The layouts are those of Docker,
//! containerd, CRI-O, Podman, LXC, the kubelet and systemd, with the systemd and the cgroupfs driver, on cgroup v1 and v2.

/// The program that started a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerRuntime {
    Docker,
    Containerd,
    CriO,
    Podman,
    Lxc,
    /// In a recording of a later version.
    Other,
}

impl ContainerRuntime {
    /// As in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            ContainerRuntime::Docker => "docker",
            ContainerRuntime::Containerd => "containerd",
            ContainerRuntime::CriO => "cri-o",
            ContainerRuntime::Podman => "podman",
            ContainerRuntime::Lxc => "lxc",
            ContainerRuntime::Other => "unknown runtime",
        }
    }
}

/// The class that the kubelet gives a pod by its requests and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl QosClass {
    /// As in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            QosClass::Guaranteed => "guaranteed",
            QosClass::Burstable => "burstable",
            QosClass::BestEffort => "best-effort",
        }
    }
}

/// A pod, by the path of its cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPath {
    /// With `-` also where systemd's escaping has `_`.
    pub uid: String,
    pub qos: QosClass,
}

/// What a cgroup belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupOwner<'a> {
    pub kind: OwnerKind<'a>,
    /// The path below the cgroup of the owner, with its leading `/`; empty for that cgroup itself.
    pub below: &'a [u8],
}

/// The owner, without its name in the state of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerKind<'a> {
    Container {
        /// `None`: containerd, CRI-O or Docker below a kubelet with the cgroupfs driver.
        runtime: Option<ContainerRuntime>,
        /// 64 hexadecimal digits; the name of an LXC container.
        id: &'a [u8],
        pod: Option<PodPath>,
    },
    Pod(PodPath),
    Unit {
        /// As in the path, escaped by systemd.
        name: &'a [u8],
        /// The user of a session or of a user manager's unit.
        uid: Option<u32>,
    },
}

impl<'a> CgroupOwner<'a> {
    /// The innermost container, else the pod, else the innermost unit. `None` for any other path.
    pub fn from_path(path: &'a [u8]) -> Option<CgroupOwner<'a>> {
        let (mut container, mut pod, mut unit) = (None, None, None);
        let (mut uid, mut parents): (Option<u32>, Vec<&[u8]>) = (None, Vec::new());
        for (component, below) in components(path) {
            let (head, pod_here) = match split_systemd_style(component) {
                Some((slice, id)) => (id, parse_pod_slice(slice)),
                None => (component, parse_pod(component, &parents)),
            };
            if let Some(found) = pod_here {
                // Kubernetes in a container (kind): its pods are not those of the container.
                (container, pod) = (None, Some((found, below)));
            }
            if let Some((runtime, id)) = parse_container(head, component, &parents) {
                container = Some((runtime, id, below));
            }
            uid = parse_user_slice(component).or(uid);
            if is_unit(component) {
                unit = Some((component, below));
            }
            parents.push(component);
        }
        if let Some((runtime, id, below)) = container {
            let kind = OwnerKind::Container { runtime, id, pod: pod.map(|(pod, _)| pod) };
            // Podman and CRI-O run the container in a group of its own below the scope.
            let below = if below == b"/container" { &[][..] } else { below };
            return Some(CgroupOwner { kind, below });
        }
        if let Some((pod, below)) = pod {
            return Some(CgroupOwner { kind: OwnerKind::Pod(pod), below });
        }
        unit.map(|(name, below)| CgroupOwner { kind: OwnerKind::Unit { name, uid }, below })
    }
}

/// The path of the cgroup of the container, pod or unit; the whole path of any other cgroup.
pub fn owner_path(path: &[u8]) -> &[u8] {
    let Some(owner) = CgroupOwner::from_path(path) else { return path };
    let own = path.strip_suffix(owner.below).unwrap_or(path);
    match owner.kind {
        OwnerKind::Container { .. } => own.strip_suffix(b"/container").unwrap_or(own),
        _ => own,
    }
}

/// The components of a path, each with what follows it.
fn components(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let after = rest.strip_prefix(b"/")?;
        let end = after.iter().position(|&byte| byte == b'/').unwrap_or(after.len());
        let (component, below) = after.split_at_checked(end)?;
        rest = below;
        Some((component, below))
    })
}

/// `PARENT.slice:cri-containerd:ID`: a runtime with the cgroupfs driver that was given a path for the systemd driver.
/// Returns the slice and the id.
fn split_systemd_style(component: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = component.split(|&byte| byte == b':');
    let (slice, _, id) = (parts.next()?, parts.next()?, parts.next()?);
    (parts.next().is_none() && slice.ends_with(b".slice")).then_some((slice, id))
}

/// The prefixes of scopes, and of directories of the cgroupfs driver.
const PREFIXES: [(&[u8], ContainerRuntime); 6] = [
    (b"docker-", ContainerRuntime::Docker),
    (b"cri-containerd-", ContainerRuntime::Containerd),
    (b"nerdctl-", ContainerRuntime::Containerd),
    (b"crio-", ContainerRuntime::CriO),
    (b"libpod-payload-", ContainerRuntime::Podman),
    (b"libpod-", ContainerRuntime::Podman),
];

/// The directories of the cgroupfs driver above a bare id.
const PARENTS: [(&[u8], ContainerRuntime); 6] = [
    (b"docker", ContainerRuntime::Docker),
    (b"ecs", ContainerRuntime::Docker),
    (b"libpod_parent", ContainerRuntime::Podman),
    (b"k8s.io", ContainerRuntime::Containerd),
    (b"default", ContainerRuntime::Containerd),
    (b"containerd.service", ContainerRuntime::Containerd),
];

/// The runtime and the id. `head` is the component, or its last part.
fn parse_container<'a>(head: &'a [u8], component: &[u8], parents: &[&[u8]]) -> Option<(Option<ContainerRuntime>, &'a [u8])> {
    let bare = head.strip_suffix(b".scope").unwrap_or(head);
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = bare.strip_prefix(prefix).filter(|id| is_id(id)) {
            return Some((Some(runtime), id));
        }
    }
    if let Some(name) = head.strip_prefix(b"lxc.payload.").filter(|name| !name.is_empty()) {
        return Some((Some(ContainerRuntime::Lxc), name));
    }
    if parents.len() == 1 && parents.first() == Some(&&b"lxc"[..]) {
        return Some((Some(ContainerRuntime::Lxc), head));
    }
    if !is_id(head) {
        return None;
    }
    if head.len() != component.len() {
        let runtime = component.split(|&byte| byte == b':').nth(1)?;
        return Some((runtime_of_prefix(runtime), head));
    }
    let by_parent = |parent: &&[u8]| PARENTS.iter().find(|(name, _)| name == parent).map(|(_, runtime)| *runtime);
    Some((parents.iter().rev().find_map(by_parent), head))
}

/// The runtime in `PARENT.slice:RUNTIME:ID`.
fn runtime_of_prefix(word: &[u8]) -> Option<ContainerRuntime> {
    PREFIXES.iter().find(|(prefix, _)| prefix.strip_suffix(b"-") == Some(word)).map(|(_, runtime)| *runtime)
}

/// The id of a container: 64 lower-case hexadecimal digits.
fn is_id(word: &[u8]) -> bool {
    word.len() == 64 && word.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte))
}

/// A pod's group: `kubepods-burstable-podUID.slice`, or `podUID` below `kubepods` or `kubepods/burstable`.
fn parse_pod(component: &[u8], parents: &[&[u8]]) -> Option<PodPath> {
    if component.ends_with(b".slice") {
        return parse_pod_slice(component);
    }
    let uid = component.strip_prefix(b"pod").filter(|uid| is_pod_uid(uid))?;
    let qos = match *parents.last()? {
        b"burstable" => QosClass::Burstable,
        b"besteffort" => QosClass::BestEffort,
        parent if parent.starts_with(b"kubepods") => QosClass::Guaranteed,
        _ => return None,
    };
    Some(PodPath { uid: String::from_utf8_lossy(uid).into_owned(), qos })
}

/// The name of the kubelet's slice may have a prefix (`kubelet-kubepods-…`).
fn parse_pod_slice(component: &[u8]) -> Option<PodPath> {
    let text = std::str::from_utf8(component).ok()?.strip_suffix(".slice")?;
    let (before, after) = text.split_once("kubepods-")?;
    if !before.is_empty() && !before.ends_with('-') {
        return None;
    }
    let (qos, rest) = match after.split_once('-') {
        Some(("burstable", rest)) => (QosClass::Burstable, rest),
        Some(("besteffort", rest)) => (QosClass::BestEffort, rest),
        _ => (QosClass::Guaranteed, after),
    };
    let uid = rest.strip_prefix("pod").filter(|uid| is_pod_uid(uid.as_bytes()))?;
    Some(PodPath { uid: uid.replace('_', "-"), qos })
}

/// A UUID; that of a static pod has no hyphens.
fn is_pod_uid(uid: &[u8]) -> bool {
    (32..=36).contains(&uid.len()) && uid.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'))
}

fn parse_user_slice(component: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(component).ok()?;
    text.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok()
}

/// Whether systemd gives a group of this name to a unit.
fn is_unit(component: &[u8]) -> bool {
    let suffixes = [&b".service"[..], b".scope", b".slice", b".socket", b".mount", b".swap"];
    suffixes.into_iter().any(|suffix| component.len() > suffix.len() && component.ends_with(suffix))
}

/// The name of a unit without systemd's escaping: `\x2d` is `-`. An escape that is not valid is kept.
pub fn unescape_unit(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after.strip_prefix(b"x").and_then(|digits| std::str::from_utf8(digits.get(..2)?).ok());
        match escaped.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                plain.push(value);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests;
