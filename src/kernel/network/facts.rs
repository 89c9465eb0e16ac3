//! Reads the facts of a network interface: index, speed, duplex, state, and whether it is hardware.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::ethtool::Ethtool;
use crate::kernel::fields::{lines, parse_single_line, parse_u32, parse_u64};
use crate::kernel::root::Root;
use crate::sample::network::{Duplex, NicFacts};
use crate::sample::{Absent, Reading};

/// Interfaces can be stacked (a VLAN on a bond on two cards), but not deeper, nor in a cycle.
const MAX_DEPTH: usize = 8;

/// ARPHRD_LOOPBACK in /sys/class/net/IF/type.
const ARPHRD_LOOPBACK: u32 = 772;

/// Reads the interface's index (0 where unknown) and its facts.
pub fn read(root: &Root, name: &[u8], ethtool: Option<&Ethtool>) -> (u32, NicFacts) {
    let directory = sysfs_directory(name);
    let in_sysfs = read_attribute(root, &directory, "ifindex").and_then(|bytes| parse_u32(&bytes));
    let index = if root.is_host() { nix::net::if_::if_nametoindex(OsStr::from_bytes(name)).ok() } else { in_sysfs };
    // In a container /sys may show the interfaces of another network namespace under the same names.
    let sysfs = (in_sysfs.is_some() && in_sysfs == index).then_some(directory.as_path());
    let loopback = match sysfs.and_then(|directory| read_attribute(root, directory, "type")) {
        Some(kind) => parse_u32(&kind) == Some(ARPHRD_LOOPBACK),
        None => name == b"lo",
    };
    let own = read_speed_and_duplex(root, name, sysfs, ethtool);
    let (speed_mbps, duplex) = match (own, sysfs) {
        ((Err(why), duplex), Some(_)) if !loopback => match single_physical_lower(root, name) {
            Some(below) => {
                let below_sysfs = self::sysfs_directory(&below);
                let (speed, below_duplex) = read_speed_and_duplex(root, &below, Some(&below_sysfs), ethtool);
                (speed.map_err(|_| why), duplex.or(below_duplex))
            }
            None => (Err(why), duplex),
        },
        (own, _) => own,
    };
    let facts = NicFacts {
        speed_mbps,
        duplex,
        up: sysfs.and_then(|directory| read_attribute(root, directory, "operstate")).and_then(|state| parse_operstate(&state)),
        loopback,
        virtual_device: sysfs.is_some_and(|directory| !is_physical(root, directory)),
    };
    (index.unwrap_or(0), facts)
}

/// The interface's directory in sysfs.
pub fn sysfs_directory(name: &[u8]) -> PathBuf {
    Path::new("sys/class/net").join(OsStr::from_bytes(name))
}

/// Speed and duplex of the interface itself, not of one below it.
fn read_speed_and_duplex(
    root: &Root,
    name: &[u8],
    sysfs: Option<&Path>,
    ethtool: Option<&Ethtool>,
) -> (Reading<u32>, Reading<Duplex>) {
    let settings = ethtool.map(|ethtool| ethtool.link_settings(name));
    let (mut speed, mut duplex) = match settings {
        Some(Ok((speed, duplex))) => (valid_speed(u64::from(speed)), duplex.ok_or(Absent::Unsupported)),
        Some(Err(why)) => (Err(why), Err(why)),
        None => (Err(Absent::NoSuchFile), Err(Absent::NoSuchFile)),
    };
    let Some(directory) = sysfs else { return (speed, duplex) };
    if speed.is_err() {
        // EINVAL: the driver reports no speed, or the interface is down.
        speed = match root.read_once(directory.join("speed")) {
            Ok(bytes) => lines(&bytes).next().and_then(parse_u64).map_or(Err(Absent::Unsupported), valid_speed),
            Err(Absent::Os(_)) => Err(Absent::Unsupported),
            Err(why) => Err(why),
        };
    }
    if duplex.is_err() {
        duplex = match read_attribute(root, directory, "duplex").as_deref() {
            Some(b"full") => Ok(Duplex::Full),
            Some(b"half") => Ok(Duplex::Half),
            Some(_) => Err(Absent::Unsupported),
            None => Err(Absent::NoSuchFile),
        };
    }
    (speed, duplex)
}

/// `None` for 0, 65535 and -1 (in 16 and 32 bits), with which drivers report an unknown speed.
pub(super) fn valid_speed(megabits: u64) -> Reading<u32> {
    match u32::try_from(megabits) {
        Ok(0 | 65535 | u32::MAX) | Err(_) => Err(Absent::Unsupported),
        Ok(speed) => Ok(speed),
    }
}

/// Parses operstate. `unknown`, of drivers without carrier detection (tun, loopback), is neither up nor down.
fn parse_operstate(operstate: &[u8]) -> Option<bool> {
    match operstate {
        b"up" => Some(true),
        b"unknown" => None,
        _ => Some(false),
    }
}

/// Whether the interface has a device: hardware and paravirtual ones.
fn is_physical(root: &Root, directory: &Path) -> bool {
    root.exists(directory.join("device"))
}

/// The only hardware interface below a bond, bridge, VLAN or macvlan; `None` where there are none or several.
fn single_physical_lower(root: &Root, name: &[u8]) -> Option<Vec<u8>> {
    let mut physical = BTreeSet::new();
    collect_physical_lower(root, name, MAX_DEPTH, &mut physical);
    let only = physical.pop_first()?;
    physical.is_empty().then_some(only)
}

fn collect_physical_lower(root: &Root, name: &[u8], depth: usize, physical: &mut BTreeSet<Vec<u8>>) {
    let Some(deeper) = depth.checked_sub(1) else { return };
    for below in lower_interfaces(root, name) {
        if is_physical(root, &sysfs_directory(&below)) {
            physical.insert(below);
        } else {
            collect_physical_lower(root, &below, deeper, physical);
        }
    }
}

/// The interfaces directly below: links `lower_IF` since Linux 3.19, before that only of bridges and bonds.
fn lower_interfaces(root: &Root, name: &[u8]) -> Vec<Vec<u8>> {
    let directory = sysfs_directory(name);
    let entries = root.list_directory(&directory).unwrap_or_default();
    let mut below: Vec<Vec<u8>> =
        entries.iter().filter_map(|entry| entry.as_bytes().strip_prefix(b"lower_").map(<[u8]>::to_vec)).collect();
    if below.is_empty() {
        below.extend(root.list_directory(directory.join("brif")).unwrap_or_default().into_iter().map(OsStringExt::into_vec));
    }
    if below.is_empty() {
        let slaves = root.read_once(directory.join("bonding/slaves")).unwrap_or_default();
        below.extend(slaves.split(u8::is_ascii_whitespace).filter(|slave| !slave.is_empty()).map(<[u8]>::to_vec));
    }
    // A name must be a single path component.
    below.retain(|name| !name.contains(&b'/') && name != b"." && name != b"..");
    below
}

fn read_attribute(root: &Root, directory: &Path, name: &str) -> Option<Vec<u8>> {
    let bytes = root.read_once(directory.join(name)).ok()?;
    Some(parse_single_line(&bytes)?.as_bytes().to_vec())
}
