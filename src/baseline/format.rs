//! Encodes baselines as TOML, for the file in the state directory and for a section of a recording.

use serde::{Deserialize, Serialize};

use super::{BaselineKey, Baselines, DeviceIdentity, LearnedBaseline, SizeClass};
use crate::interval::disk::Operation;

/// Why bytes cannot be read as baselines.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum FormatError {
    #[error("not a table of baselines: {0}")]
    Toml(String),
    #[error("written by a later version (format {0}, this one knows {FORMAT})")]
    NewerVersion(u32),
    #[error("too large ({0} bytes)")]
    TooLarge(u64),
}

/// The format that `Baselines::to_bytes` writes.
const FORMAT: u32 = 1;

/// Far larger than any real file.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

#[derive(Serialize, Deserialize)]
struct BaselineTable {
    #[serde(rename = "stalltop-baselines")]
    format: u32,
    #[serde(default, rename = "baseline")]
    baselines: Vec<BaselineRow>,
}

#[derive(Serialize, Deserialize)]
struct BaselineRow {
    device: DeviceIdentity,
    operation: Operation,
    size: SizeClass,
    #[serde(flatten)]
    learned: LearnedBaseline,
}

#[derive(Deserialize)]
struct VersionHeader {
    #[serde(rename = "stalltop-baselines")]
    format: u32,
}

impl Baselines {
    /// Encodes the baselines in at most `MAX_FILE_BYTES`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_within(MAX_FILE_BYTES)
    }

    /// Machines with short-lived devices (containers, cloud volumes) learn ever more baselines: if there are too many, those with
    /// the oldest observations are left out.
    fn to_bytes_within(&self, most: u64) -> Vec<u8> {
        let mut kept = self.clone();
        loop {
            let bytes = kept.serialize_all();
            if bytes.len() as u64 <= most || !kept.forget_stalest() {
                return bytes;
            }
        }
    }

    fn serialize_all(&self) -> Vec<u8> {
        let rows = self.iter().map(|(key, learned)| BaselineRow {
            device: key.device.clone(),
            operation: key.operation,
            size: key.size,
            learned: learned.clone(),
        });
        let table = BaselineTable { format: FORMAT, baselines: rows.collect() };
        // Structs with string keys can always be written as TOML.
        toml::to_string(&table).unwrap_or_default().into_bytes()
    }

    /// From `to_bytes`, of this version or an older one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Baselines, FormatError> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(FormatError::TooLarge(bytes.len() as u64));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| FormatError::Toml(error.to_string()))?;
        let toml = |error: toml::de::Error| FormatError::Toml(error.message().to_owned());
        let version: VersionHeader = toml::from_str(text).map_err(toml)?;
        if version.format > FORMAT {
            return Err(FormatError::NewerVersion(version.format));
        }
        let table: BaselineTable = toml::from_str(text).map_err(toml)?;
        let rows = table.baselines.into_iter();
        let key = |row: &BaselineRow| BaselineKey { device: row.device.clone(), operation: row.operation, size: row.size };
        Ok(rows.map(|row| (key(&row), row.learned.sanitized())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Millis;

    #[test]
    fn of_too_many_baselines_the_latest_and_those_set_by_the_user_are_kept() {
        let key = |number: i64| BaselineKey {
            device: DeviceIdentity(format!("disk {number}").into()),
            operation: Operation::Read,
            size: SizeClass::Small,
        };
        let learned = |number: i64| {
            let mut learned = LearnedBaseline::default();
            learned.last_s = number;
            (key(number), learned)
        };
        let mut baselines: Baselines = (0..100).map(learned).collect();
        baselines.set(key(3), Millis(5.0));
        let whole = baselines.to_bytes();
        assert_eq!(Baselines::from_bytes(&whole).unwrap(), baselines, "all of it fits");
        let kept = Baselines::from_bytes(&baselines.to_bytes_within(whole.len() as u64 / 3)).unwrap();
        let devices: Vec<&str> = kept.iter().map(|(key, _)| &*key.device.0).collect();
        assert!(
            (10..34).contains(&devices.len()) && devices.contains(&"disk 3") && devices.contains(&"disk 99"),
            "{devices:?}"
        );
        let by_hand = Baselines::from_bytes(&baselines.to_bytes_within(1)).unwrap();
        assert_eq!(by_hand.iter().count(), 1, "a baseline set by the user is always kept");
    }
}
