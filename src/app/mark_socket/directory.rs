//! The directories of the sockets, by the environment and the user.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// The directory below a runtime directory.
const SUBDIRECTORY: &str = "stalltop";

/// The directories of assets/stalltop-record.service and stalltop-armed.service.
const SERVICE_DIRECTORIES: [&str; 2] = ["/run/stalltop/stalltop", "/run/stalltop-armed/stalltop"];

/// The directories in which sockets of this user may be, the preferred one first: below the runtime directory, or below /tmp.
/// A runtime directory that the environment names is the only one.
pub fn candidates() -> Vec<PathBuf> {
    let uid = geteuid().as_raw();
    if let Some(custom) = custom_runtime_directory(runtime_directories_from_env(), uid) {
        return vec![custom.join(SUBDIRECTORY)];
    }
    let below_tmp = PathBuf::from(format!("/tmp/{SUBDIRECTORY}-{uid}"));
    Some(default_runtime_directory(uid))
        .filter(|base| is_directory_owned_by(base, uid))
        .map(|base| base.join(SUBDIRECTORY))
        .into_iter()
        .chain([below_tmp])
        .collect()
}

/// For root, the directories of the recorder services. With `sudo -E` the environment may name another user's runtime directory.
pub fn of_services() -> &'static [&'static str] {
    let uid = geteuid();
    let is_default = || custom_runtime_directory(runtime_directories_from_env(), uid.as_raw()).is_none();
    if uid.is_root() && is_default() { &SERVICE_DIRECTORIES } else { &[] }
}

/// The directory of this process's socket. It is created if it is missing, and refused if others may enter it.
pub fn create() -> io::Result<PathBuf> {
    let directory = candidates().into_iter().next().ok_or(io::ErrorKind::NotFound)?;
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_private(&directory)?;
    Ok(directory)
}

/// Fails unless the directory belongs to this user and only this user may enter it.
pub fn check_private(directory: &Path) -> io::Result<()> {
    check_private_to(directory, geteuid().as_raw())
}

fn check_private_to(directory: &Path, uid: u32) -> io::Result<()> {
    let metadata = directory.symlink_metadata()?;
    let private = metadata.is_dir() && metadata.uid() == uid && metadata.mode() & 0o077 == 0;
    if private {
        Ok(())
    } else {
        Err(io::Error::other(format!("{} is not a private directory of this user", directory.display())))
    }
}

/// From the user's environment, or from systemd (RuntimeDirectory=).
fn runtime_directories_from_env() -> impl Iterator<Item = PathBuf> {
    ["XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"].into_iter().filter_map(std::env::var_os).map(PathBuf::from)
}

/// The first that belongs to the user and is not the default one.
fn custom_runtime_directory(mut named: impl Iterator<Item = PathBuf>, uid: u32) -> Option<PathBuf> {
    named.find(|base| *base != default_runtime_directory(uid) && is_directory_owned_by(base, uid))
}

fn default_runtime_directory(uid: u32) -> PathBuf {
    PathBuf::from(format!("/run/user/{uid}"))
}

fn is_directory_owned_by(base: &Path, uid: u32) -> bool {
    base.is_absolute() && base.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// `sudo -E` and `su` keep the user's runtime directory in root's environment.
    #[test]
    fn a_runtime_directory_of_another_user_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let (own, uid) = (directory.path().to_owned(), geteuid().as_raw());
        let link = own.join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let first = |named: &[&Path], uid| custom_runtime_directory(named.iter().map(|path| (*path).to_owned()), uid);
        assert_eq!(first(&[&own], uid + 1), None);
        let others =
            [Path::new("relative"), Path::new("/nonexistent"), Path::new("/dev/null"), &default_runtime_directory(uid)];
        assert_eq!(first(&others, uid), None);
        assert_eq!(first(&[others[1], &own], uid), Some(own.clone()));
        assert_eq!(first(&[&link], uid), Some(link), "the target of a link counts");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let uid = geteuid().as_raw();
        let inside = directory.path().join("sockets");
        DirBuilder::new().mode(0o700).create(&inside).unwrap();
        check_private(&inside).unwrap();
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check_private(&inside).is_err());
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(check_private_to(&inside, uid + 1).is_err(), "another user's");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&inside, &link).unwrap();
        assert!(check_private(&link).is_err());
    }
}
