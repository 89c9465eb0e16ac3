//! Baselines as bytes: TOML that a person can read, in the state directory and in a section of a recording.

use serde::{Deserialize, Serialize};

use super::{Baselines, Device, Key, Learned, SizeClass};
use crate::interval::disk::Operation;

/// Why bytes are no baselines.
#[derive(Debug, PartialEq, thiserror::Error)]
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
pub const LARGEST: u64 = 16 << 20;

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
        let key = |row: &Row| Key { device: row.device.clone(), operation: row.operation, size: row.size };
        Ok(rows.map(|row| (key(&row), row.learned.sound())).collect())
    }
}
