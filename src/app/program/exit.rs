//! The exit codes, and failures, which are reported in one line.

use std::fmt;
use std::path::Path;

use crate::findings::Severity;
use crate::report::formatting::printable;

/// The result of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// A failure at run time
    Failed,
    /// Wrong usage
    Usage,
    /// The recording is damaged; all intact samples were used
    Damaged,
    /// Not a recording, of a newer major version, or without intact samples
    NotRecording,
    CannotWrite,
    /// For safety or permission
    Refused,
    /// /proc is not mounted
    NoProc,
    /// Of `check`: the severity of the worst finding
    Found(Severity),
    /// Of `table -- COMMAND`: the exit code of the command
    CommandExit(u8),
    /// Of `check`: there is no result
    Unknown,
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success | Exit::Found(Severity::Note) => 0,
            Exit::Failed | Exit::Found(Severity::Warning) => 1,
            Exit::Usage | Exit::Found(Severity::Critical) => 2,
            Exit::Damaged | Exit::Unknown => 3,
            Exit::NotRecording => 4,
            Exit::CannotWrite => 5,
            Exit::Refused => 6,
            Exit::NoProc => 7,
            Exit::CommandExit(code) => code,
        }
    }
}

/// An error that ends a command. Displayed as one line: what failed, why, what to do.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    what: String,
    why: String,
    remedy: String,
}

impl Failure {
    pub fn new(exit: Exit, what: impl Into<String>, why: impl fmt::Display, remedy: impl Into<String>) -> Failure {
        let (what, why) = (without_error_numbers(&what.into()), without_error_numbers(&why.to_string()));
        Failure { exit, what, why, remedy: remedy.into() }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// For an error that has been printed: only the exit code.
    pub fn already_reported(exit: Exit) -> Failure {
        Failure::new(exit, "", "", "")
    }

    /// The same where a monitoring system reads the exit code: it takes any but 3 for a result.
    pub fn as_unknown(self) -> Failure {
        Failure { exit: Exit::Unknown, ..self }
    }

    pub fn is_already_reported(&self) -> bool {
        self.what.is_empty() && self.why.is_empty() && self.remedy.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.what, &self.why, &self.remedy];
        let text = parts.into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(": ");
        f.write_str(&printable(&text))
    }
}

/// Without ` (os error 2)`, which the standard library adds to the words of an error.
pub fn without_error_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => kept.push_str(rest),
            _ => kept.push_str(&format!(" (os error {part}")),
        }
    }
    kept
}

/// A path in an error message.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::new(Exit::Refused, "cannot open 'a\nb\u{1b}[31m'", "it is a link", "");
        assert_eq!(failure.to_string(), "cannot open 'a\\nb\\u{1b}[31m': it is a link");
    }

    #[test]
    fn a_failure_has_no_error_numbers() {
        let missing = std::io::Error::from_raw_os_error(2);
        let failure = Failure::new(Exit::Failed, format!("cannot read 'a': {missing}, again"), missing, "look");
        let text = "cannot read 'a': No such file or directory, again: No such file or directory: look";
        assert_eq!(failure.to_string(), text);
        assert_eq!(without_error_numbers("a (os error x) (os error 1"), "a (os error x) (os error 1");
    }

    #[test]
    fn exit_codes_are_as_documented() {
        let all = [
            (Exit::Success, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::Damaged, 3),
            (Exit::NotRecording, 4),
            (Exit::CannotWrite, 5),
            (Exit::Refused, 6),
            (Exit::NoProc, 7),
            (Exit::Found(Severity::Note), 0),
            (Exit::Found(Severity::Warning), 1),
            (Exit::Found(Severity::Critical), 2),
            (Exit::Unknown, 3),
            (Exit::CommandExit(130), 130),
        ];
        for (exit, code) in all {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }
}
