//! The names of cgroups: of their container, pod or unit, as users know it.

use crate::sample::Sample;
use crate::sample::cgroup::ContainerName;
use crate::sample::cgroup::owner::{CgroupOwner, OwnerKind, PodPath, unescape_unit};

/// Digits of a container's id where its name is not known, as `docker ps` shows them.
const ID_DIGITS: usize = 12;

/// The name of a cgroup. All texts come from outside: they are escaped where they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupName {
    pub kind: NameKind,
    /// Of the container, pod or unit; the path of any other cgroup.
    pub name: String,
    /// The runtime of a container, the QoS class of a pod, the user of a unit.
    pub detail: Option<String>,
    /// The pod of a container: `NAMESPACE/NAME`, or its UID.
    pub pod: Option<String>,
    /// The path below the container, pod or unit, with its leading `/`; empty for that cgroup itself.
    pub below: String,
}

/// What a cgroup is named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    Container,
    Pod,
    Unit,
    Path,
}

impl CgroupName {
    /// The name of the cgroup with this path, by the container names in the sample.
    pub fn from_path(sample: &Sample, path: &[u8]) -> CgroupName {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Some(owner) = CgroupOwner::from_path(path) else {
            return CgroupName { kind: NameKind::Path, name: lossy(path), detail: None, pod: None, below: String::new() };
        };
        let below = lossy(owner.below);
        match owner.kind {
            OwnerKind::Container { runtime, id, pod } => {
                let known = sample.container_name(id);
                let runtime = known.map(|known| known.runtime).or(runtime);
                let name = known.map_or_else(|| lossy(id.get(..ID_DIGITS).unwrap_or(id)), |known| known.name.to_string_lossy());
                let pod = known.and_then(pod_name).or_else(|| Some(pod_label(sample, &pod?)));
                let detail = runtime.map(|runtime| runtime.name().to_owned());
                CgroupName { kind: NameKind::Container, name, detail, pod, below }
            }
            OwnerKind::Pod(pod) => {
                let detail = Some(pod.qos.name().to_owned());
                CgroupName { kind: NameKind::Pod, name: pod_label(sample, &pod), detail, pod: None, below }
            }
            OwnerKind::Unit { name, uid } => {
                let name = lossy(&unescape_unit(name));
                let user = uid.map(|uid| user_label(sample, uid));
                CgroupName { kind: NameKind::Unit, name, detail: user, pod: None, below }
            }
        }
    }

    /// `container web-1 (docker)`, `container web (containerd) of pod shop/web-7d9`, `pod shop/web-7d9 (burstable)`,
    /// `unit nginx.service`, `unit session-2.scope of user lee`, `cgroup /batch`.
    pub fn describe(&self) -> String {
        let CgroupName { name, .. } = self;
        let detail = self.detail.as_deref();
        let in_brackets = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
        let owner = match self.kind {
            NameKind::Path => return format!("cgroup {name}"),
            NameKind::Container => {
                let pod = self.pod.as_ref().map_or_else(String::new, |pod| format!(" of pod {pod}"));
                format!("container {name}{in_brackets}{pod}")
            }
            NameKind::Pod => format!("pod {name}{in_brackets}"),
            NameKind::Unit => format!("unit {name}{}", detail.map_or_else(String::new, |user| format!(" of {user}"))),
        };
        if self.below.is_empty() { owner } else { format!("cgroup {} of {owner}", self.below) }
    }

    /// As `describe`, without the word before the name.
    pub fn label(&self) -> String {
        let detail = self.detail.as_ref().filter(|_| self.kind != NameKind::Path);
        let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
        let name = match &self.pod {
            Some(pod) => format!("{pod} {}", self.name),
            None => self.name.clone(),
        };
        format!("{name}{detail}{}", self.below)
    }
}

impl NameKind {
    /// One word, as in a table.
    pub fn word(self) -> &'static str {
        match self {
            NameKind::Container => "container",
            NameKind::Pod => "pod",
            NameKind::Unit => "unit",
            NameKind::Path => "cgroup",
        }
    }
}

/// The words for a cgroup in a sentence: `CgroupName::describe`.
pub fn describe_cgroup(sample: &Sample, path: &[u8]) -> String {
    CgroupName::from_path(sample, path).describe()
}

fn pod_name(container: &ContainerName) -> Option<String> {
    let pod = container.pod.as_ref()?.to_string_lossy();
    let namespace = container.namespace.as_ref().map(|namespace| format!("{}/", namespace.to_string_lossy()));
    Some(format!("{}{pod}", namespace.unwrap_or_default()))
}

/// The name of a pod is known from its containers.
fn pod_label(sample: &Sample, pod: &PodPath) -> String {
    let of_it = |container: &&ContainerName| container.pod_uid.as_ref().is_some_and(|uid| uid.as_bytes() == pod.uid.as_bytes());
    sample.container_names.iter().filter(of_it).find_map(pod_name).unwrap_or_else(|| pod.uid.clone())
}

fn user_label(sample: &Sample, uid: u32) -> String {
    let name = sample.tasks.as_ref().ok().and_then(|tasks| tasks.users.get(&uid));
    name.map_or_else(|| format!("uid {uid}"), |name| format!("user {}", name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::cgroup::owner::ContainerRuntime;
    use crate::sample::{Instant, Name};

    const POD: &str =
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podb8701d38_3791_422d_ad15_890ad1a0844b.slice";

    fn id(digit: &str) -> String {
        digit.repeat(64)
    }

    fn sample() -> Sample {
        let mut sample = Sample::empty(Instant::default());
        let docker = ContainerName {
            id: Name::from(id("a").as_str()),
            runtime: ContainerRuntime::Docker,
            name: "web-1".into(),
            pod_uid: None,
            pod: None,
            namespace: None,
        };
        let in_pod = ContainerName {
            id: Name::from(id("b").as_str()),
            runtime: ContainerRuntime::Containerd,
            name: "api".into(),
            pod_uid: Some("b8701d38-3791-422d-ad15-890ad1a0844b".into()),
            pod: Some("api-7d9f".into()),
            namespace: Some("shop".into()),
        };
        sample.container_names = vec![docker, in_pod];
        sample
    }

    #[test]
    fn names_in_sentences() {
        let describe = |path: &str| describe_cgroup(&sample(), path.as_bytes());
        assert_eq!(describe(&format!("/docker/{}", id("a"))), "container web-1 (docker)");
        assert_eq!(describe(&format!("/docker/{}/init.scope", id("a"))), "cgroup /init.scope of container web-1 (docker)");
        assert_eq!(describe(&format!("/docker/{}", id("c"))), "container cccccccccccc (docker)");
        assert_eq!(describe(&format!("{POD}/{}", id("b"))), "container api (containerd) of pod shop/api-7d9f");
        assert_eq!(describe(&format!("{POD}/{}", id("c"))), "container cccccccccccc of pod shop/api-7d9f");
        assert_eq!(describe(POD), "pod shop/api-7d9f (burstable)");
        assert_eq!(describe("/system.slice/nginx.service"), "unit nginx.service");
        assert_eq!(describe("/user.slice/user-7.slice/session-2.scope"), "unit session-2.scope of uid 7");
        assert_eq!(describe("/batch"), "cgroup /batch");
    }

    #[test]
    fn labels_in_tables() {
        let label = |path: &str| CgroupName::from_path(&sample(), path.as_bytes()).label();
        assert_eq!(label(&format!("/docker/{}", id("a"))), "web-1 (docker)");
        assert_eq!(label(&format!("{POD}/{}", id("b"))), "shop/api-7d9f api (containerd)");
        assert_eq!(label("/system.slice/nginx.service/runtime"), "nginx.service/runtime");
        assert_eq!(label("/batch"), "/batch");
    }
}
