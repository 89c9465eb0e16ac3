//! A file that a command makes: whole or not at all, never over another one, never through a link.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::linkat;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdout;

/// Where the outcome goes.
#[derive(Clone, Debug)]
pub enum Output {
    Stdout,
    New(PathBuf),
}

impl Output {
    /// `-` is standard output. What is there already is refused now, before any work is done for it.
    pub fn to(path: &Path) -> Result<Output, Failure> {
        if path == Path::new("-") {
            return Ok(Output::Stdout);
        }
        match path.symlink_metadata() {
            Ok(there) if there.file_type().is_file() => Err(exists(path)),
            Ok(there) => {
                let what = if there.file_type().is_symlink() { "a symbolic link" } else { "there, and no file" };
                let why = format!("it is {what}");
                Err(Failure::new(Exit::Refused, format!("cannot write {}", quoted(path)), why, "give the name of a new file"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match folder(path).metadata() {
                Ok(_) => Ok(Output::New(path.to_owned())),
                Err(error) => Err(cannot(path, &error)),
            },
            Err(error) => Err(cannot(path, &error)),
        }
    }

    /// Writes it beside its place and gives it its name when it is whole: whatever goes wrong leaves nothing behind.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Output::Stdout => stdout::print_bytes(bytes).map(|_| ()),
            Output::New(path) => write_new(path, |file| file.write_all(bytes)),
        }
    }

    /// The same of what is made piece by piece. Whoever reads standard output may have seen enough.
    pub fn fill(&self, fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> Result<(), Failure> {
        let buffered = |sink: &mut (dyn Write + Send)| {
            let mut sink = BufWriter::new(sink);
            fill(&mut sink)?;
            sink.flush()
        };
        match self {
            Output::Stdout => match buffered(&mut io::stdout()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(stdout::cannot(&error)),
                _ => Ok(()),
            },
            Output::New(path) => write_new(path, |file| buffered(file)),
        }
    }
}

/// A new file of that name, 0600, as `fill` makes it. Until it is whole it has no name, so that whatever ends us leaves nothing.
pub fn write_new(path: &Path, fill: impl FnOnce(&mut fs::File) -> io::Result<()>) -> Result<(), Failure> {
    let folder = folder(path);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot(path, &error),
    };
    let filled = |file: &mut fs::File| fill(file).and_then(|()| file.sync_all());
    match nameless(folder).map_err(failed)? {
        Some(mut file) => filled(&mut file).and_then(|()| name(&file, path)).map_err(failed),
        None => {
            let mut aside = tempfile::Builder::new().prefix(".stalltop-").tempfile_in(folder).map_err(failed)?;
            filled(aside.as_file_mut()).map_err(failed)?;
            aside.persist_noclobber(path).map(|_| ()).map_err(|error| failed(error.error))
        }
    }
}

/// A file without a name; `None` where the file system (NFS, FUSE) has none, or where it could not be given one later.
fn nameless(folder: &Path) -> io::Result<Option<fs::File>> {
    if !Path::new(OWN_DESCRIPTORS).is_dir() {
        return Ok(None);
    }
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match nix::fcntl::open(folder, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Its own, unless there is one of that name.
fn name(file: &fs::File, path: &Path) -> io::Result<()> {
    let own = Path::new(OWN_DESCRIPTORS).join(file.as_raw_fd().to_string());
    Ok(linkat(AT_FDCWD, &own, AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

const OWN_DESCRIPTORS: &str = "/proc/self/fd";

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn exists(path: &Path) -> Failure {
    Failure::new(
        Exit::CannotWrite,
        format!("cannot write {}", quoted(path)),
        "it exists already",
        "give another name, or remove it",
    )
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    let (exit, remedy) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Refused, "give a directory that you may write"),
        io::ErrorKind::NotFound => (Exit::CannotWrite, "give a directory that is there"),
        io::ErrorKind::StorageFull => (Exit::CannotWrite, "nothing was left behind: make room, or give another place"),
        _ => (Exit::CannotWrite, ""),
    };
    Failure::new(exit, format!("cannot write {}", quoted(path)), error, remedy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn until_it_is_whole_there_is_nothing_to_be_seen_of_it() {
        let folder = tempfile::tempdir().unwrap();
        if nameless(folder.path()).unwrap().is_none() {
            return println!("skipped: this file system has no files without a name");
        }
        let path = folder.path().join("out.html");
        let seen = || fs::read_dir(folder.path()).unwrap().count();
        write_new(&path, |file| {
            file.write_all(b"half")?;
            assert_eq!(seen(), 0);
            file.write_all(b" and half")
        })
        .unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), seen()), (&b"half and half"[..], 1));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = write_new(&path, |file| file.write_all(b"other")).unwrap_err();
        assert!(again.to_string().contains("it exists already"), "{again}");
        write_new(&folder.path().join("b"), |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!((fs::read(&path).unwrap().as_slice(), seen()), (&b"half and half"[..], 1));
    }
}
