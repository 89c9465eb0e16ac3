//! Identities of tasks, devices, interfaces and groups across samples. The kernel reuses pids and device names: none of them
//! alone is an identity.

pub mod cpu_list;

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A thread: (pid, tid, start time), so that a reused tid is another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// Thread group id: what users call the PID.
    pub pid: u32,
    pub tid: u32,
    /// Clock ticks after boot; /proc/PID/task/TID/stat field 22.
    pub start_ticks: u64,
}

/// A process: (pid, start time of its leader).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Clock ticks after boot; /proc/PID/stat field 22.
    pub start_ticks: u64,
}

/// Number of a CPU: the N of cpuN in /proc/stat. Offline CPUs leave gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CpuId(pub u32);

/// A block device: major:minor. Its name may move to another device; see also `DiskFacts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskId {
    pub major: u32,
    pub minor: u32,
}

/// A network interface: its index and its name, since the kernel reuses each of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NicId {
    /// /sys/class/net/IF/ifindex; 0 where it cannot be read.
    pub ifindex: u32,
    pub name: Name,
}

/// A control group: its hierarchy and its path below the mount point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CgroupId {
    pub version: CgroupVersion,
    /// As in /proc/PID/cgroup, with its leading `/`.
    pub path: Name,
}

impl CgroupId {
    /// The path of the group and of each above it, the shortest first.
    pub fn path_with_ancestors(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.path.as_bytes();
        let root = whole.get(..1).filter(|first| *first == b"/" && whole.len() > 1);
        let cuts = whole.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        root.into_iter().chain(cuts.filter_map(|at| whole.get(..at))).chain([whole])
    }
}

/// Which cgroup interface a group was read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupVersion {
    V1,
    V2,
}

/// A group of threads that work together: those of one process, or of sibling processes that run the
/// same executable under one parent (a server that forks per connection).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GroupId {
    Process(ProcessId),
    Siblings { parent: u32, executable: Name },
}

impl GroupId {
    /// The parent of siblings.
    pub fn parent(&self) -> Option<u32> {
        match self {
            GroupId::Process(_) => None,
            GroupId::Siblings { parent, .. } => Some(*parent),
        }
    }
}

/// Characters that must not reach a terminal: control characters (C0, DEL, C1), line separators, bidirectional controls,
/// and characters of width 0 that could hide in a name.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with each unprintable character escaped, as `\n` or `\u{1b}`.
pub fn escape_unprintable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unprintable(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// A name from the kernel or a user, as raw bytes; it is escaped when it is shown. Cloning shares the allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// As text; bytes that are no UTF-8 become U+FFFD.
    pub fn to_string_lossy(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether both share one allocation (then they are equal).
    pub fn ptr_eq(&self, other: &Name) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Lets a set of names be searched by bytes.
impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Name {
        Name(Arc::from(bytes))
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(Arc::from(text.as_bytes()))
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::from("")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
