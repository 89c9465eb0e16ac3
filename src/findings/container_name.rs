//! The name of a container, or of a service unit, from the path of its cgroup as container runtimes and systemd write it.

/// Digits of the id of a container, as `docker ps` shows them.
const ID_DIGITS: usize = 12;

/// `container 0123456789ab (docker)`, `LXC container web`; `None` if the cgroup is not of a container.
pub fn container_name(cgroup: &[u8]) -> Option<String> {
    let path = str::from_utf8(cgroup).ok()?;
    // The innermost component: a container may contain others.
    path.split('/').rev().zip(path.split('/').rev().skip(1).chain([""])).find_map(|(name, above)| describe(name, above, path))
}

/// The innermost service unit of systemd in the path: `nginx.service`.
pub fn service_unit(cgroup: &[u8]) -> Option<&str> {
    str::from_utf8(cgroup).ok()?.rsplit('/').find(|name| name.ends_with(".service"))
}

/// A component of the path, with the one above it.
fn describe(name: &str, above: &str, path: &str) -> Option<String> {
    let scope = name.strip_suffix(".scope").unwrap_or(name);
    let pod = if path.contains("kubepods") { ", Kubernetes pod" } else { "" };
    const RUNTIMES: [(&str, &str); 5] = [
        ("docker-", "docker"),
        ("libpod-", "podman"),
        ("cri-containerd-", "containerd"),
        ("crio-", "CRI-O"),
        ("nerdctl-", "containerd"),
    ];
    for (prefix, runtime) in RUNTIMES {
        if let Some(id) = scope.strip_prefix(prefix).and_then(short_id) {
            return Some(format!("container {id} ({runtime}{pod})"));
        }
    }
    for prefix in ["lxc.payload.", "lxc.payload/"] {
        if let Some(container) = name.strip_prefix(prefix) {
            return Some(format!("LXC container {container}"));
        }
    }
    if let Some(machine) = name.strip_prefix("machine-").and_then(|rest| rest.strip_suffix(".scope")) {
        return Some(format!("container {machine} (systemd-nspawn)"));
    }
    // The cgroupfs driver: /docker/ID, /kubepods/burstable/podUID/ID
    let id = short_id(name)?;
    match above {
        "docker" => Some(format!("container {id} (docker)")),
        "libpod_parent" => Some(format!("container {id} (podman)")),
        "lxc" => Some(format!("LXC container {name}")),
        _ if above.starts_with("pod") => Some(format!("container {id} (Kubernetes pod)")),
        _ => None,
    }
}

/// The beginning of an id of 64 hexadecimal digits.
fn short_id(text: &str) -> Option<&str> {
    let is_id = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.get(..ID_DIGITS).filter(|_| is_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_named_as_their_runtimes_name_them() {
        let id = "0123456789abcdef".repeat(4);
        let name = |path: &str| container_name(path.replace("ID", &id).as_bytes());
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(name("/system.slice/docker-ID.scope"), expected("container 0123456789ab (docker)"));
        assert_eq!(name("/docker/ID"), expected("container 0123456789ab (docker)"));
        assert_eq!(name("/docker/ID/init.scope"), expected("container 0123456789ab (docker)"));
        assert_eq!(name("/machine.slice/libpod-ID.scope/container"), expected("container 0123456789ab (podman)"));
        let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-ID.scope";
        assert_eq!(name(pod), expected("container 0123456789ab (containerd, Kubernetes pod)"));
        assert_eq!(name("/kubepods/besteffort/pod12-34/ID"), expected("container 0123456789ab (Kubernetes pod)"));
        assert_eq!(name("/lxc.payload.web/system.slice/nginx.service"), expected("LXC container web"));
        assert_eq!(name("/machine.slice/machine-web.scope"), expected("container web (systemd-nspawn)"));
        assert_eq!(name("/system.slice/nginx.service"), None);
        assert_eq!(name("/"), None);
        assert_eq!(service_unit(b"/system.slice/nginx.service"), Some("nginx.service"));
        assert_eq!(service_unit(b"/user.slice/user-0.slice/session-3.scope"), None);
    }
}
