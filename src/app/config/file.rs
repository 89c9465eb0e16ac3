//! The places of configuration files, and reading them safely: a file that others may write to is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::CONFIG_VAR;
use super::parse::{ConfigError, ParsedConfig};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::cli::Configuration;

/// The system's file.
const SYSTEM_CONFIG: &str = "/etc/stalltop/config.toml";

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A file that may hold a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: PathBuf,
    /// It was named for this run, and must exist
    pub explicit: bool,
}

/// Why a file is not used.
#[derive(Debug)]
pub enum ReadError {
    /// Others may write to it
    UnsafePermissions(String),
    /// It is not a valid configuration
    Invalid(ConfigError),
    Io(io::Error),
}

impl ConfigFile {
    /// The file that the command line or the environment names.
    pub fn explicit_path(requested: &Configuration) -> Option<PathBuf> {
        let set = || std::env::var_os(CONFIG_VAR).filter(|path| !path.is_empty()).map(PathBuf::from);
        if requested.no_config { None } else { requested.config.clone().or_else(set) }
    }

    /// The files to read, the one with the lowest precedence first: the system's and the user's, or the one that is named.
    pub fn candidates(requested: &Configuration) -> Vec<ConfigFile> {
        if requested.no_config {
            return Vec::new();
        }
        if let Some(path) = ConfigFile::explicit_path(requested) {
            return vec![ConfigFile { path, explicit: true }];
        }
        let default = |path| ConfigFile { path, explicit: false };
        let system = std::iter::once(default(PathBuf::from(SYSTEM_CONFIG)));
        system.chain(user_config_path().map(default)).collect()
    }

    /// Its text, if it is safe to use; `None` if it does not exist.
    pub fn read_safely(&self) -> Result<Option<String>, ReadError> {
        self.read_text(nix::unistd::geteuid().as_raw())
    }

    /// Reads and parses it; `None` if it does not exist.
    pub fn read(&self) -> Result<Option<ParsedConfig>, ReadError> {
        let text = self.read_safely()?;
        text.map(|text| ParsedConfig::parse(&text).map_err(ReadError::Invalid)).transpose()
    }

    /// Whether the file exists; fails if it is not valid.
    pub fn validate(&self) -> Result<bool, Failure> {
        self.read().map(|parsed| parsed.is_some()).map_err(|error| error.into_failure(self))
    }

    /// Its text; `None` if it does not exist. Links are followed, because dotfiles are often links, and their target is checked.
    fn read_text(&self, effective_uid: u32) -> Result<Option<String>, ReadError> {
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&self.path) {
            // A dangling link exists.
            Err(error) if is_absent(&error) && !self.explicit && fs::symlink_metadata(&self.path).is_err() => return Ok(None),
            Err(error) => return Err(ReadError::Io(error)),
            Ok(file) => file,
        };
        check_permissions(&file, effective_uid)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(ReadError::Io)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(ReadError::Invalid(ConfigError::whole_file(too_large())));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let line =
                    1 + error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|&&byte| byte == b'\n').count();
                Err(ReadError::Invalid(ConfigError {
                    line: Some(line),
                    what: "this is not UTF-8".to_owned(),
                    remedy: String::new(),
                }))
            }
        }
    }
}

/// Checks the open file: its path may change meanwhile.
fn check_permissions(file: &File, effective_uid: u32) -> Result<(), ReadError> {
    let metadata = file.metadata().map_err(ReadError::Io)?;
    let mode = metadata.mode() & 0o7777;
    match metadata.uid() {
        _ if !metadata.is_file() => Err(ReadError::Invalid(ConfigError::whole_file("it is not a regular file".to_owned()))),
        uid if uid != effective_uid && uid != 0 => Err(ReadError::UnsafePermissions("it belongs to another user".to_owned())),
        _ if mode & 0o022 != 0 => Err(ReadError::UnsafePermissions(format!("others may write to it (mode {mode:04o})"))),
        _ if metadata.len() > MAX_BYTES => Err(ReadError::Invalid(ConfigError::whole_file(too_large()))),
        _ => Ok(()),
    }
}

fn too_large() -> String {
    format!("it is larger than {} MiB", MAX_BYTES >> 20)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// $XDG_CONFIG_HOME/stalltop/config.toml, or below ~/.config. As root, directories that do not belong to root are not used:
/// under sudo the variables may be those of the user.
pub fn user_config_path() -> Option<PathBuf> {
    let is_trusted = |path: &Path| !nix::unistd::geteuid().is_root() || is_owned_by_root(path);
    let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute() && is_trusted(path));
    let home =
        || etcetera::base_strategy::Xdg::new().ok().map(|xdg| xdg.home_dir().join(".config")).filter(|path| is_trusted(path));
    let directory = set.or_else(home).or_else(|| nix::unistd::geteuid().is_root().then(|| PathBuf::from("/root/.config")))?;
    Some(directory.join("stalltop").join("config.toml"))
}

/// Whether the path, or its nearest existing ancestor, belongs to root.
fn is_owned_by_root(path: &Path) -> bool {
    path.ancestors().find_map(|path| fs::metadata(path).ok()).is_some_and(|metadata| metadata.uid() == 0)
}

impl ReadError {
    /// An invalid or unsafe file is an error. A file that cannot be read is only a warning, unless it was named explicitly.
    pub fn is_fatal(&self, place: &ConfigFile) -> bool {
        place.explicit || !matches!(self, ReadError::Io(_))
    }

    /// The failure in one line.
    pub fn into_failure(self, place: &ConfigFile) -> Failure {
        let path = quoted(&place.path);
        match self {
            ReadError::UnsafePermissions(why) => {
                let remedy = format!("chmod go-w {path}, and chown it to this user or root");
                Failure::new(Exit::Refused, format!("refused the configuration {path}"), why, remedy)
            }
            ReadError::Io(error) => {
                let remedy = match error.kind() {
                    _ if !place.explicit => "make it readable, or give --no-config",
                    io::ErrorKind::NotFound => "give the name of a file that exists, or --no-config",
                    _ => "give a file that this user may read, or --no-config",
                };
                Failure::new(Exit::Failed, format!("cannot read the configuration {path}"), error, remedy)
            }
            ReadError::Invalid(ConfigError { line, what, remedy }) => {
                let at = line.map_or_else(String::new, |line| format!(" line {line}"));
                Failure::new(Exit::Usage, format!("invalid configuration {path}{at}"), what, remedy)
            }
        }
    }
}
