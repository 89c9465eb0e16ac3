//! The output of a command: standard output, or a new file, which appears only when it is complete. Existing files and links are
//! never overwritten.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio;
use crate::recording::{AtomicFile, parent_directory};

/// Where the output is written.
#[derive(Clone, Debug)]
pub enum Output {
    Stdout,
    NewFile(PathBuf),
}

impl Output {
    /// `-` is standard output. An existing file is refused here, before any work is done.
    pub fn for_path(path: &Path) -> Result<Output, Failure> {
        if path == Path::new("-") {
            return Ok(Output::Stdout);
        }
        match path.symlink_metadata() {
            Ok(there) if there.file_type().is_file() => Err(already_exists(path)),
            Ok(there) => {
                let what = if there.file_type().is_symlink() { "a symbolic link" } else { "not a regular file" };
                let why = format!("it is {what}");
                Err(Failure::new(Exit::Refused, format!("cannot write {}", quoted(path)), why, "give the name of a new file"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match parent_directory(path).metadata() {
                Ok(_) => Ok(Output::NewFile(path.to_owned())),
                Err(error) => Err(cannot_write(path, &error)),
            },
            Err(error) => Err(cannot_write(path, &error)),
        }
    }

    /// Writes all of the output.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Output::Stdout => stdio::print_bytes(bytes).map(|_| ()),
            Output::NewFile(path) => write_new_file(path, |file| file.write_all(bytes)),
        }
    }

    /// The same, written in parts. A closed standard output is not an error.
    pub fn write_with(&self, fill: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> Result<(), Failure> {
        let buffered = |sink: &mut (dyn Write + Send)| {
            let mut sink = BufWriter::new(sink);
            fill(&mut sink)?;
            sink.flush()
        };
        match self {
            Output::Stdout => match buffered(&mut io::stdout()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(stdio::write_failure(&error)),
                _ => Ok(()),
            },
            Output::NewFile(path) => write_new_file(path, |file| buffered(file)),
        }
    }
}

/// The extension of a file name in lower case, which selects the format.
pub fn lowercase_extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// Creates a file with mode 0600, which `fill` writes. It has no name until it is complete, so that nothing is left after an error.
pub fn write_new_file(path: &Path, fill: impl FnOnce(&mut &fs::File) -> io::Result<()>) -> Result<(), Failure> {
    let written = AtomicFile::create(path).and_then(|file| {
        fill(&mut file.file())?;
        file.commit()
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => already_exists(path),
        _ => cannot_write(path, &error),
    })
}

fn already_exists(path: &Path) -> Failure {
    Failure::new(
        Exit::Refused,
        format!("cannot write {}", quoted(path)),
        "it exists already",
        "give another name, or remove it",
    )
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let (exit, remedy) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Refused, "give a directory that this user may write to"),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => (Exit::CannotWrite, "give an existing directory"),
        io::ErrorKind::StorageFull => (Exit::CannotWrite, "no file was created: free space, or give another directory"),
        _ => (Exit::CannotWrite, ""),
    };
    Failure::new(exit, format!("cannot write {}", quoted(path)), error, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_refused_and_a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.html");
        write_new_file(&path, |file| file.write_all(b"whole")).unwrap();
        let again = write_new_file(&path, |file| file.write_all(b"other")).unwrap_err();
        assert_eq!(again.exit, Exit::Refused);
        assert!(again.to_string().contains("it exists already"), "{again}");
        let full = write_new_file(&folder.path().join("b"), |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(full.exit, Exit::CannotWrite);
        let seen = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((fs::read(&path).unwrap().as_slice(), seen), (&b"whole"[..], 1));
    }
}
