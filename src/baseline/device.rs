//! Keys of baselines: the identity of a device across reboots and the size class of requests; and the default latency of a class
//! of devices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::units::Millis;

/// Identity of a device across reboots: model and serial (or WWID), otherwise the file of a loop device, the hardware path, or
/// the name. Names and paths are reused: with them the size distinguishes devices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceIdentity(pub Arc<str>);

impl DeviceIdentity {
    /// The identity of a disk, from its facts.
    pub fn from_disk(disk: &Disk) -> DeviceIdentity {
        let facts = &disk.facts;
        let model = facts.model.as_ref().map(trimmed_text).filter(|model| !model.is_empty());
        if let Some(serial) = facts.serial.as_ref().map(trimmed_text).filter(|serial| is_distinctive_serial(serial)) {
            return DeviceIdentity(model.map_or_else(|| serial.clone(), |model| format!("{model} {serial}")).into());
        }
        let mut words = match (&facts.backing_file, &facts.sysfs_path) {
            // With another file loop0 is another device.
            (Some(file), _) => format!("file:{}", trimmed_text(file)),
            (None, Some(path)) => format!("path:{}", trimmed_text(path)),
            (None, None) => format!("name:{}", trimmed_text(&disk.name)),
        };
        words.extend(model.map(|model| format!(" {model}")));
        words.extend(facts.size_bytes.map(|size| format!(" {}M", size >> 20)));
        DeviceIdentity(words.into())
    }
}

/// Whether a serial number identifies one device: some vendors use 0 or 000000000000 for all devices.
fn is_distinctive_serial(serial: &str) -> bool {
    let mut letters = serial.chars().filter(|letter| letter.is_alphanumeric());
    letters.next().is_some_and(|first| letters.any(|letter| letter != first))
}

/// Class of the mean request size of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SizeClass {
    #[serde(rename = "<=16K")]
    Small,
    #[serde(rename = "<=128K")]
    Medium,
    #[serde(rename = ">128K")]
    Large,
}

impl SizeClass {
    /// The class of a mean request size in KiB. A flush has no size: it is small.
    pub fn from_mean_kib(kib: Option<f64>) -> SizeClass {
        match kib.unwrap_or(0.0) {
            kib if kib <= 16.0 => SizeClass::Small,
            kib if kib <= 128.0 => SizeClass::Medium,
            _ => SizeClass::Large,
        }
    }

    pub const ALL: [SizeClass; 3] = [SizeClass::Small, SizeClass::Medium, SizeClass::Large];

    /// As in tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            SizeClass::Small => "<=16K",
            SizeClass::Medium => "<=128K",
            SizeClass::Large => ">128K",
        }
    }
}

/// Name prefixes of devices whose `rotational` does not describe the storage below them.
const VIRTUAL_PREFIXES: &[&str] = &["loop", "zram", "ram", "vd", "xvd", "nbd", "rbd", "drbd", "zd"];

/// Whether it is a device whose `rotational` does not describe the storage below it.
pub fn is_virtual(disk: &Disk) -> bool {
    VIRTUAL_PREFIXES.iter().any(|prefix| disk.name.as_bytes().starts_with(prefix.as_bytes()))
}

/// The latency of a healthy device of this class: rotational 8 ms, SSD 0.5 ms, NVMe 0.2 ms, virtual 1 ms.
pub fn class_default(disk: &Disk) -> Millis {
    let name = disk.name.as_bytes();
    if is_virtual(disk) {
        return Millis(1.0);
    }
    if name.starts_with(b"nvme") {
        return Millis(0.2);
    }
    match disk.facts.rotational {
        Some(true) => Millis(8.0),
        Some(false) => Millis(0.5),
        None => Millis(1.0),
    }
}

fn trimmed_text(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).trim().to_owned()
}
