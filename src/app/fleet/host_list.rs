//! The hosts of the command line and of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::cli;

/// More are refused: each one is a process and a thread.
const MAX_HOSTS: usize = 2000;

/// Bytes of the file that are read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The hosts, each once, in their order.
pub fn hosts(options: &cli::Fleet) -> Result<Vec<String>, Failure> {
    let mut hosts: Vec<String> = Vec::new();
    let from_file = options.hosts_file.as_deref().map(read_file).transpose()?.unwrap_or_default();
    let named = from_file.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    for host in options.hosts.iter().map(String::as_str).chain(named) {
        // ssh would take it for an option.
        if host.starts_with('-') || host.is_empty() || host.contains(char::is_whitespace) {
            let why = "a name of a host has no blanks, and does not begin with -";
            return Err(Failure::new(Exit::Usage, format!("cannot connect to '{host}'"), why, ""));
        }
        if !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
    let wrong =
        |why: String| Err(Failure::new(Exit::Usage, "cannot show the fleet", why, "stalltop fleet web1 web2, or --hosts FILE"));
    match hosts.len() {
        0 => wrong("no host is named".to_owned()),
        1..=MAX_HOSTS => Ok(hosts),
        many => wrong(format!("{many} hosts are more than {MAX_HOSTS}")),
    }
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::InvalidData => "it is no text".to_owned(),
            _ => error.to_string(),
        };
        let remedy = "give a file with one host a line, or - for standard input; for recordings --replay DIR";
        Failure::new(Exit::Failed, format!("cannot read the hosts of {}", quoted(path)), why, remedy)
    };
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text),
        false => File::open(path).map_err(failed)?.take(MAX_FILE_BYTES).read_to_string(&mut text),
    };
    read.map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Command, parse};

    fn fleet(words: &str) -> Result<Vec<String>, String> {
        let words = format!("stalltop fleet {words}");
        let invocation = parse(words.split_whitespace().map(Into::into)).unwrap();
        let Command::Fleet(options) = invocation.command else { panic!("no fleet") };
        hosts(&options).map_err(|failure| failure.to_string())
    }

    #[test]
    fn hosts_are_named_once_and_are_no_options() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hosts");
        std::fs::write(&file, "# the web\nweb2  # rack 4\n\nadmin@db1\n").unwrap();
        let words = format!("web1 web2 --hosts {}", file.display());
        assert_eq!(fleet(&words).unwrap(), ["web1", "web2", "admin@db1"]);
        std::fs::write(&file, "-oProxyCommand=reboot\n").unwrap();
        assert!(fleet(&words).unwrap_err().starts_with("cannot connect to '-oProxyCommand=reboot': "));
        assert!(fleet("").unwrap_err().contains("no host is named"));
        assert!(fleet("--hosts /nonexistent/file").unwrap_err().contains("No such file"));
    }
}
