//! The configuration: what the command line says goes before the environment, that before the user's file, that before the
//! system's. Nothing of it can be misspelt silently.

pub mod format;
pub mod page;
pub mod place;

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::gethostname;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::patience::within;
use crate::app::program::stdout::complain;
use crate::cli::{Configuration, words};
use crate::findings::{Criteria, SetBaseline, Setting};
use crate::interval::nicstat::Link;
use crate::kernel::Root;
use crate::sample::Host;
use format::Said;
use place::{Place, Trouble};

/// How long the file systems of the configuration are waited for: one of them may be what is sick.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Thresholds, as `check --threshold` has them, for every command.
pub const THRESHOLD: &str = "STALLTOP_THRESHOLD";
/// Speeds of interfaces, as `--nic-speed` has them.
pub const SPEED: &str = "STALLTOP_SPEED";
/// The one file that is read instead of the user's and the system's.
pub const CONFIG: &str = "STALLTOP_CONFIG";

/// Speeds of interfaces, on the command line.
const NIC_SPEED: &str = "--nic-speed";

/// What is set for this run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    criteria: Criteria,
    /// Said on the command line: of whichever machine this run is about
    links: Vec<(String, Link)>,
    /// The file was named for this run: what it says of devices holds whichever machine a recording is of
    named: bool,
}

impl Settings {
    /// From the environment and the files; with lines for the user where a file there cannot be read.
    pub fn load(root: &Root, asked: &Configuration) -> Result<(Settings, Vec<String>), Failure> {
        // What is wrong on the command line is told before what is wrong in a file.
        let speeds = speeds(asked)?;
        let named = Place::named(asked);
        let mut settings = Settings { named: named.is_some(), ..Settings::default() };
        let mut notices = Vec::new();
        let is_host = root.is_host();
        let asked = asked.clone();
        // Looking for the place included: the home may be on a file system that does not answer.
        let look = move || -> Vec<(Place, Result<Option<Said>, Trouble>)> {
            let places = if is_host || named.is_some() { Place::all(&asked) } else { Vec::new() };
            places.into_iter().map(|place| (place.read(), place)).map(|(said, place)| (place, said)).collect()
        };
        match within(PATIENCE, look) {
            None => notices.push("the configuration does not answer: going on without it".to_owned()),
            Some(found) => {
                for (place, said) in found {
                    match said {
                        Ok(said) => settings.take(said.unwrap_or_default()),
                        Err(trouble) if trouble.ends_the_program(&place) => return Err(trouble.failure(&place)),
                        Err(trouble) => notices.push(format!("{}: going on without it", trouble.failure(&place))),
                    }
                }
            }
        }
        settings.take(environment()?);
        settings.links = speeds.clone();
        settings.take(Said { links: speeds, ..Said::default() });
        Ok((settings, notices))
    }

    /// What is wrong on the command line or in the environment; what files say is not looked at.
    pub fn misspelt(asked: &Configuration) -> Option<Failure> {
        speeds(asked).err().or_else(|| environment().err())
    }

    /// The same for a command that prints lines.
    pub fn load_or_complain(root: &Root, asked: &Configuration) -> Result<Settings, Failure> {
        let (settings, notices) = Settings::load(root, asked)?;
        notices.iter().for_each(|line| complain(line));
        Ok(settings)
    }

    /// These go before what is set already.
    pub fn set(&mut self, thresholds: &[Setting]) {
        thresholds.iter().for_each(|setting| setting.apply(&mut self.criteria.thresholds));
    }

    /// What this machine is judged by.
    pub fn criteria(&self) -> &Criteria {
        &self.criteria
    }

    /// What a machine is judged by: what is said of devices here does not hold for those of another machine.
    pub fn criteria_for(&self, host: &Host) -> Arc<Criteria> {
        let ours = gethostname()
            .is_ok_and(|name| std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str()) == host.hostname.as_bytes());
        let Criteria { thresholds, .. } = &self.criteria;
        Arc::new(match ours || self.named {
            true => self.criteria.clone(),
            false => Criteria { thresholds: thresholds.clone(), links: self.links.clone(), ..Criteria::default() },
        })
    }

    fn take(&mut self, said: Said) {
        self.set(&said.thresholds);
        let Criteria { links, baselines, ignored, .. } = &mut self.criteria;
        for link in said.links {
            links.retain(|known| known.0 != link.0);
            links.push(link);
        }
        for baseline in said.baselines {
            let same = |known: &SetBaseline| {
                (&known.device, known.operation, known.size) == (&baseline.device, baseline.operation, baseline.size)
            };
            baselines.retain(|known| !same(known));
            baselines.push(baseline);
        }
        ignored.disks = said.ignored_disks.unwrap_or(std::mem::take(&mut ignored.disks));
        ignored.nics = said.ignored_nics.unwrap_or(std::mem::take(&mut ignored.nics));
    }
}

/// As the command line has them.
fn speeds(asked: &Configuration) -> Result<Vec<(String, Link)>, Failure> {
    asked.nic_speed.iter().map(|word| link(NIC_SPEED, word)).collect()
}

/// What the variables say.
fn environment() -> Result<Said, Failure> {
    let mut said = Said::default();
    for word in listed(THRESHOLD) {
        said.thresholds.push(words::setting(&word).map_err(|why| wrong(THRESHOLD, &word, why))?);
    }
    for word in listed(SPEED) {
        said.links.push(link(SPEED, &word)?);
    }
    Ok(said)
}

/// `eth0=1000fd`, or with a colon as nicstat has it.
fn link(option: &str, word: &str) -> Result<(String, Link), Failure> {
    let named = word.rsplit_once(['=', ':']).filter(|(name, _)| !name.is_empty());
    let link = named.and_then(|(name, said)| Some((name.to_owned(), Link::said(said)?)));
    let known = link.filter(|(_, link)| link.duplex.is_some());
    known.ok_or_else(|| wrong(option, word, "it is Mbit/s and fd or hd, like eth0=1000fd".to_owned()))
}

fn wrong(option: &str, word: &str, why: String) -> Failure {
    Failure::new(Exit::Usage, format!("invalid value '{word}' in {option}"), why, "see docs/configuration.md")
}

fn listed(name: &str) -> Vec<String> {
    let text = std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Name;

    fn host(name: &str) -> Host {
        let root = tempfile::tempdir().unwrap();
        Host { hostname: Name::from(name), ..crate::kernel::host::read(&Root::at(root.path().to_owned())) }
    }

    #[test]
    fn what_is_said_later_goes_before() {
        let mut settings = Settings::default();
        settings.take(
            Said::parse("[thresholds]\nblocked-ratio = 0.5\nhung-seconds = 9\n[speeds]\neth0 = 100\neth1 = 10\n").unwrap(),
        );
        settings.take(
            Said::parse("[thresholds]\nblocked-ratio = \"40%\"\n[speeds]\neth0 = \"1000hd\"\n[ignore]\ndisks = [\"loop*\"]\n")
                .unwrap(),
        );
        settings.set(&[words::setting("hung-task=7").unwrap()]);
        let criteria = settings.criteria();
        assert_eq!((criteria.thresholds.blocked_ratio, criteria.thresholds.hung_seconds), (0.4, 7.0));
        let speeds: Vec<(&str, Option<u32>)> = criteria.links.iter().map(|(name, link)| (name.as_str(), link.mbps)).collect();
        assert_eq!(speeds, [("eth1", Some(10)), ("eth0", Some(1000))]);
        assert_eq!(criteria.ignored.disks, ["loop*"]);
    }

    #[test]
    fn devices_of_another_machine_are_other_devices() {
        let mut settings = Settings::default();
        settings.take(Said::parse("[thresholds]\nhung-seconds = 9\n[speeds]\neth0 = 100\n").unwrap());
        let elsewhere = settings.criteria_for(&host("somewhere.invalid"));
        assert_eq!((elsewhere.thresholds.hung_seconds, elsewhere.links.len()), (9.0, 0));
        let here = gethostname().unwrap().into_string().unwrap();
        assert_eq!(settings.criteria_for(&host(&here)).links.len(), 1);
        settings.named = true;
        assert_eq!(settings.criteria_for(&host("somewhere.invalid")).links.len(), 1);
    }
}
