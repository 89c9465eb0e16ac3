//! Baselines as bytes (a section of a recording) and as one file in the state directory.
//!
//! The file is replaced whole: written aside, brought to the disk, renamed. One that cannot be understood is kept aside
//! as .bad and learned anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use super::{Baselines, Device, Key, Learned, SizeClass};
use crate::interval::disk::Operation;

/// A file of baselines.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

/// What was found in a store.
#[derive(Debug)]
pub struct Loaded {
    pub baselines: Baselines,
    /// Why the baselines start empty although there was a file: one line for the user
    pub notice: Option<String>,
}

/// Why bytes are no baselines.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    #[error("not a table of baselines: {0}")]
    Toml(String),
    #[error("written by a later version (format {0}, this one knows {FORMAT})")]
    Later(u32),
    #[error("too large ({0} bytes)")]
    TooLarge(u64),
}

/// The format that `Baselines::to_bytes` writes.
const FORMAT: u32 = 1;

/// No honest file comes near.
const LARGEST: u64 = 16 << 20;

impl Store {
    /// The one file: in $XDG_STATE_HOME/stalltop where that is set, else /var/lib/stalltop for root (whose home may be
    /// read-only or not mounted) and ~/.local/state/stalltop for everybody else. `None` where there is no home either.
    pub fn usual(effective_uid: u32) -> Option<Store> {
        let set = std::env::var_os("XDG_STATE_HOME").is_some_and(|path| Path::new(&path).is_absolute());
        let directory = if effective_uid == 0 && !set {
            PathBuf::from("/var/lib")
        } else {
            etcetera::base_strategy::Xdg::new().ok()?.state_dir()?
        };
        Some(Store::at(directory.join("stalltop").join("baselines.toml")))
    }

    /// A given file.
    pub fn at(path: PathBuf) -> Store {
        Store { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file holds. Never fails: no file is no baselines, a file that is none is kept aside, with a notice.
    pub fn load(&self) -> Loaded {
        let text = match read(&self.path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Loaded { baselines: Baselines::default(), notice: None },
            Err(error) => {
                let notice = format!("baselines in {}: {error}; starting without them", self.path.display());
                return Loaded { baselines: Baselines::default(), notice: Some(notice) };
            }
        };
        match Baselines::from_bytes(&text) {
            Ok(baselines) => Loaded { baselines, notice: None },
            Err(why) => {
                let aside = self.path.with_extension("toml.bad");
                let kept = match fs::rename(&self.path, &aside) {
                    Ok(()) => format!("kept as {}", aside.display()),
                    Err(error) => format!("and it cannot be put aside: {error}"),
                };
                let notice = format!("baselines in {}: {why}; {kept}, learning anew", self.path.display());
                Loaded { baselines: Baselines::default(), notice: Some(notice) }
            }
        }
    }

    /// Replace the file, with what another run has written meanwhile merged in.
    pub fn save(&self, baselines: &Baselines) -> io::Result<()> {
        let mut all = baselines.clone();
        if let Some(Ok(theirs)) = read(&self.path)?.map(|bytes| Baselines::from_bytes(&bytes)) {
            all.merge(&theirs);
        }
        self.replace(&all)
    }

    /// Replace the file with exactly these (after `forget`).
    pub fn replace(&self, baselines: &Baselines) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let aside = self.path.with_extension(format!("toml.{}", std::process::id()));
        let written = write(&aside, &baselines.to_bytes()).and_then(|()| fs::rename(&aside, &self.path));
        if written.is_err() {
            // It may not be there at all; the first error is the one to tell.
            let _ = fs::remove_file(&aside);
        }
        written?;
        File::open(directory)?.sync_all()
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(facts) if !facts.is_file() => Err(io::Error::other("not a regular file")),
        Ok(facts) if facts.len() > LARGEST => Ok(Some(Vec::new())),
        Ok(_) => fs::read(path).map(Some),
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[derive(Serialize, Deserialize)]
struct Table {
    #[serde(rename = "stalltop-baselines")]
    format: u32,
    #[serde(default, rename = "baseline")]
    baselines: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    device: Device,
    operation: Operation,
    size: SizeClass,
    #[serde(flatten)]
    learned: Learned,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "stalltop-baselines")]
    format: u32,
}

impl Baselines {
    /// As the store and a recording keep them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let rows = self.iter().map(|(key, learned)| Row {
            device: key.device.clone(),
            operation: key.operation,
            size: key.size,
            learned: learned.clone(),
        });
        let table = Table { format: FORMAT, baselines: rows.collect() };
        // Plain structs with string keys: there is nothing in them that TOML cannot say.
        toml::to_string(&table).unwrap_or_default().into_bytes()
    }

    /// From `to_bytes`, of this version or an older one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Baselines, Malformed> {
        if bytes.len() as u64 > LARGEST {
            return Err(Malformed::TooLarge(bytes.len() as u64));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| Malformed::Toml(error.to_string()))?;
        let toml = |error: toml::de::Error| Malformed::Toml(error.message().to_owned());
        let version: Version = toml::from_str(text).map_err(toml)?;
        if version.format > FORMAT {
            return Err(Malformed::Later(version.format));
        }
        let table: Table = toml::from_str(text).map_err(toml)?;
        let rows = table.baselines.into_iter();
        let known = rows.map(|row| (Key { device: row.device, operation: row.operation, size: row.size }, row.learned.sound()));
        Ok(Baselines { known: Arc::new(known.collect()) })
    }
}
