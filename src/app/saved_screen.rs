//! `P`: the screen as text, with ANSI sequences and as SVG, in files of the current directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ratatui::buffer::Buffer;

use super::disk_jobs::DiskJobs;
use super::recorder;
use super::terminal::ansi_text;
use crate::sample::Host;
use crate::state::Notice;
use crate::view::screen_text::screen_text;
use crate::view::svg::svg;

/// Names of one second that are tried.
const MAX_NAMES: u32 = 100;

/// Begins to write a drawn screen. `host`: whose screen it is, once that is known.
pub fn save(jobs: &mut DiskJobs<Notice>, host: Option<&Host>, screen: Buffer) {
    let stem = recorder::screen_name(host);
    jobs.spawn(
        |notice| notice,
        move || match save_files(Path::new(""), &stem, &screen) {
            Ok(stem) => Notice::new(format!("screen saved: {stem}.txt, .ansi, .svg")),
            Err((path, error)) => Notice::failure(format!("cannot save the screen: {}: {error}", path.display())),
        },
    );
}

/// Writes the three files; returns their name without extension, which has a number where that name existed. If one cannot be
/// written, none remains.
fn save_files(directory: &Path, stem: &str, screen: &Buffer) -> Result<String, (PathBuf, io::Error)> {
    let ansi = ansi_text(screen).map_err(|error| (directory.join(stem), error))?;
    let contents = [("txt", screen_text(screen).into_bytes()), ("ansi", ansi), ("svg", svg(screen).into_bytes())];
    let path = |stem: &str, extension: &str| directory.join(format!("{stem}.{extension}"));
    let mut names = (1..=MAX_NAMES).map(|number| if number == 1 { stem.to_owned() } else { format!("{stem}-{number}") });
    let free = names.find(|stem| contents.iter().all(|(extension, _)| fs::symlink_metadata(path(stem, extension)).is_err()));
    let stem = free.unwrap_or_else(|| stem.to_owned());
    for (at, (extension, bytes)) in contents.iter().enumerate() {
        let path_here = path(&stem, extension);
        if let Err(error) = write_new(&path_here, bytes) {
            for (extension, _) in contents.iter().take(at) {
                let _ = fs::remove_file(path(&stem, extension));
            }
            return Err((path_here, error));
        }
    }
    Ok(stem)
}

/// Writes a new file, never through a link. Only its owner may read it: command lines are on the screen.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn three_files_are_written_and_none_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let mut screen = Buffer::empty(Rect::new(0, 0, 10, 2));
        screen.set_string(0, 0, "busy 41 %", Style::new());
        assert_eq!(save_files(directory.path(), "db1", &screen).unwrap(), "db1");
        assert_eq!(save_files(directory.path(), "db1", &screen).unwrap(), "db1-2");
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("db1.txt"), "busy 41 %\n\n");
        assert_eq!(read("db1-2.ansi"), "busy 41 %\n\n");
        assert!(read("db1.svg").contains(">busy 41 %</text>"));
        let (path, _) = save_files(&directory.path().join("missing"), "db1", &screen).unwrap_err();
        assert!(path.ends_with("missing/db1.txt"));
    }
}
