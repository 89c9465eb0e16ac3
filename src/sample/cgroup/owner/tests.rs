//! Paths as the runtimes make them.

use super::*;

const ID: &str = "17d8c9eacc629f9945f304d89e9708c0c619649a484a215b240628319548a09f";

/// The owner in one line: runtime, first digits of the id, pod, what is below.
fn owner(path: &str) -> String {
    let path = path.replace("ID", ID);
    let Some(owner) = CgroupOwner::from_path(path.as_bytes()) else { return "-".to_owned() };
    let pod_text = |pod: &PodPath| format!("pod {} {}", pod.uid, pod.qos.name());
    let text = match &owner.kind {
        OwnerKind::Container { runtime, id, pod } => {
            let runtime = runtime.map_or("?", ContainerRuntime::name);
            let id = String::from_utf8_lossy(id.get(..8).unwrap_or(id)).into_owned();
            format!("{runtime} {id}{}", pod.as_ref().map_or_else(String::new, |pod| format!(" {}", pod_text(pod))))
        }
        OwnerKind::Pod(pod) => pod_text(pod),
        OwnerKind::Unit { name, uid } => {
            let name = String::from_utf8_lossy(&unescape_unit(name)).into_owned();
            format!("unit {name}{}", uid.map_or_else(String::new, |uid| format!(" uid {uid}")))
        }
    };
    format!("{text}{}", String::from_utf8_lossy(owner.below))
}

#[test]
fn containers_of_docker() {
    assert_eq!(owner("/system.slice/docker-ID.scope"), "docker 17d8c9ea");
    assert_eq!(owner("/docker/ID"), "docker 17d8c9ea");
    assert_eq!(owner("/docker/ID/init.scope"), "docker 17d8c9ea/init.scope");
    assert_eq!(owner("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope"), "docker 17d8c9ea");
    assert_eq!(owner("/build.slice/docker-ID.scope"), "docker 17d8c9ea");
    assert_eq!(owner("/actions_job/ID"), "? 17d8c9ea", "a parent that the user named");
    assert_eq!(owner("/ecs/92b2c3c2b8f94b2f8f3a0a2d8d6e6d53/ID"), "docker 17d8c9ea");
    assert_eq!(owner("/system.slice:docker:ID"), "docker 17d8c9ea");
}

#[test]
fn containers_of_podman() {
    assert_eq!(owner("/machine.slice/libpod-ID.scope"), "podman 17d8c9ea");
    assert_eq!(owner("/machine.slice/libpod-ID.scope/container"), "podman 17d8c9ea");
    assert_eq!(owner("/libpod_parent/libpod-ID"), "podman 17d8c9ea");
    assert_eq!(owner("/libpod_parent/ID"), "podman 17d8c9ea");
    let rootless = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container";
    assert_eq!(owner(rootless), "podman 17d8c9ea");
    assert_eq!(owner("/system.slice/nginx.service/libpod-payload-ID"), "podman 17d8c9ea");
    assert_eq!(owner("/machine.slice/libpod-conmon-ID.scope"), format!("unit libpod-conmon-{ID}.scope"));
    assert_eq!(owner("/system.slice/nginx.service/runtime"), "unit nginx.service/runtime");
}

#[test]
fn pods_with_the_systemd_driver() {
    let pod = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod63b3ebfc_2890_11e9_8154_16bf8ef8d9dc.slice";
    let named = "pod 63b3ebfc-2890-11e9-8154-16bf8ef8d9dc best-effort";
    assert_eq!(owner(pod), named);
    assert_eq!(owner(&format!("{pod}/crio-ID.scope")), format!("cri-o 17d8c9ea {named}"));
    assert_eq!(owner(&format!("{pod}/crio-ID.scope/container")), format!("cri-o 17d8c9ea {named}"));
    assert_eq!(owner(&format!("{pod}/cri-containerd-ID.scope")), format!("containerd 17d8c9ea {named}"));
    assert_eq!(owner(&format!("{pod}/docker-ID.scope")), format!("docker 17d8c9ea {named}"));
    let guaranteed = "/kubepods.slice/kubepods-pod9da3b2a14682e1fb23be3c2492753207.slice";
    assert_eq!(owner(guaranteed), "pod 9da3b2a14682e1fb23be3c2492753207 guaranteed", "a static pod");
    let burstable = "kubepods-burstable-podb8701d38_3791_422d_ad15_890ad1a0844b.slice";
    let named = "pod b8701d38-3791-422d-ad15-890ad1a0844b burstable";
    let of_kind = format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-{burstable}");
    assert_eq!(owner(&format!("{of_kind}/cri-containerd-ID.scope")), format!("containerd 17d8c9ea {named}"));
    assert_eq!(
        owner(&format!("/docker/a{}{of_kind}/cri-containerd-ID.scope", &ID[1..])),
        format!("containerd 17d8c9ea {named}"),
        "Kubernetes in a container: the innermost"
    );
    assert_eq!(
        owner(&format!("/system.slice/containerd.service/{burstable}:cri-containerd:ID")),
        format!("containerd 17d8c9ea {named}"),
        "a cgroupfs driver with the paths of the other"
    );
    assert_eq!(owner("/kubepods.slice/kubepods-burstable.slice"), "unit kubepods-burstable.slice");
}

#[test]
fn pods_with_the_cgroupfs_driver() {
    let pod = "/kubepods/besteffort/pod74c13223-5a00-11e9-b385-42010a80018d";
    let named = "pod 74c13223-5a00-11e9-b385-42010a80018d best-effort";
    assert_eq!(owner(pod), named);
    assert_eq!(owner(&format!("{pod}/ID")), format!("? 17d8c9ea {named}"));
    assert_eq!(owner(&format!("{pod}/crio-ID")), format!("cri-o 17d8c9ea {named}"));
    assert_eq!(
        owner("/kubepods/pod74c13223-5a00-11e9-b385-42010a80018d/ID"),
        "? 17d8c9ea pod 74c13223-5a00-11e9-b385-42010a80018d guaranteed"
    );
    assert_eq!(owner("/kubepods/burstable"), "-");
    assert_eq!(owner("/k8s.io/ID"), "containerd 17d8c9ea");
    assert_eq!(owner("/default/ID"), "containerd 17d8c9ea", "ctr and nerdctl");
}

#[test]
fn units_of_systemd_and_lxc() {
    assert_eq!(owner("/system.slice/nginx.service"), "unit nginx.service");
    assert_eq!(owner("/system.slice/system-getty.slice/getty@tty1.service"), "unit getty@tty1.service");
    assert_eq!(owner("/user.slice/user-1000.slice/session-2.scope"), "unit session-2.scope uid 1000");
    let terminal = "app-gnome-org.gnome.Terminal-4711.scope";
    let app = "/user.slice/user-1000.slice/user@1000.service/app.slice";
    assert_eq!(owner(&format!("{app}/{terminal}")), format!("unit {terminal} uid 1000"));
    assert_eq!(owner("/machine.slice/machine-qemu\\x2d1\\x2dweb.scope"), "unit machine-qemu-1-web.scope");
    assert_eq!(owner("/machine.slice/machine-qemu\\x2d1.scope/libvirt/vcpu0"), "unit machine-qemu-1.scope/libvirt/vcpu0");
    assert_eq!(owner("/init.scope"), "unit init.scope");
    assert_eq!(owner("/lxc.payload.web1/system.slice"), "lxc web1/system.slice");
    assert_eq!(owner("/lxc/101"), "lxc 101");
}

#[test]
fn other_paths_and_hostile_ones() {
    for path in ["", "/", "//", "/lab-heavy", "/batch/job", "relative", "/.service", "/podx", "/a/pod1234", "/docker"] {
        assert_eq!(owner(path), "-", "{path}");
    }
    assert_eq!(owner("/docker-ID0.scope"), format!("unit docker-{ID}0.scope"), "no id");
    assert_eq!(unescape_unit(b"a\\x2"), b"a\\x2");
    assert_eq!(unescape_unit(b"\\\\x41\\xzz\\x1b["), b"\\A\\xzz\x1b[", "it is escaped where it is shown");
    let deep = "/a".repeat(5000) + ".scope";
    assert!(owner(&deep).starts_with("unit a.scope"));
    let binary: Vec<u8> = (0..=255).collect();
    assert_eq!(CgroupOwner::from_path(&binary), None);
}

#[test]
fn paths_of_one_owner_have_one_path() {
    let path = |text: &str| String::from_utf8(owner_path(text.replace("ID", ID).as_bytes()).to_vec()).unwrap();
    let docker = format!("/system.slice/docker-{ID}.scope");
    assert_eq!(path("/system.slice/docker-ID.scope"), docker);
    assert_eq!(path("/system.slice/docker-ID.scope/init.scope"), docker);
    let podman = format!("/machine.slice/libpod-{ID}.scope");
    assert_eq!(path("/machine.slice/libpod-ID.scope/container"), podman);
    assert_eq!(path("/system.slice/nginx.service/runtime"), "/system.slice/nginx.service");
    assert_eq!(path("/batch/job"), "/batch/job", "no unit");
    assert_eq!(path("/"), "/");
}
