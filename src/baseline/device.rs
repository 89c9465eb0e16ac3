//! By what a device and the size of its requests are known, and what its class can do before anything was learned.

use serde::{Deserialize, Serialize};

use crate::interval::disk::OpSpan;
use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::units::Millis;

/// What a device stays known by over reboots: model and serial, else the file behind it, else its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Device(pub String);

impl Device {
    pub fn of(disk: &Disk) -> Device {
        let facts = &disk.facts;
        let model = facts.model.as_ref().map(text).filter(|model| !model.is_empty());
        match (&facts.serial, &facts.backing_file) {
            (Some(serial), _) if !serial.as_bytes().is_empty() => match model {
                Some(model) => Device(format!("{model} {}", text(serial))),
                None => Device(text(serial)),
            },
            // loop0 is another device with each file.
            (_, Some(file)) => Device(format!("file:{}", text(file))),
            _ => match model {
                Some(model) => Device(format!("name:{} {model}", text(&disk.name))),
                None => Device(format!("name:{}", text(&disk.name))),
            },
        }
    }
}

/// Mean size of the requests of an interval.
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
    /// A flush has no size: it is small.
    pub fn of(op: &OpSpan) -> SizeClass {
        match op.request_kib.unwrap_or(0.0) {
            kib if kib <= 16.0 => SizeClass::Small,
            kib if kib <= 128.0 => SizeClass::Medium,
            _ => SizeClass::Large,
        }
    }

    /// As a table and a command line say it.
    pub fn word(self) -> &'static str {
        match self {
            SizeClass::Small => "<=16K",
            SizeClass::Medium => "<=128K",
            SizeClass::Large => ">128K",
        }
    }
}

/// Devices whose `rotational` says nothing of what is below them.
const VIRTUAL: &[&str] = &["loop", "zram", "ram", "vd", "xvd", "nbd", "rbd", "drbd", "zd"];

/// What a device of this class does when it is well: rotational 8 ms, SSD 0.5 ms, NVMe 0.2 ms, virtual 1 ms.
pub fn class_default(disk: &Disk) -> Millis {
    let name = disk.name.as_bytes();
    if VIRTUAL.iter().any(|prefix| name.starts_with(prefix.as_bytes())) {
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

fn text(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).trim().to_owned()
}
