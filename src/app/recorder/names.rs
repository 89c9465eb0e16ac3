//! File names of recordings.

use std::io;
use std::path::{Path, PathBuf};

use crate::recording::RecordingError;
use crate::sample::Host;

/// HOST-YYYYMMDDTHHMMSS.stalltop, in local time.
pub fn default_name(host: &Host) -> String {
    format!("{}.stalltop", file_stem(host))
}

/// HOST-YYYYMMDDTHHMMSS-saved.stalltop, which differs from the name of a recording that starts in the same second.
pub fn saved_name(host: &Host) -> String {
    format!("{}-saved.stalltop", file_stem(host))
}

/// HOST-YYYYMMDDTHHMMSS-screen, without extension; `host` is unknown before the first sample.
pub fn screen_name(host: Option<&Host>) -> String {
    format!("{}-{}-screen", host.map_or_else(|| "stalltop".to_owned(), host_prefix), local_time())
}

/// Whether this is a name from `default_name`, with or without a number at its end.
pub fn is_default_name(host: &Host, name: &str) -> bool {
    let rest = name.strip_prefix(&format!("{}-", host_prefix(host))).and_then(|rest| rest.strip_suffix(".stalltop"));
    let mut words = rest.unwrap_or_default().split('-');
    let time = words.next().unwrap_or_default();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time =
        time.split_once('T').is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && digits(day) && digits(time));
    is_time && words.all(digits)
}

fn file_stem(host: &Host) -> String {
    format!("{}-{}", host_prefix(host), local_time())
}

fn local_time() -> String {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::system()).strftime("%Y%m%dT%H%M%S").to_string()
}

/// The host name with only characters that are safe in a file name.
fn host_prefix(host: &Host) -> String {
    let host: String = String::from_utf8_lossy(host.hostname.as_bytes())
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .collect();
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
