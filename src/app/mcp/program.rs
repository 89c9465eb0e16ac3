//! Runs commands of this program, and `stalltop record -` on other hosts by ssh. Each has a time limit, no input, and is killed when the
//! call is cancelled.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::tool::{ToolError, ToolResult};

/// Time that a command has beyond the seconds for which it samples.
const GRACE_SECONDS: u64 = 60;

/// What a command may print, in MiB.
const MAX_OUTPUT_MIB: u64 = 16;

/// The largest recording of a host, in MiB.
const MAX_RECORDING_MIB: u64 = 256;

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

/// The recording of a target; `None` of this machine. Of a host so many seconds are recorded.
pub async fn recording(target: ToolTarget, seconds: u64) -> Result<Option<Recording>, ToolError> {
    match target {
        ToolTarget::ThisMachine => Ok(None),
        ToolTarget::Recording(path) => Ok(Some(Recording { path, _temporary: None })),
        ToolTarget::Host(host) => {
            let (mut file, path) = tempfile::NamedTempFile::with_suffix(".stalltop")?.into_parts();
            let mut command = Command::new("ssh");
            command.args(["-o", "BatchMode=yes", "-T", "--", &host, "stalltop", "record", "-"]);
            command.arg(format!("--for={seconds}s"));
            let (status, stderr) = finish(command, seconds, &mut file, MAX_RECORDING_MIB).await?;
            if !status.success() {
                return Err(failure(&format!("ssh {host}"), &stderr));
            }
            Ok(Some(Recording { path: path.to_path_buf(), _temporary: Some(path) }))
        }
    }
}

/// The JSON values that a command of this program prints, a line each. `exits`: the exit codes that are no failure.
pub async fn run(arguments: Vec<OsString>, seconds: u64, exits: &[i32]) -> Result<Vec<Value>, ToolError> {
    let mut command = Command::new("/proc/self/exe");
    command.args(&arguments);
    let mut stdout = Vec::new();
    let (status, stderr) = finish(command, seconds, &mut stdout, MAX_OUTPUT_MIB).await?;
    // An error may have the exit code of a verdict.
    if !status.code().is_some_and(|code| exits.contains(&code)) || stdout.is_empty() {
        return Err(failure("stalltop", &stderr));
    }
    let lines = stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(ToolError::Malformed)).collect()
}

/// The same of a command that prints one value.
pub async fn run_one(arguments: Vec<OsString>, seconds: u64, exits: &[i32]) -> ToolResult {
    let values = run(arguments, seconds, exits).await?;
    values.into_iter().next().ok_or_else(|| ToolError::Command("stalltop: it printed nothing".into()))
}

/// Runs the command, and writes its standard output to `output`. Returns its standard error.
async fn finish(
    mut command: Command,
    seconds: u64,
    output: &mut impl Write,
    max_mib: u64,
) -> Result<(ExitStatus, Vec<u8>), ToolError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let limit = seconds.saturating_add(GRACE_SECONDS);
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut errors = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(limit), async {
        tokio::try_join!(copy(stdout, output, max_mib), copy(stderr, &mut errors, MAX_OUTPUT_MIB))?;
        Ok::<_, ToolError>(child.wait().await?)
    });
    let status = ended.await.map_err(|_| ToolError::TimedOut(limit))??;
    Ok((status, errors))
}

/// Copies to the end of the pipe; fails if there is more than `max_mib`.
async fn copy(pipe: Option<impl AsyncRead + Unpin>, output: &mut impl Write, max_mib: u64) -> Result<(), ToolError> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut buffer = vec![0; 1 << 16];
    let mut left = max_mib << 20;
    loop {
        let count = pipe.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        left = left.checked_sub(count as u64).ok_or(ToolError::TooLong(max_mib))?;
        output.write_all(buffer.get(..count).unwrap_or_default())?;
    }
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
        for (script, mib) in [("exec yes", 2), ("exec yes >&2", MAX_OUTPUT_MIB)] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let mut output = tempfile::tempfile().unwrap();
            let error = runtime.block_on(finish(command, 60, &mut output, 2)).unwrap_err();
            let text = "ask for less (fewer columns or rows, a shorter time)";
            assert_eq!(error.to_string(), format!("the command printed more than {mib} MiB: {text}"), "{script}");
            assert!(output.metadata().unwrap().len() <= 2 << 20, "{script}");
        }
    }
}
