//! The configuration: what the command line says goes before the environment, that before the user's file, that before the
//! system's. Nothing of it can be misspelt silently.

pub mod docs;
pub mod file;
pub mod parse;

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::gethostname;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::print_stderr;
use crate::app::program::timeout::with_timeout;
use crate::cli::{Configuration, finding_options};
use crate::findings::{BaselineOverride, RuleConfig, ThresholdSetting};
use crate::interval::network::Link;
use crate::kernel::Root;
use crate::sample::Host;
use file::{ConfigFile, ReadError};
use parse::ParsedConfig;

/// How long the file systems of the configuration are waited for: one of them may be what is sick.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(3);

/// Thresholds, as `check --threshold` has them, for every command.
pub const THRESHOLD_VAR: &str = "STALLTOP_THRESHOLD";
/// Speeds of interfaces, as `--nic-speed` has them.
pub const SPEED_VAR: &str = "STALLTOP_SPEED";
/// The one file that is read instead of the user's and the system's.
pub const CONFIG_VAR: &str = "STALLTOP_CONFIG";

/// Speeds of interfaces, on the command line.
const NIC_SPEED_OPTION: &str = "--nic-speed";

/// What is set for this run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    rule_config: RuleConfig,
    /// Said on the command line: of whichever machine this run is about
    command_line_links: Vec<(String, Link)>,
    /// The file was named for this run: what it says of devices holds whichever machine a recording is of
    explicit_file: bool,
}

impl Settings {
    /// From the environment and the files; with lines for the user where a file there cannot be read.
    pub fn load(root: &Root, asked: &Configuration) -> Result<(Settings, Vec<String>), Failure> {
        // What is wrong on the command line is told before what is wrong in a file.
        let speeds = parse_nic_speeds(asked)?;
        let named = ConfigFile::explicit_path(asked);
        let mut settings = Settings { explicit_file: named.is_some(), ..Settings::default() };
        let mut notices = Vec::new();
        let is_host = root.is_host();
        let asked = asked.clone();
        // Looking for the place included: the home may be on a file system that does not answer.
        let look = move || -> Vec<(ConfigFile, Result<Option<ParsedConfig>, ReadError>)> {
            let places = if is_host || named.is_some() { ConfigFile::candidates(&asked) } else { Vec::new() };
            places.into_iter().map(|place| (place.read(), place)).map(|(said, place)| (place, said)).collect()
        };
        match with_timeout(FILE_TIMEOUT, look) {
            None => notices.push("the configuration does not answer: going on without it".to_owned()),
            Some(found) => {
                for (place, said) in found {
                    match said {
                        Ok(said) => settings.apply(said.unwrap_or_default()),
                        Err(trouble) if trouble.is_fatal(&place) => return Err(trouble.into_failure(&place)),
                        Err(trouble) => notices.push(format!("{}: going on without it", trouble.into_failure(&place))),
                    }
                }
            }
        }
        settings.apply(read_environment()?);
        settings.command_line_links = speeds.clone();
        settings.apply(ParsedConfig { links: speeds, ..ParsedConfig::default() });
        Ok((settings, notices))
    }

    /// What is wrong on the command line or in the environment; what files say is not looked at.
    pub fn command_line_error(asked: &Configuration) -> Option<Failure> {
        parse_nic_speeds(asked).err().or_else(|| read_environment().err())
    }

    /// The same for a command that prints lines.
    pub fn load_and_warn(root: &Root, asked: &Configuration) -> Result<Settings, Failure> {
        let (settings, notices) = Settings::load(root, asked)?;
        notices.iter().for_each(|line| print_stderr(line));
        Ok(settings)
    }

    /// These go before what is set already.
    pub fn set_thresholds(&mut self, thresholds: &[ThresholdSetting]) {
        thresholds.iter().for_each(|setting| setting.apply(&mut self.rule_config.thresholds));
    }

    /// What this machine is judged by.
    pub fn rule_config(&self) -> &RuleConfig {
        &self.rule_config
    }

    /// What a machine is judged by: what is said of devices here does not hold for those of another machine.
    pub fn rule_config_for(&self, host: &Host) -> Arc<RuleConfig> {
        let ours = gethostname()
            .is_ok_and(|name| std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str()) == host.hostname.as_bytes());
        let RuleConfig { thresholds, .. } = &self.rule_config;
        Arc::new(match ours || self.explicit_file {
            true => self.rule_config.clone(),
            false => RuleConfig {
                thresholds: thresholds.clone(),
                link_overrides: Arc::new(self.command_line_links.clone()),
                ..RuleConfig::default()
            },
        })
    }

    fn apply(&mut self, said: ParsedConfig) {
        self.set_thresholds(&said.thresholds);
        let RuleConfig { link_overrides: links, baseline_overrides: baselines, ignored, .. } = &mut self.rule_config;
        let links = Arc::make_mut(links);
        for link in said.links {
            links.retain(|known| known.0 != link.0);
            links.push(link);
        }
        for baseline in said.baselines {
            let same = |known: &BaselineOverride| {
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
fn parse_nic_speeds(asked: &Configuration) -> Result<Vec<(String, Link)>, Failure> {
    asked.nic_speed.iter().map(|word| parse_link(NIC_SPEED_OPTION, word)).collect()
}

/// What the variables say.
fn read_environment() -> Result<ParsedConfig, Failure> {
    let mut said = ParsedConfig::default();
    for word in env_list(THRESHOLD_VAR) {
        said.thresholds.push(finding_options::parse_setting(&word).map_err(|why| invalid_value(THRESHOLD_VAR, &word, why))?);
    }
    for word in env_list(SPEED_VAR) {
        said.links.push(parse_link(SPEED_VAR, &word)?);
    }
    Ok(said)
}

/// `eth0=1000fd`, or with a colon as nicstat has it.
fn parse_link(option: &str, word: &str) -> Result<(String, Link), Failure> {
    let named = word.rsplit_once(['=', ':']).filter(|(name, _)| !name.is_empty());
    let link = named.and_then(|(name, said)| Some((name.to_owned(), Link::parse(said)?)));
    let known = link.filter(|(_, link)| link.duplex.is_some());
    known.ok_or_else(|| invalid_value(option, word, "it is Mbit/s and fd or hd, like eth0=1000fd".to_owned()))
}

fn invalid_value(option: &str, word: &str, why: String) -> Failure {
    Failure::new(Exit::Usage, format!("invalid value '{word}' in {option}"), why, "see docs/configuration.md")
}

fn env_list(name: &str) -> Vec<String> {
    let text = std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Name;

    fn host(name: &str) -> Host {
        let root = tempfile::tempdir().unwrap();
        Host { hostname: Name::from(name), ..crate::kernel::host::read(&Root::at_directory(root.path().to_owned())) }
    }

    #[test]
    fn what_is_said_later_goes_before() {
        let mut settings = Settings::default();
        settings.apply(
            ParsedConfig::parse("[thresholds]\nblocked-ratio = 0.5\nhung-seconds = 9\n[speeds]\neth0 = 100\neth1 = 10\n")
                .unwrap(),
        );
        settings.apply(
            ParsedConfig::parse(
                "[thresholds]\nblocked-ratio = \"40%\"\n[speeds]\neth0 = \"1000hd\"\n[ignore]\ndisks = [\"loop*\"]\n",
            )
            .unwrap(),
        );
        settings.set_thresholds(&[finding_options::parse_setting("hung-task=7").unwrap()]);
        let criteria = settings.rule_config();
        assert_eq!((criteria.thresholds.blocked_ratio, criteria.thresholds.hung_seconds), (0.4, 7.0));
        let speeds: Vec<(&str, Option<u32>)> =
            criteria.link_overrides.iter().map(|(name, link)| (name.as_str(), link.speed_mbps)).collect();
        assert_eq!(speeds, [("eth1", Some(10)), ("eth0", Some(1000))]);
        assert_eq!(criteria.ignored.disks, ["loop*"]);
    }

    #[test]
    fn devices_of_another_machine_are_other_devices() {
        let mut settings = Settings::default();
        settings.apply(ParsedConfig::parse("[thresholds]\nhung-seconds = 9\n[speeds]\neth0 = 100\n").unwrap());
        let elsewhere = settings.rule_config_for(&host("somewhere.invalid"));
        assert_eq!((elsewhere.thresholds.hung_seconds, elsewhere.link_overrides.len()), (9.0, 0));
        let here = gethostname().unwrap().into_string().unwrap();
        assert_eq!(settings.rule_config_for(&host(&here)).link_overrides.len(), 1);
        settings.explicit_file = true;
        assert_eq!(settings.rule_config_for(&host("somewhere.invalid")).link_overrides.len(), 1);
    }
}
