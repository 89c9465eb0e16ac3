//! Runs commands of this program, and `stalltop record -` on other hosts by ssh. Each has a time limit, no input, and is killed when the
//! call is cancelled.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::tool::{ToolError, ToolResult};

/// Time that a command has beyond the seconds for which it samples.
const GRACE_SECONDS: u64 = 60;

/// What a command may print, 16 MiB.
const MAX_OUTPUT_BYTES: u64 = 1 << 24;

/// A longer line of standard error is cut.
const MAX_ERROR_CHARS: usize = 300;

/// What a tool reads.
#[derive(Clone, Debug)]
pub enum ToolTarget {
    ThisMachine,
    Recording(PathBuf),
    Host(String),
}

/// A recording that a command reads: a file, or one of a host, which is deleted when this is dropped.
#[derive(Debug)]
pub struct Recording {
    pub path: PathBuf,
    _temporary: Option<tempfile::TempPath>,
}

/// The recording of a source; `None` of this machine. Of a host so many seconds are recorded.
pub async fn recording(source: ToolTarget, seconds: u64) -> Result<Option<Recording>, ToolError> {
    match source {
        ToolTarget::ThisMachine => Ok(None),
        ToolTarget::Recording(path) => Ok(Some(Recording { path, _temporary: None })),
        ToolTarget::Host(host) => {
            let (file, path) = tempfile::NamedTempFile::with_suffix(".stalltop")?.into_parts();
            let mut command = Command::new("ssh");
            command.args(["-o", "BatchMode=yes", "-T", "--", &host, "stalltop", "record", "-"]);
            command.arg(format!("--for={seconds}s")).stdout(file);
            let output = finish(command, seconds).await?;
            if !output.status.success() {
                return Err(failure(&format!("ssh {host}"), &output.stderr));
            }
            Ok(Some(Recording { path: path.to_path_buf(), _temporary: Some(path) }))
        }
    }
}

/// The JSON values that a command of this program prints, a line each. `exits`: the exit codes that are no failure.
pub async fn run(arguments: Vec<OsString>, seconds: u64, exits: &[i32]) -> Result<Vec<Value>, ToolError> {
    let mut command = Command::new("/proc/self/exe");
    command.args(&arguments).stdout(Stdio::piped());
    let output = finish(command, seconds).await?;
    // An error may have the exit code of a verdict.
    if !output.status.code().is_some_and(|code| exits.contains(&code)) || output.stdout.is_empty() {
        return Err(failure("stalltop", &output.stderr));
    }
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(ToolError::Malformed)).collect()
}

/// The same of a command that prints one value.
pub async fn run_one(arguments: Vec<OsString>, seconds: u64, exits: &[i32]) -> ToolResult {
    let values = run(arguments, seconds, exits).await?;
    values.into_iter().next().ok_or_else(|| ToolError::Command("stalltop: it printed nothing".into()))
}

async fn finish(mut command: Command, seconds: u64) -> Result<std::process::Output, ToolError> {
    command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let limit = seconds.saturating_add(GRACE_SECONDS);
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let output = tokio::time::timeout(Duration::from_secs(limit), async {
        let (stdout, stderr) = tokio::try_join!(read_output(stdout), read_output(stderr))?;
        Ok(std::process::Output { status: child.wait().await?, stdout, stderr })
    });
    output.await.map_err(|_| ToolError::TimedOut(limit))?
}

async fn read_output(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > MAX_OUTPUT_BYTES { Err(ToolError::TooLong) } else { Ok(bytes) }
}

/// The last line of standard error.
fn failure(what: &str, stderr: &[u8]) -> ToolError {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect();
    let line = line.strip_prefix("stalltop: ").unwrap_or(&line);
    ToolError::Command(format!("{what}: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_prints_without_end_is_killed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for script in ["exec yes", "exec yes >&2"] {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped());
            let error = runtime.block_on(finish(command, 60)).unwrap_err();
            assert_eq!(error.to_string(), "the answer is longer than 16 MiB: narrow 'columns' or 'rows'", "{script}");
        }
    }
}
