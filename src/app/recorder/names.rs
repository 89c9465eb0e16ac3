//! File names of recordings.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::recording::{DirHandle, RecordingError};
use crate::sample::Host;

/// HOST-YYYYMMDDTHHMMSS.stalltop, in local time.
pub fn default_name(host: &Host) -> String {
    format!("{}.stalltop", file_stem(host))
}

/// HOST-YYYYMMDDTHHMMSS.stalltop of a host that the user knows by this name.
pub fn recording_name(host: &str) -> String {
    format!("{}-{}.stalltop", safe_prefix(host), local_time())
}

/// NAME-YYYYMMDDTHHMMSS, of a directory.
pub fn directory_name(name: &str) -> String {
    format!("{name}-{}", local_time())
}

/// The name of the host in a name of `recording_name` or `saved_name`, without extension; else `None`.
pub fn host_of_recording(stem: &str) -> Option<&str> {
    let stem = stem.strip_suffix("-saved").unwrap_or(stem);
    let (host, time) = stem.rsplit_once('-')?;
    // A number after the time.
    let (host, time) = if time.contains('T') { (host, time) } else { host.rsplit_once('-')? };
    is_local_time(time).then_some(host)
}

/// HOST-YYYYMMDDTHHMMSS-saved.stalltop, which differs from the name of a recording that starts in the same second.
pub fn saved_name(host: &Host) -> String {
    format!("{}-{SAVED}.stalltop", file_stem(host))
}

/// The word at the end of a saved recording's name.
const SAVED: &str = "saved";

/// HOST-YYYYMMDDTHHMMSS-screen, without extension; `host` is unknown before the first sample.
pub fn screen_name(host: Option<&Host>) -> String {
    format!("{}-{}-screen", host.map_or_else(|| "stalltop".to_owned(), host_prefix), local_time())
}

/// HOST-YYYYMMDDTHHMMSS-WORDS.stalltop: a capture of `record --armed`. The words begin with a letter.
pub fn capture_name(host: &Host, words: &str) -> String {
    format!("{}-{words}.stalltop", file_stem(host))
}

/// Whether this is a name from `default_name`, with or without a number at its end.
pub fn is_default_name(host: &Host, name: &str) -> bool {
    words_after_time(host, name).is_some_and(|mut words| words.all(is_number))
}

/// Whether this is a name from `capture_name`.
pub fn is_capture_name(host: &Host, name: &str) -> bool {
    // Not what `w` saves.
    let is_of_trigger = |word: &str| word.starts_with(|first: char| first.is_ascii_alphabetic()) && word != SAVED;
    words_after_time(host, name).is_some_and(|mut words| words.next().is_some_and(is_of_trigger))
}

/// The words between the time and the extension of a name that begins with host and time.
fn words_after_time<'a>(host: &Host, name: &'a str) -> Option<impl Iterator<Item = &'a str>> {
    let rest = name.strip_prefix(&format!("{}-", host_prefix(host)))?.strip_suffix(".stalltop")?;
    let mut words = rest.split('-');
    is_local_time(words.next()?).then_some(words)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name, or if it is taken, the same with a number: other recorders may start in the same second.
pub fn free_name(folder: &DirHandle, name: &str) -> OsString {
    let stem = name.trim_end_matches(".stalltop");
    let numbered = (2..).map(|number: u32| format!("{stem}-{number}.stalltop"));
    let names = std::iter::once(name.to_owned()).chain(numbered).map(OsString::from);
    let mut free = names.take(100).filter(|name| folder.entry_path(name).symlink_metadata().is_err());
    free.next().unwrap_or_else(|| OsString::from(name))
}

/// YYYYMMDDTHHMMSS
fn is_local_time(time: &str) -> bool {
    time.split_once('T').is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && is_number(day) && is_number(time))
}

fn file_stem(host: &Host) -> String {
    format!("{}-{}", host_prefix(host), local_time())
}

fn local_time() -> String {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::system()).strftime("%Y%m%dT%H%M%S").to_string()
}

/// The host name with only characters that are safe in a file name.
fn host_prefix(host: &Host) -> String {
    safe_prefix(&String::from_utf8_lossy(host.hostname.as_bytes()))
}

fn safe_prefix(host: &str) -> String {
    let host: String =
        host.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' }).collect();
    // A file that begins with a dot is hidden, and a dash begins an option.
    let host = host.trim_start_matches(['.', '-']);
    if host.is_empty() { "stalltop".to_owned() } else { host.to_owned() }
}

/// Creates a file of that name in the current directory, or if that fails, in the home directory, or in /var/tmp: samples in
/// memory are lost if they cannot be saved.
pub fn with_fallback_directory<T>(
    name: &str,
    mut create: impl FnMut(&Path) -> Result<T, RecordingError>,
) -> Result<T, RecordingError> {
    let here = create(Path::new(name));
    let is_of_directory = |error: &RecordingError| match error {
        RecordingError::PermissionDenied { .. } => true,
        RecordingError::Write { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::NotFound
        ),
        _ => false,
    };
    let Err(first) = here else { return here };
    if !is_of_directory(&first) {
        return Err(first);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let others = home.into_iter().chain([PathBuf::from("/var/tmp")]);
    others.map(|place| create(&place.join(name))).find_map(Result::ok).ok_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Location;

    #[test]
    fn names_of_captures_and_of_other_recordings_differ() {
        let host = crate::synthetic::host();
        let capture = capture_name(&host, "mark-42");
        let numbered = capture.replace(".stalltop", "-2.stalltop");
        let is = |name: &str| (is_capture_name(&host, name), is_default_name(&host, name));
        assert_eq!([is(&capture), is(&numbered)], [(true, false); 2], "{capture}");
        assert_eq!(
            [is(&default_name(&host)), is(&default_name(&host).replace(".stalltop", "-2.stalltop"))],
            [(false, true); 2]
        );
        let others = [saved_name(&host), format!("x{capture}"), capture.replace('T', "-"), capture.replace("mark", ".mark")];
        assert_eq!(others.map(|name| is(&name)), [(false, false); 4]);
    }

    /// The current directory may not be writable.
    #[test]
    fn a_file_that_cannot_be_written_here_is_written_elsewhere() {
        let (mut tried, denied) = (Vec::new(), || io::Error::from(io::ErrorKind::PermissionDenied));
        let place = with_fallback_directory("x.stalltop", |path| {
            tried.push(path.to_owned());
            match path.parent() {
                Some(folder) if folder == Path::new("/var/tmp") => Ok(path.to_owned()),
                _ => Err(RecordingError::PermissionDenied { path: Location::from(path), source: denied() }),
            }
        });
        assert_eq!(place.unwrap(), Path::new("/var/tmp/x.stalltop"));
        assert_eq!((tried.first().unwrap().as_path(), tried.len() > 1), (Path::new("x.stalltop"), true));
        let exists = |path: &Path| RecordingError::AlreadyExists { path: Location::from(path) };
        let refused = with_fallback_directory::<()>("x.stalltop", |path| Err(exists(path)));
        assert!(
            matches!(refused, Err(RecordingError::AlreadyExists { path }) if path == Location::from(Path::new("x.stalltop")))
        );
    }
}
