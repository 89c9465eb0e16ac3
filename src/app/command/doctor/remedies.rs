//! What would make a reading possible: another user, a capability for the program, or another option for the container that
//! it runs in (docs/containers.md). A root user without a capability is in a container: becoming root is no advice there.

use linux_raw_sys::general::{CAP_BPF, CAP_DAC_READ_SEARCH, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_NICE, CAP_SYS_PTRACE};

use crate::kernel::Root;
use crate::kernel::sys::capget;
use crate::report::formatting::printable;

/// The advice for this user.
#[derive(Clone, Copy)]
pub struct Remedies {
    pub is_root: bool,
}

const GIVE_CAPABILITIES: &str = "run as root, or give the program its capabilities, if the last line has a command for it";

impl Remedies {
    fn choose(self, for_user: &'static str, for_root: &'static str) -> &'static str {
        if self.is_root { for_root } else { for_user }
    }

    pub fn sys_ptrace(self) -> &'static str {
        self.choose(GIVE_CAPABILITIES, "start the container with --cap-add=SYS_PTRACE")
    }

    /// Of a user who has neither CAP_DAC_READ_SEARCH nor CAP_DAC_OVERRIDE.
    pub fn dac_read_search(self) -> Option<String> {
        let held = capget().map_or(u64::MAX, |sets| sets.effective);
        let remedy = || self.choose(GIVE_CAPABILITIES, "start the container with --cap-add=DAC_READ_SEARCH").to_owned();
        (held & (1 << 1 | 1 << 2) == 0).then(remedy)
    }

    pub fn net_admin(self) -> &'static str {
        self.choose(GIVE_CAPABILITIES, "start the container with --cap-add=NET_ADMIN")
    }

    pub fn sys_admin(self) -> &'static str {
        self.choose(
            "run as root: to enter one needs CAP_SYS_ADMIN",
            "start the container with --cap-add=SYS_ADMIN: to enter one needs it",
        )
    }

    pub fn stacks(self) -> &'static str {
        self.choose(
            "run as root: the kernel wants CAP_SYS_ADMIN",
            "start the container with --cap-add=SYS_ADMIN and without a user namespace of its own",
        )
    }

    pub fn sys_nice(self) -> &'static str {
        self.choose(GIVE_CAPABILITIES, "start the container with --cap-add=SYS_NICE")
    }

    /// The command that gives the program all capabilities that it uses, for a user who lacks one: setcap replaces those that the
    /// file has. Only those of the bounding set: a file with others is not executed (EPERM).
    pub fn capabilities_line(self, permitted: u64, bounding_set: u64) -> String {
        let offered = || SETCAP.iter().filter(|&&(number, _)| bounding_set & 1 << number != 0);
        match self.is_root || offered().all(|&(number, _)| permitted & 1 << number != 0) {
            true => String::new(),
            false => {
                let names: Vec<&str> = offered().map(|&(_, name)| name).collect();
                format!("capabilities  sudo setcap {}+ep \"$(command -v stalltop)\"\n", names.join(","))
            }
        }
    }

    pub fn other_processes(self) -> &'static str {
        self.choose(
            "run as root on the host, or in a container with --pid=host",
            "run on the host, or start the container with --pid=host",
        )
    }

    /// Why not even all processes of this user may be traced, and what to do: the security module Yama, which most distributions switch
    /// on.
    pub fn tracing_obstacle(self, root: &Root, has_cap_sys_ptrace: bool) -> Option<(String, String)> {
        let scope = root.read_once("proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        let (why, remedy) = match scope.trim_ascii() {
            b"1" | b"2" if !has_cap_sys_ptrace => {
                ("hidden, also of own processes (kernel.yama.ptrace_scope)", self.sys_ptrace())
            }
            b"3" => ("hidden until the next boot (kernel.yama.ptrace_scope is 3)", ""),
            _ => return None,
        };
        Some((why.to_owned(), remedy.to_owned()))
    }
}

/// What a user's stalltop uses, by numbers of include/uapi/linux/capability.h.
const SETCAP: [(u32, &str); 6] = [
    (CAP_SYS_PTRACE, "cap_sys_ptrace"),
    // With it: the files of /proc/PID that only their owner may read.
    (CAP_DAC_READ_SEARCH, "cap_dac_read_search"),
    (CAP_NET_ADMIN, "cap_net_admin"),
    (CAP_SYS_NICE, "cap_sys_nice"),
    (CAP_BPF, "cap_bpf"),
    (CAP_PERFMON, "cap_perfmon"),
];

pub const OTHER_NETWORK: &str = "nsenter --net --target 1 stalltop, or start the container with --network=host";
pub const OTHER_CGROUPS: &str =
    "run on the host, or start the container with --cgroupns=host --volume=/sys/fs/cgroup:/sys/fs/cgroup:ro";

/// Whether this process sees the control groups below its own alone: it is in another cgroup namespace than PID 1, whose
/// groups are then above the root (cgroup_namespaces(7)).
pub fn in_own_cgroup_namespace(root: &Root) -> bool {
    let of_init = root.read_once("proc/1/cgroup").unwrap_or_default();
    of_init.split(|&byte| byte == b'\n').any(|line| line.windows(4).any(|part| part == b":/.."))
}

/// What to do against the security profile that confines this process (AppArmor, SELinux), if there is one: Docker's profile
/// denies reading other processes' system calls, whatever capabilities there are.
pub fn security_profile(root: &Root) -> Option<String> {
    let label = root.read_once("proc/self/attr/current").ok()?;
    let label = String::from_utf8_lossy(&label);
    let label = label.trim_matches(['\0', '\n', ' ']);
    let confined = !label.is_empty() && label != "unconfined" && !label.contains("unconfined_t");
    confined.then(|| {
        let option = if label.contains(':') { "label=disable" } else { "apparmor=unconfined" };
        format!("the security profile {} may deny it: start the container with --security-opt={option}", printable(label))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::app::program::privileges::MONITORING_CAPABILITIES;
    use crate::proc_tree::ProcTree;

    #[test]
    fn a_security_profile_is_named_with_its_option() {
        let of = |label| security_profile(&ProcTree::with([("proc/self/attr/current", label)]).root());
        assert_eq!([of("unconfined\n"), of("\0"), of("unconfined_u:unconfined_r:unconfined_t:s0")], [None, None, None]);
        assert!(of("docker-default (enforce)\n").unwrap().ends_with("--security-opt=apparmor=unconfined"));
        assert!(of("system_u:system_r:container_t:s0:c1,c2\0").unwrap().ends_with("--security-opt=label=disable"));
    }

    #[test]
    fn one_command_gives_all_capabilities_to_a_user_who_lacks_one() {
        let user = Remedies { is_root: false };
        let all = 1 << 2 | 1 << 12 | 1 << 19 | 1 << 23 | 1 << 38 | 1 << 39;
        let names = "cap_sys_ptrace,cap_dac_read_search,cap_net_admin,cap_sys_nice,cap_bpf,cap_perfmon";
        let line = |names: &str| format!("capabilities  sudo setcap {names}+ep \"$(command -v stalltop)\"\n");
        assert_eq!([0, all & !(1 << 23)].map(|held| user.capabilities_line(held, u64::MAX)), [line(names), line(names)]);
        assert_eq!([user.capabilities_line(all, all), Remedies { is_root: true }.capabilities_line(0, all)], ["", ""]);
        // Of a container: without CAP_SYS_PTRACE, CAP_BPF and CAP_PERFMON.
        let bounding_set = 1 << 2 | 1 << 12 | 1 << 23;
        let names = "cap_dac_read_search,cap_net_admin,cap_sys_nice";
        assert_eq!(user.capabilities_line(1 << 2, bounding_set), line(names));
        assert_eq!([user.capabilities_line(bounding_set, bounding_set), user.capabilities_line(0, 0)], ["", ""]);
    }

    #[test]
    fn a_user_gets_the_capabilities_for_monitoring_and_for_files_of_others() {
        const CAP_DAC_READ_SEARCH: u32 = 2;
        let given: BTreeSet<u32> = SETCAP.iter().map(|&(number, _)| number).collect();
        let used: BTreeSet<u32> = MONITORING_CAPABILITIES.into_iter().chain([CAP_DAC_READ_SEARCH]).collect();
        assert_eq!(given, used);
    }

    #[test]
    fn yama_hides_own_processes_and_at_3_all() {
        let of = |scope, has_cap| {
            let tree = ProcTree::with([("proc/sys/kernel/yama/ptrace_scope", scope)]);
            Remedies { is_root: has_cap }.tracing_obstacle(&tree.root(), has_cap)
        };
        assert_eq!([of("0\n", false), of("1\n", true), of("2\n", true)], [None, None, None]);
        assert!(of("1\n", false).is_some_and(|(why, remedy)| why.contains("own processes") && remedy == GIVE_CAPABILITIES));
        assert!(of("3\n", true).is_some_and(|(why, remedy)| why.contains("next boot") && remedy.is_empty()));
        assert_eq!(Remedies { is_root: false }.tracing_obstacle(&ProcTree::empty().root(), false), None);
    }

    #[test]
    fn a_cgroup_namespace_has_the_groups_of_pid_1_above_its_root() {
        let of = |text| in_own_cgroup_namespace(&ProcTree::with([("proc/1/cgroup", text)]).root());
        assert_eq!(["0::/../../../init.scope\n", "12:cpu:/../..\n0::/\n", "0::/init.scope\n"].map(of), [true, true, false]);
    }
}
