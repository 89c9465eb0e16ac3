//! `completions` and `man`: shell completions and manual pages, for packages.

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::print;
use crate::cli::{self, finding_options};

pub fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::clap_command(), "stalltop", &mut text);
    print(&String::from_utf8_lossy(&text)).map(|_| Exit::Success)
}

/// Prints the manual page of the program, or of the command that `path` names.
pub fn man_page(path: &[String]) -> Result<Exit, Failure> {
    let mut command = cli::clap_command();
    // Gives each command its full name.
    command.build();
    for word in path {
        let Some(next) = command.get_subcommands().find(|next| next.get_name() == word).cloned() else {
            let suggestion = finding_options::did_you_mean(word, command.get_subcommands().map(|next| next.get_name()));
            let why = format!("there is no such command{suggestion}");
            return Err(Failure::new(Exit::Usage, format!("no manual page for '{word}'"), why, "try 'stalltop --help'"));
        };
        command = next;
    }
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command).source(concat!("stalltop ", env!("CARGO_PKG_VERSION")));
    let written = page.render(&mut text);
    written.map_err(|error| Failure::new(Exit::Failed, "cannot write the manual page", error, ""))?;
    print(&String::from_utf8_lossy(&text)).map(|_| Exit::Success)
}
