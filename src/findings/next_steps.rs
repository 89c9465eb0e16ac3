//! The next steps of a finding: those of its rule, with the names of its subject in their commands.

use std::borrow::Cow;

use super::finding::{Evidence, Kind, Subject, Value};
use super::formatting::lossy_name;
use super::rule::Rule;
use crate::ids::GroupId;
use crate::sample::Name;

/// The steps, of limits only those for the one that is reached, with PID, TID, IF, DEVICE, ADDRESS and DIRECTORY replaced where the subject says which, or evidence of the names in `EVIDENCE`.
pub fn next_steps(rule: &Rule, subject: &Subject, evidence: &[Evidence]) -> Vec<String> {
    let mut known = known_words(subject);
    for (word, name) in EVIDENCE {
        let is_known = known.iter().any(|(known, _)| *known == word);
        let value = evidence.iter().find(|evidence| evidence.name == name).map(|evidence| &evidence.value);
        if let (false, Some(Value::Number(number))) = (is_known, value) {
            known.push((word, format!("{number:.0}")));
        }
    }
    let limit = if rule.kind == Kind::LimitReached { limit_of(subject) } else { None };
    let is_wanted = |step: &&&str| limit.is_none_or(|limit| step.split(':').next() == Some(limit));
    rule.next_steps.iter().filter(is_wanted).map(|step| fill(step, &known)).collect()
}

/// Placeholders that evidence may replace, and its name.
const EVIDENCE: [(&str, &str); 2] = [("PID", "pid"), ("TID", "holder_tid")];

/// The first word of the steps for this limit; `None` if they are not known.
fn limit_of(subject: &Subject) -> Option<&'static str> {
    const SETTINGS: [(&str, &str); 6] = [
        ("local ports to ", "local ports"),
        ("net.netfilter.nf_conntrack_max", "connection tracking"),
        ("net.ipv4.neigh.", "neighbours"),
        ("net.ipv6.neigh.", "neighbours"),
        ("vm.overcommit_memory", "reserved memory"),
        ("net.ipv4.tcp_mem", "memory of TCP"),
    ];
    match subject {
        Subject::Cgroup(_) => Some("tasks of a cgroup"),
        Subject::Task { .. } => Some("descriptors"),
        Subject::Limit(_) if subject.mount_point().is_some() => Some("file systems"),
        Subject::Limit(name) => {
            let of_name = SETTINGS.iter().find(|(setting, _)| name.as_bytes().starts_with(setting.as_bytes()));
            of_name.map(|(_, limit)| *limit)
        }
        _ => None,
    }
}

/// Placeholders and what stands for them.
fn known_words(subject: &Subject) -> Vec<(&'static str, String)> {
    match subject {
        Subject::Task { id, .. } => vec![("PID", id.pid.to_string()), ("TID", id.tid.to_string())],
        Subject::Group { id: GroupId::Process(process), .. } => vec![("PID", process.pid.to_string())],
        Subject::Nic(nic) | Subject::NetworkNamespace { nic: Some(nic), .. } => vec![("IF", quoted_name(&nic.name))],
        Subject::Disk { name, .. } => vec![("DEVICE", quoted_name(name))],
        Subject::Limit(_) => {
            subject.mount_point().map(|path| ("DIRECTORY", quoted_name(&Name::from(path)))).into_iter().collect()
        }
        Subject::RemoteHost(address) => vec![("ADDRESS", quoted_name(address))],
        Subject::NetworkNamespace { nic: None, .. }
        | Subject::Host
        | Subject::Cpu(_)
        | Subject::Group { .. }
        | Subject::Cgroup(_)
        | Subject::Socket(_) => Vec::new(),
    }
}

/// A name as one word of a shell: users copy the steps, and an ordinary user may name an interface `;reboot`.
fn quoted_name(name: &Name) -> String {
    let name = lossy_name(name);
    // Only a NUL byte cannot be quoted, and no name has one.
    shlex::try_quote(&name).map_or_else(|_| "NAME".to_owned(), Cow::into_owned)
}

/// Replaces whole words.
fn fill(step: &str, known: &[(&'static str, String)]) -> String {
    let mut filled = step.to_owned();
    for (word, value) in known {
        let mut rest = filled.as_str();
        let mut done = String::new();
        while let Some(at) = rest.find(word) {
            let (before, from) = rest.split_at(at);
            let after = from.get(word.len()..).unwrap_or_default();
            let is_letter = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
            let whole = !is_letter(before.chars().next_back()) && !is_letter(after.chars().next());
            done.push_str(before);
            done.push_str(if whole { value } else { word });
            rest = after;
        }
        done.push_str(rest);
        filled = done;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::rules::RULES;
    use crate::ids::{CgroupId, CgroupVersion};

    #[test]
    fn whole_words_are_replaced() {
        let known = [("PID", "4711".to_owned())];
        assert_eq!(fill("strace -c -p PID, /proc/PID/timers", &known), "strace -c -p 4711, /proc/4711/timers");
        assert_eq!(fill("pidfd and TPID stay", &known), "pidfd and TPID stay");
    }

    #[test]
    fn a_name_stays_one_word_of_the_shell() {
        let subject = |name: &str| Subject::RemoteHost(name.into());
        let address = |name| known_words(&subject(name)).remove(0).1;
        assert_eq!(address("eth0.100"), "eth0.100");
        for name in [";reboot", "$(halt)", "`halt`", "a'b", "a|b", "-x y"] {
            assert_eq!(shlex::split(&address(name)), Some(vec![name.to_owned()]), "{name}");
        }
    }

    #[test]
    fn a_limit_has_its_own_steps() {
        let rule = RULES.iter().find(|rule| rule.kind == Kind::LimitReached).unwrap();
        let steps = |subject: Subject| next_steps(rule, &subject, &[]);
        let of_limit = |name: &str| steps(Subject::Limit(name.into()));
        let [full] = of_limit("space of /var/my data").try_into().unwrap();
        assert!(full.contains("du -xh --max-depth 1 '/var/my data';"), "{full}");
        for name in ["inodes of /", "local ports to 10.0.0.1:80", "net.netfilter.nf_conntrack_max", "vm.overcommit_memory"] {
            assert_eq!(of_limit(name).len(), 1, "{name}");
        }
        for name in ["net.ipv4.neigh.default.gc_thresh3", "net.ipv6.neigh.default.gc_thresh3", "net.ipv4.tcp_mem"] {
            assert_eq!(of_limit(name).len(), 1, "{name}");
        }
        assert_eq!(of_limit("kernel.threads-max").len(), rule.next_steps.len(), "which steps are its own is not known");
        let group = CgroupId { version: CgroupVersion::V2, path: "/batch".into() };
        assert!(steps(Subject::Cgroup(group)).concat().contains("pids.max"));
    }

    #[test]
    fn an_interface_is_named() {
        assert_eq!(fill("tc -s qdisc show dev IF: x", &[("IF", "labA".into())]), "tc -s qdisc show dev labA: x");
    }
}
