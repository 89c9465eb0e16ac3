//! Programs and scripts that a test makes and then runs.

use std::path::Path;
use std::process::Command;

/// Copies a program, which everybody may run. A child process writes the copy: a descriptor of this process that may write it would
/// be inherited by a process that another test forks at the same time, and until that one's exec the copy is "busy" (ETXTBSY).
pub fn copy_executable(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("install").args(["-m", "755"]).arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cannot copy {} to {}",
        from.as_ref().display(),
        to.as_ref().display()
    );
}
