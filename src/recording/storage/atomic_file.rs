//! A new file that has no name until it is complete: a process that is killed leaves no incomplete file behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::linkat;
use tempfile::NamedTempFile;

/// A new file, mode 0600, that has no name yet. Dropping it deletes it.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    directory: OwnedFd,
    file: TempFile,
}

#[derive(Debug)]
enum TempFile {
    Anonymous(File),
    /// Under a temporary name, where the file system (NFS, FUSE) has no `O_TMPFILE`.
    Named(NamedTempFile),
}

const PROC_SELF_FD: &str = "/proc/self/fd";

impl AtomicFile {
    /// Begins a file that will be called `path`. An existing file or link is refused now, before any work is done.
    pub fn create(path: &Path) -> io::Result<AtomicFile> {
        AtomicFile::create_with(path, open_anonymous)
    }

    /// `open_anonymous`: opens a file without a name in a directory, or returns `None` where its file system has none.
    fn create_with(path: &Path, open_anonymous: fn(&OwnedFd) -> io::Result<Option<File>>) -> io::Result<AtomicFile> {
        match path.symlink_metadata() {
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let folder = open_directory(parent_directory(path))?;
        let file = match open_anonymous(&folder)? {
            Some(file) => TempFile::Anonymous(file),
            None => TempFile::create_named(path)?,
        };
        Ok(AtomicFile { path: path.to_owned(), directory: folder, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &File {
        match &self.file {
            TempFile::Anonymous(file) => file,
            TempFile::Named(file) => file.as_file(),
        }
    }

    /// Gives the file its name, unless the name exists by now. The disk has it when this returns.
    pub fn commit(self) -> io::Result<()> {
        self.file().sync_all()?;
        let AtomicFile { path, directory: folder, file } = self;
        match file {
            TempFile::Anonymous(file) => {
                let own = Path::new(PROC_SELF_FD).join(file.as_raw_fd().to_string());
                let name = path.file_name().map_or(path.as_path(), Path::new);
                linkat(AT_FDCWD, &own, &folder, name, AtFlags::AT_SYMLINK_FOLLOW)?;
            }
            TempFile::Named(file) => {
                file.persist_noclobber(&path).map_err(|error| error.error)?;
            }
        }
        // Not every file system can.
        let _ = nix::unistd::fsync(&folder);
        Ok(())
    }
}

impl TempFile {
    fn create_named(path: &Path) -> io::Result<TempFile> {
        tempfile::Builder::new().prefix(".stalltop-").tempfile_in(parent_directory(path)).map(TempFile::Named)
    }
}

/// A file without a name; `None` where the file system has none, or where it could not be named later.
fn open_anonymous(folder: &OwnedFd) -> io::Result<Option<File>> {
    if !Path::new(PROC_SELF_FD).is_dir() {
        return Ok(None);
    }
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_LARGEFILE;
    match nix::fcntl::openat(folder, ".", flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The directory of a path.
pub fn parent_directory(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a directory, so that later changes of its path have no effect.
pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let held = |flags: OFlag| nix::fcntl::open(path, flags | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
    // A directory that may be written to but not listed can be held all the same.
    Ok(held(OFlag::O_RDONLY).or_else(|_| held(OFlag::O_PATH))?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn until_it_is_whole_there_is_nothing_to_be_seen_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let seen = || fs::read_dir(folder.path()).unwrap().count();
        if open_anonymous(&open_directory(folder.path()).unwrap()).unwrap().is_none() {
            return println!("skipped: this file system has no files without a name");
        }
        let file = AtomicFile::create(&path).unwrap();
        file.file().write_all(b"half").unwrap();
        assert_eq!(seen(), 0);
        file.file().write_all(b" and half").unwrap();
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), seen()), (&b"half and half"[..], 1));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// With `O_TMPFILE` and with a temporary name.
    #[test]
    fn it_takes_no_name_that_is_taken_and_goes_when_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let seen = || fs::read_dir(folder.path()).unwrap().count();
        let named = || AtomicFile::create_with(&path, |_| Ok(None)).unwrap();
        for file in [named(), AtomicFile::create(&path).unwrap()] {
            fs::write(&path, "another").unwrap();
            assert_eq!(file.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((fs::read(&path).unwrap().as_slice(), seen()), (&b"another"[..], 1));
            assert_eq!(AtomicFile::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            fs::remove_file(&path).unwrap();
        }
        drop(named());
        assert_eq!(seen(), 0);
        let file = named();
        file.file().write_all(b"all of it").unwrap();
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), seen()), (&b"all of it"[..], 1));
    }
}
