//! Where configurations are, and reading them without being led astray: what others may write is not believed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::CONFIG_VAR;
use super::parse::{ConfigError, ParsedConfig};
use crate::app::program::exit::{Exit, Failure};
use crate::cli::Configuration;

/// The system's file.
const SYSTEM_CONFIG: &str = "/etc/stalltop/config.toml";

/// No configuration that a person wrote is larger.
const MAX_BYTES: u64 = 1 << 20;

/// A file that may hold a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: PathBuf,
    /// It was named for this run, and has to be there
    pub explicit: bool,
}

/// Why a configuration is not used.
#[derive(Debug)]
pub enum ReadError {
    /// Others may write it
    UnsafePermissions(String),
    /// It is no configuration
    Invalid(ConfigError),
    Io(io::Error),
}

impl ConfigFile {
    /// The one that the command line, else the environment names.
    pub fn explicit_path(asked: &Configuration) -> Option<PathBuf> {
        let set = || std::env::var_os(CONFIG_VAR).filter(|path| !path.is_empty()).map(PathBuf::from);
        if asked.no_config { None } else { asked.config.clone().or_else(set) }
    }

    /// Those that count, the weaker first: the system's and the user's, or the one that is named instead.
    pub fn candidates(asked: &Configuration) -> Vec<ConfigFile> {
        if asked.no_config {
            return Vec::new();
        }
        if let Some(path) = ConfigFile::explicit_path(asked) {
            return vec![ConfigFile { path, explicit: true }];
        }
        let usual = |path| ConfigFile { path, explicit: false };
        let system = std::iter::once(usual(PathBuf::from(SYSTEM_CONFIG)));
        system.chain(user_config_path().map(usual)).collect()
    }

    /// What it says; `None` where there is no file.
    pub fn read(&self) -> Result<Option<ParsedConfig>, ReadError> {
        let text = self.read_text(nix::unistd::geteuid().as_raw())?;
        text.map(|text| ParsedConfig::parse(&text).map_err(ReadError::Invalid)).transpose()
    }

    /// Whether there is one, and it is sound.
    pub fn validate(&self) -> Result<bool, Failure> {
        self.read().map(|said| said.is_some()).map_err(|trouble| trouble.into_failure(self))
    }

    /// Its text; `None` where there is no file. Links are followed (dotfiles are often kept elsewhere), and what they lead
    /// to is looked at.
    fn read_text(&self, effective_uid: u32) -> Result<Option<String>, ReadError> {
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&self.path) {
            // A link that leads nowhere is there.
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

/// By the open file: what its name leads to may change meanwhile.
fn check_permissions(file: &File, effective_uid: u32) -> Result<(), ReadError> {
    let facts = file.metadata().map_err(ReadError::Io)?;
    let mode = facts.mode() & 0o7777;
    match facts.uid() {
        _ if !facts.is_file() => Err(ReadError::Invalid(ConfigError::whole_file("it is no regular file".to_owned()))),
        uid if uid != effective_uid && uid != 0 => Err(ReadError::UnsafePermissions("it belongs to another user".to_owned())),
        _ if mode & 0o022 != 0 => Err(ReadError::UnsafePermissions(format!("others may write it (mode {mode:04o})"))),
        _ if facts.len() > MAX_BYTES => Err(ReadError::Invalid(ConfigError::whole_file(too_large()))),
        _ => Ok(()),
    }
}

fn too_large() -> String {
    format!("it is larger than {} MiB", MAX_BYTES >> 20)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// $XDG_CONFIG_HOME/stalltop/config.toml, else below ~/.config. Root does not take a variable's word for a place that is not
/// root's: under sudo it may be that of the user behind it.
fn user_config_path() -> Option<PathBuf> {
    let ours = |path: &Path| !nix::unistd::geteuid().is_root() || is_owned_by_root(path);
    let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute() && ours(path));
    let home = || etcetera::base_strategy::Xdg::new().ok().map(|xdg| xdg.home_dir().join(".config")).filter(|path| ours(path));
    let directory = set.or_else(home).or_else(|| nix::unistd::geteuid().is_root().then(|| PathBuf::from("/root/.config")))?;
    Some(directory.join("stalltop").join("config.toml"))
}

/// Whether a place, or the directory in which it would be made, is root's.
fn is_owned_by_root(path: &Path) -> bool {
    path.ancestors().find_map(|path| fs::metadata(path).ok()).is_some_and(|facts| facts.uid() == 0)
}

impl ReadError {
    /// What somebody wrote down wrongly, or others may have written, is an error. What this machine cannot read now is no
    /// reason to show nothing of it, unless it was asked for by name.
    pub fn is_fatal(&self, place: &ConfigFile) -> bool {
        place.explicit || !matches!(self, ReadError::Io(_))
    }

    /// In one line.
    pub fn into_failure(self, place: &ConfigFile) -> Failure {
        let path = place.path.display();
        match self {
            ReadError::UnsafePermissions(why) => {
                let remedy = format!("chmod go-w {path}, and make it yours or root's");
                Failure::new(Exit::Refused, format!("refused the configuration {path}"), why, remedy)
            }
            ReadError::Io(error) => Failure::new(Exit::Failed, format!("cannot read the configuration {path}"), error, ""),
            ReadError::Invalid(ConfigError { line, what, remedy }) => {
                let at = line.map_or_else(String::new, |line| format!(" line {line}"));
                Failure::new(Exit::Usage, format!("wrong configuration {path}{at}"), what, remedy)
            }
        }
    }
}
