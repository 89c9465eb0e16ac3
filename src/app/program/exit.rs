//! How the program ends: the exit codes, and the one line that says why.

use std::fmt;
use std::path::Path;

use crate::findings::Severity;
use crate::report::text::printable;

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// A failure at run time
    Failed,
    /// Wrong usage
    Usage,
    /// The recording is damaged; everything sound was shown
    Damaged,
    /// Not a recording, from a newer major version, or nothing sound in it
    NotRecording,
    CannotWrite,
    /// For safety or permission
    Refused,
    /// Nothing to be seen: /proc is not mounted
    NoProc,
    /// Of `check`: the worst that it found
    Found(Severity),
    /// Of `table -- COMMAND`: how that ended
    CommandExit(u8),
    /// Of `check`: it cannot tell
    Unknown,
}

impl Exit {
    /// As the shell gets it.
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

/// What ends a command early: what failed, why, what to do; one line when shown.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    what: String,
    why: String,
    remedy: String,
}

impl Failure {
    pub fn new(exit: Exit, what: impl Into<String>, why: impl fmt::Display, remedy: impl Into<String>) -> Failure {
        Failure { exit, what: what.into(), why: why.to_string(), remedy: remedy.into() }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// For what somebody else has said already: nothing but the exit code.
    pub fn already_reported(exit: Exit) -> Failure {
        Failure::new(exit, "", "", "")
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
    fn codes_are_those_of_the_manual() {
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
