//! `completions`, and what the printed script calls for each word: the shell sets `STALLTOP_COMPLETE`, and the program prints
//! the words that may stand at the cursor. Files, devices, hosts and marks (`candidates`) are those of this moment.

mod candidates;
mod ssh_hosts;

use std::ffi::OsString;

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{print, print_bytes};
use crate::cli;
use crate::report::formatting::printable;

/// The environment variable of the shell that asks for words: `fish` for a line per word, which a tab and its description may
/// follow, `words` for the same without descriptions; `bash` and `zsh` are those of scripts that clap_complete has made.
pub const SHELL_VARIABLE: &str = "STALLTOP_COMPLETE";

const BASH: &str = include_str!("../../../assets/completions/stalltop.bash");
const ZSH: &str = include_str!("../../../assets/completions/_stalltop");
const FISH: &str = include_str!("../../../assets/completions/stalltop.fish");

/// Prints the script that registers the program with a shell.
pub fn completions(shell: Shell) -> Result<Exit, Failure> {
    match shell {
        Shell::Bash => print(BASH),
        Shell::Zsh => print(ZSH),
        Shell::Fish => print(FISH),
        other => print(&script_of_clap(&other.to_string())?),
    }
    .map(|_| Exit::Success)
}

fn script_of_clap(shell: &str) -> Result<String, Failure> {
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| unknown_shell(shell))?;
    let mut text = Vec::new();
    let written = completer.write_registration(SHELL_VARIABLE, "stalltop", "stalltop", "stalltop", &mut text);
    written.map_err(|error| Failure::new(Exit::Failed, "cannot write the completions", error, ""))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Prints the words that may stand at the cursor. `arguments`: the program, `--`, and the words of the command line.
pub fn complete(shell: &str, arguments: &[OsString]) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let (name, has_descriptions) = if shell == "words" { ("fish", false) } else { (shell, true) };
    let completer = shells.completer(name).ok_or_else(|| unknown_shell(shell))?;
    let words: Vec<OsString> = arguments.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    if words.is_empty() {
        return Ok(Exit::Success);
    }
    let mut command = candidates::with_candidates(cli::clap_command(), &words);
    let (directory, mut text) = (std::env::current_dir().ok(), Vec::new());
    let written = completer.write_complete(&mut command, words, directory.as_deref(), &mut text);
    // What is not a command line of this program has no completions.
    let text = written.map_or(Vec::new(), |()| text);
    if has_descriptions {
        return print_bytes(&text).map(|_| Exit::Success);
    }
    let values = text.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b'\t').next());
    let values: Vec<&[u8]> = values.filter(|value| !value.is_empty()).collect();
    print_bytes(&[values.join(&b'\n').as_slice(), b"\n"].concat()).map(|_| Exit::Success)
}

fn unknown_shell(name: &str) -> Failure {
    let why = format!("'{}' is not a known shell", printable(name));
    Failure::new(Exit::Usage, "no completions", why, "bash, elvish, fish, powershell, zsh")
}
