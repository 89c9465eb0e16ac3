//! `baseline`: shows, sets and forgets the learned latencies of disks; `learn` measures them.

mod learn;

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio;
use crate::baseline::store::{BaselineStore, StoreError};
use crate::baseline::{BaselineKey, Baselines, DeviceIdentity, SizeClass, effective_baseline};
use crate::cli::Configuration;
use crate::cli::baseline::{Baseline, Forget, Op, Set, Show, Size};
use crate::ids::DiskId;
use crate::interval::disk::Operation;
use crate::kernel::disk::{DiskReader, find_device};
use crate::kernel::{self, Root};
use crate::report::baselines::{BaselineRow, json, table};
use crate::report::formatting::{pluralize, printable};
use crate::sample::disk::Disk;
use crate::units::format;

pub fn baseline(root: Root, configuration: &Configuration, command: &Baseline) -> Result<Exit, Failure> {
    let file = BaselineFile::open(root)?;
    match command {
        Baseline::Show(show) => file.show(show, configuration),
        Baseline::Set(set) => file.set(set),
        Baseline::Forget(forget) => file.forget(forget),
        Baseline::Learn(learn) => learn::learn(&file, &learn.device),
    }
}

/// The baseline file, and the disks of this machine.
pub struct BaselineFile {
    pub root: Root,
    pub store: BaselineStore,
    disks: Vec<Disk>,
}

impl BaselineFile {
    fn open(root: Root) -> Result<BaselineFile, Failure> {
        let store = BaselineStore::at_default_path(nix::unistd::geteuid().as_raw()).ok_or_else(|| {
            Failure::new(Exit::Failed, "cannot store baselines", "there is no home directory", "set XDG_STATE_HOME")
        })?;
        let disks = DiskReader::default().sample(&root).unwrap_or_default();
        Ok(BaselineFile { root, store, disks })
    }

    pub fn load(&self) -> Result<Baselines, Failure> {
        self.store.read().map_err(|error| {
            let remedy = match error {
                StoreError::Malformed(_) => "the next run renames it to .bad and learns again",
                StoreError::Io(_) => "run as its owner, or set XDG_STATE_HOME",
            };
            Failure::new(Exit::Failed, format!("cannot read {}", self.store.path().display()), error, remedy)
        })
    }

    pub fn update<T>(&self, change: impl FnOnce(&mut Baselines) -> T) -> Result<T, Failure> {
        self.store.update(change).map_err(|error| {
            let exit = if error.kind() == io::ErrorKind::PermissionDenied { Exit::Refused } else { Exit::Failed };
            Failure::new(exit, format!("cannot write {}", self.store.path().display()), error, "set XDG_STATE_HOME")
        })
    }

    fn show(&self, show: &Show, configuration: &Configuration) -> Result<Exit, Failure> {
        let mut known = self.load()?;
        Settings::load_and_warn(&self.root, configuration)?.rule_config().apply_baseline_overrides(&self.disks, &mut known);
        let only = show.device.as_deref().map(|name| self.find_device(name, &known)).transpose()?;
        let now_s = kernel::now().realtime_ns.div_euclid(1_000_000_000);
        let rows =
            known.iter().filter(|(key, _)| only.as_ref().is_none_or(|only| key.device == only.0)).map(|(key, learned)| {
                let present = self.disks.iter().find(|disk| DeviceIdentity::from_disk(disk) == key.device);
                let name = present.map(|disk| String::from_utf8_lossy(disk.name.as_bytes()).into_owned());
                let effective = match present {
                    Some(disk) => Some(effective_baseline(Some(learned), disk)),
                    None => learned.latency().map(|baseline| (baseline, false)),
                };
                BaselineRow { device_name: name, key, learned, effective }
            });
        let rows: Vec<BaselineRow> = rows.collect();
        match (show.json, rows.is_empty()) {
            (true, _) => stdio::print(&json(&rows, now_s)),
            (false, true) => {
                stdio::print_localized(&format!("no baselines yet: {}\n", printable(&self.store.path().to_string_lossy())))
            }
            (false, false) => stdio::print_localized(&table(&rows, now_s)),
        }?;
        Ok(Exit::Success)
    }

    fn set(&self, set: &Set) -> Result<Exit, Failure> {
        let (device, name) = self.find_device(&set.device, &self.load()?)?;
        let operation = match set.operation {
            Op::Read => Operation::Read,
            Op::Write => Operation::Write,
            Op::Flush => Operation::Flush,
            Op::Discard => Operation::Discard,
        };
        let sizes: &[SizeClass] = match set.size {
            // A flush has no size.
            _ if operation == Operation::Flush => &[SizeClass::Small],
            None => &SizeClass::ALL,
            Some(Size::Small) => &[SizeClass::Small],
            Some(Size::Medium) => &[SizeClass::Medium],
            Some(Size::Large) => &[SizeClass::Large],
        };
        self.update(|baselines| {
            for &size in sizes {
                baselines.set(BaselineKey { device: device.clone(), operation, size }, set.value);
            }
        })?;
        let sized = match sizes {
            [size] if operation != Operation::Flush => format!(" of {}", size.as_str()),
            _ => String::new(),
        };
        let text = format!(
            "{}: {}{sized} are set to {}; running stalltops use it within a few seconds\n",
            printable(&name),
            operation.plural(),
            format::latency(set.value)
        );
        stdio::print_localized(&text).map(|_| Exit::Success)
    }

    fn forget(&self, forget: &Forget) -> Result<Exit, Failure> {
        let (gone, what) = match &forget.device {
            None => (self.update(|baselines| std::mem::take(baselines).iter().count())?, "all devices".to_owned()),
            Some(name) => {
                let (device, name) = self.find_device(name, &self.load()?)?;
                (self.update(|baselines| baselines.forget(&device))?, name)
            }
        };
        let (gone, are) = (pluralize(gone as u64, "baseline"), format::singular_or_plural(gone, "is", "are"));
        stdio::print_localized(&format!("{gone} of {} {are} forgotten\n", printable(&what))).map(|_| Exit::Success)
    }

    /// The identity of the device and its name for messages. `named`: a name, a path, an identity as shown, or the last name of
    /// a device that is not present.
    fn find_device(&self, named: &str, known: &Baselines) -> Result<(DeviceIdentity, String), Failure> {
        if let Some(disk) = self.find_disk(named) {
            return Ok((DeviceIdentity::from_disk(&disk), String::from_utf8_lossy(disk.name.as_bytes()).into_owned()));
        }
        let mut matches: Vec<&DeviceIdentity> =
            known.iter().filter(|(key, _)| &*key.device.0 == named).map(|(key, _)| &key.device).collect();
        if matches.is_empty() {
            let last_named = known.iter().filter(|(_, learned)| learned.name.as_deref() == Some(named));
            matches.extend(last_named.map(|(key, _)| &key.device));
        }
        matches.dedup();
        match matches.as_slice() {
            [device] => Ok(((*device).clone(), device.0.to_string())),
            [] => {
                let why = "it is not a block device of this machine, and it has no baselines";
                Err(Failure::new(
                    Exit::Failed,
                    format!("cannot find '{named}'"),
                    why,
                    "stalltop baseline show lists the known devices",
                ))
            }
            several => {
                let why = format!("{} devices had this name", several.len());
                Err(Failure::new(
                    Exit::Failed,
                    format!("'{named}' is ambiguous"),
                    why,
                    "give the identity that stalltop baseline show prints",
                ))
            }
        }
    }

    /// A present device by its name or path; for a partition, its disk.
    pub fn find_disk(&self, named: &str) -> Option<Disk> {
        let name = named.strip_prefix("/dev/").unwrap_or(named);
        if let Some(disk) = self.disks.iter().find(|disk| disk.name.as_bytes() == name.as_bytes()) {
            return Some(disk.clone());
        }
        let id = block_device_id(&device_path(named)).ok()?;
        let is_it = |disk: &&Disk| disk.id == id || disk.facts.partitions.contains(&id);
        self.disks.iter().find(is_it).cloned().or_else(|| find_device(&self.root, id).ok()?)
    }
}

/// The device node of a name without a directory.
pub fn device_path(named: &str) -> PathBuf {
    if named.contains('/') { PathBuf::from(named) } else { Path::new("/dev").join(named) }
}

/// The number of the block device at a path.
pub fn block_device_id(path: &Path) -> io::Result<DiskId> {
    let facts = fs::metadata(path)?;
    if !facts.file_type().is_block_device() {
        return Err(io::Error::other("it is not a block device"));
    }
    Ok(DiskId { major: libc::major(facts.rdev()), minor: libc::minor(facts.rdev()) })
}
