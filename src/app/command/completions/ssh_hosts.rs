//! The hosts that ssh knows by name: of ssh_config(5) with the files that it includes, and of known_hosts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that are read at most; one that includes itself is among them.
const MAX_FILES: usize = 64;

#[derive(Debug, Default)]
pub struct SshHosts {
    names: BTreeSet<String>,
    /// Those of known_hosts that were reached at another port than 22: `[host]:port`
    with_port: BTreeSet<(String, u16)>,
}

impl SshHosts {
    pub fn for_user() -> SshHosts {
        let user = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ssh"));
        let mut hosts = SshHosts::default();
        for (directory, config, known) in
            [(user, "config", "known_hosts"), (Some("/etc/ssh".into()), "ssh_config", "ssh_known_hosts")]
        {
            let Some(directory) = directory else { continue };
            let mut files_left = MAX_FILES;
            hosts.read_config(&directory, &directory.join(config), &mut files_left);
            hosts.read_known_hosts(&fs::read_to_string(directory.join(known)).unwrap_or_default());
        }
        hosts
    }

    /// The hosts, with the user if one is typed (`admin@`). `has_urls`: also as `ssh://host:port`, as ssh takes a host with its port.
    pub fn completing(&self, typed: &str, has_urls: bool) -> Vec<String> {
        let (scheme, rest) = typed.split_at(if typed.starts_with(URL) { URL.len() } else { 0 });
        let user = rest.rfind('@').and_then(|at| rest.get(..=at)).unwrap_or_default();
        let names = self.names.iter().filter(|_| scheme.is_empty()).map(|name| format!("{user}{name}"));
        let ports = self.with_port.iter().filter(|_| has_urls && (user.is_empty() || !scheme.is_empty()));
        names.chain(ports.map(|(host, port)| format!("{URL}{user}{host}:{port}"))).collect()
    }

    fn read_config(&mut self, directory: &Path, file: &Path, files_left: &mut usize) {
        let Some(left) = files_left.checked_sub(1) else { return };
        *files_left = left;
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            let Some((word, values)) = line.trim().split_once([' ', '\t', '=']) else { continue };
            let values = values.trim_start_matches([' ', '\t', '=']).split_whitespace().map(|value| value.trim_matches('"'));
            if word.eq_ignore_ascii_case("host") {
                self.names.extend(values.take_while(|name| !name.starts_with('#')).filter(is_name).map(str::to_owned));
            } else if word.eq_ignore_ascii_case("include") {
                for path in values.flat_map(|pattern| matching_files(directory, pattern)) {
                    self.read_config(directory, &path, files_left);
                }
            }
        }
    }

    fn read_known_hosts(&mut self, text: &str) {
        // Marked lines begin with @.
        let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with(['@', '#']));
        for name in lines.filter_map(|line| line.split_whitespace().next()).flat_map(|names| names.split(',')) {
            let with_port = name.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
            match with_port.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
                // A URL would need the brackets again around an address of IPv6.
                Some((host, port)) if is_name(&host) && !host.contains(':') => {
                    self.with_port.insert((host.to_owned(), port));
                }
                Some(_) => {}
                None if is_name(&name) => {
                    self.names.insert(name.to_owned());
                }
                None => {}
            }
        }
    }
}

const URL: &str = "ssh://";

/// Neither a pattern, nor hashed, which begins with |.
fn is_name(name: &&str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(['*', '?', '!', '|', '@', '[', '#'])
}

/// The files of an Include: `~/` or below the directory of the configuration; `*` and `?` in the last part.
fn matching_files(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = match pattern.strip_prefix("~/") {
        Some(below) => std::env::home_dir().unwrap_or_default().join(below),
        None => directory.join(pattern),
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    if !name.contains(['*', '?']) {
        return vec![path];
    }
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|file| matches_pattern(name.as_bytes(), file.as_bytes())))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// As glob(7), with `*` and `?` alone; a leading dot is matched by a dot only.
fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skipped| name.get(skipped..).is_some_and(|name| matches(rest, name))),
            Some((b'?', rest)) => name.split_first().is_some_and(|(_, name)| matches(rest, name)),
            Some((letter, rest)) => name.split_first().is_some_and(|(first, name)| first == letter && matches(rest, name)),
        }
    }
    (name.first() != Some(&b'.') || pattern.first() == Some(&b'.')) && matches(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_included_files_are_known_and_patterns_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("config.d")).unwrap();
        fs::write(path("config"), "Include config.d/*.conf other\nHost=db1 \"db2\" *.example.org !x # db3\nHostName db4\n")
            .unwrap();
        fs::write(path("config.d/a.conf"), "host web1\n  Include ../config.d/a.conf\n").unwrap();
        fs::write(path("config.d/b.bak"), "Host old\n").unwrap();
        fs::write(path("other"), "HOST\tother1\n").unwrap();
        let (mut hosts, mut files_left) = (SshHosts::default(), MAX_FILES);
        hosts.read_config(directory.path(), &path("config"), &mut files_left);
        assert_eq!(hosts.completing("", true), ["db1", "db2", "other1", "web1"]);
        assert_eq!(hosts.completing("admin@d", false).first().map(String::as_str), Some("admin@db1"));
    }

    #[test]
    fn known_hosts_have_ports_and_hashes() {
        let mut hosts = SshHosts::default();
        hosts.read_known_hosts(
            "web1,192.0.2.1 ssh-ed25519 AAAA\n|1|a|b ssh-rsa A\n[gate]:2222,[::1]:22 ssh-rsa A\n@revoked r1 A\n",
        );
        assert_eq!(hosts.completing("", false), ["192.0.2.1", "web1"]);
        assert_eq!(hosts.completing("", true), ["192.0.2.1", "web1", "ssh://gate:2222"]);
        assert_eq!(hosts.completing("ssh://me@", true), ["ssh://me@gate:2222"]);
    }
}
