//! The configuration. The command line overrides the environment, which overrides the user's file, which overrides the system's
//! file. Every unknown key is an error.

pub mod docs;
pub mod file;
pub mod parse;
pub mod themes;

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::gethostname;

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::print_stderr;
use crate::app::program::threads::{TimedOut, with_timeout};
use crate::cli::{Configuration, ProbeMode, finding_options};
use crate::findings::{BaselineOverride, RuleConfig, ThresholdSetting};
use crate::interval::network::Link;
use crate::kernel::Root;
use crate::sample::Host;
use crate::state::ThemeChoice;
use crate::units::similar::did_you_mean;
use crate::view::theme::colors::built_in_themes;
use file::{ConfigFile, ReadError};
use parse::ParsedConfig;

/// How long the start of the program waits for the configuration files, which may be on the disk that has the problem.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(3);

/// Thresholds for every command, in the form of `check --threshold`.
pub const THRESHOLD_VAR: &str = "STALLTOP_THRESHOLD";
/// Speeds of interfaces, in the form of `--nic-speed`.
pub const SPEED_VAR: &str = "STALLTOP_SPEED";
/// The file that is read instead of the user's and the system's.
pub const CONFIG_VAR: &str = "STALLTOP_CONFIG";

const NIC_SPEED_OPTION: &str = "--nic-speed";

/// The settings of this run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    rule_config: RuleConfig,
    /// From the command line: they apply to a recording of any machine
    command_line_links: Vec<(String, Link)>,
    /// The file was named for this run: its settings of devices apply to a recording of any machine
    explicit_file: bool,
    /// The theme of the screen
    theme: Option<String>,
    probes: Option<ProbeMode>,
}

impl Settings {
    /// Reads the environment and the files. The lines are warnings about files that cannot be read.
    pub fn load(root: &Root, requested: &Configuration) -> Result<(Settings, Vec<String>), Failure> {
        // Errors of the command line are reported before those of a file.
        let speeds = parse_nic_speeds(requested)?;
        let probes = requested.probes;
        let named = ConfigFile::explicit_path(requested);
        let mut settings = Settings { explicit_file: named.is_some(), ..Settings::default() };
        let mut notices = Vec::new();
        let is_host = root.is_host();
        let requested = requested.clone();
        // With a timeout from the search for the files on: the home directory may not answer.
        let read = move || -> Vec<(ConfigFile, Result<Option<ParsedConfig>, ReadError>)> {
            let places = if is_host || named.is_some() { ConfigFile::candidates(&requested) } else { Vec::new() };
            places.into_iter().map(|place| (place.read(), place)).map(|(parsed, place)| (place, parsed)).collect()
        };
        match with_timeout(FILE_TIMEOUT, read) {
            Err(TimedOut::NoAnswer) => {
                notices.push("the file system of the configuration does not answer: the configuration is not used".to_owned())
            }
            Err(TimedOut::NoCpu) => {
                notices.push("the configuration is not used: this process gets no CPU to read it".to_owned())
            }
            Ok(found) => {
                for (place, parsed) in found {
                    match parsed {
                        Ok(parsed) => settings.apply(parsed.unwrap_or_default()),
                        Err(error) if error.is_fatal(&place) => return Err(error.into_failure(&place)),
                        Err(error) => notices.push(format!("{}: the file is not used", error.into_failure(&place))),
                    }
                }
            }
        }
        settings.apply(read_environment()?);
        settings.command_line_links = speeds.clone();
        settings.apply(ParsedConfig { links: speeds, probes, ..ParsedConfig::default() });
        Ok((settings, notices))
    }

    /// The first error of the command line or the environment.
    pub fn command_line_error(requested: &Configuration) -> Option<Failure> {
        parse_nic_speeds(requested).err().or_else(|| read_environment().err())
    }

    /// Prints the warnings to standard error.
    pub fn load_and_warn(root: &Root, requested: &Configuration) -> Result<Settings, Failure> {
        let (settings, notices) = Settings::load(root, requested)?;
        notices.iter().for_each(|line| print_stderr(line));
        Ok(settings)
    }

    /// All themes, and the one to begin with: of the command line, of the configuration, or the one that was chosen on a screen. The lines
    /// are warnings.
    pub fn themes(
        &self,
        option: Option<&str>,
        remembered: Option<&str>,
    ) -> Result<(Vec<ThemeChoice>, ThemeChoice, Vec<String>), Failure> {
        // The user's directory may be on the disk that has the problem.
        let (themes, mut notices) = with_timeout(FILE_TIMEOUT, themes::all_themes).unwrap_or_else(|_| {
            (built_in_themes().collect(), vec!["the themes of the user cannot be read in time".to_owned()])
        });
        let find = |name: &str| themes.iter().copied().find(|theme| theme.name() == name);
        let unknown = |name: &str| {
            let names: Vec<&str> = themes.iter().map(|theme| theme.name()).collect();
            let what = format!("unknown theme '{name}'{}", did_you_mean(name, names.iter().copied()));
            Failure::new(Exit::Usage, what, "", format!("the themes are {}", names.join(", ")))
        };
        let chosen = match (option, &self.theme) {
            (Some(name), _) => find(name).ok_or_else(|| unknown(name))?,
            // A file that is gone does not stop the monitor.
            (None, Some(name)) => find(name).unwrap_or_else(|| {
                notices.push(unknown(name).to_string());
                ThemeChoice::default()
            }),
            (None, None) => remembered.and_then(find).unwrap_or_default(),
        };
        Ok((themes, chosen, notices))
    }

    /// An error if the command line names a theme that does not exist: also where nothing is drawn with it.
    pub fn require_theme(&self, option: Option<&str>) -> Result<(), Failure> {
        if option.is_some() { self.themes(option, None).map(drop) } else { Ok(()) }
    }

    /// Overrides thresholds.
    pub fn set_thresholds(&mut self, thresholds: &[ThresholdSetting]) {
        thresholds.iter().for_each(|setting| setting.apply(&mut self.rule_config.thresholds));
    }

    /// When eBPF programs are attached.
    pub fn probes(&self) -> ProbeMode {
        self.probes.unwrap_or_default()
    }

    /// The rule configuration of this machine.
    pub fn rule_config(&self) -> &RuleConfig {
        &self.rule_config
    }

    /// The rule configuration of a machine: settings of devices do not apply to those of another machine.
    pub fn rule_config_for(&self, host: &Host) -> Arc<RuleConfig> {
        let is_this_machine = gethostname()
            .is_ok_and(|name| std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str()) == host.hostname.as_bytes());
        let RuleConfig { thresholds, .. } = &self.rule_config;
        Arc::new(match is_this_machine || self.explicit_file {
            true => self.rule_config.clone(),
            false => RuleConfig {
                thresholds: thresholds.clone(),
                link_overrides: Arc::new(self.command_line_links.clone()),
                ..RuleConfig::default()
            },
        })
    }

    fn apply(&mut self, parsed: ParsedConfig) {
        self.set_thresholds(&parsed.thresholds);
        let RuleConfig { link_overrides: links, baseline_overrides: baselines, ignored, .. } = &mut self.rule_config;
        let links = Arc::make_mut(links);
        for link in parsed.links {
            links.retain(|known| known.0 != link.0);
            links.push(link);
        }
        for baseline in parsed.baselines {
            let same = |known: &BaselineOverride| {
                (&known.device, known.operation, known.size) == (&baseline.device, baseline.operation, baseline.size)
            };
            baselines.retain(|known| !same(known));
            baselines.push(baseline);
        }
        ignored.disks = parsed.ignored_disks.unwrap_or(std::mem::take(&mut ignored.disks));
        ignored.nics = parsed.ignored_nics.unwrap_or(std::mem::take(&mut ignored.nics));
        ignored.file_systems = parsed.ignored_file_systems.unwrap_or(std::mem::take(&mut ignored.file_systems));
        self.theme = parsed.theme.or(self.theme.take());
        self.probes = parsed.probes.or(self.probes);
    }
}

/// From `--nic-speed`.
fn parse_nic_speeds(requested: &Configuration) -> Result<Vec<(String, Link)>, Failure> {
    requested.nic_speed.iter().map(|word| parse_link(NIC_SPEED_OPTION, word)).collect()
}

/// From the environment variables.
fn read_environment() -> Result<ParsedConfig, Failure> {
    let mut parsed = ParsedConfig::default();
    for word in env_list(THRESHOLD_VAR) {
        parsed.thresholds.push(finding_options::parse_setting(&word).map_err(|why| invalid_value(THRESHOLD_VAR, &word, why))?);
    }
    for word in env_list(SPEED_VAR) {
        parsed.links.push(parse_link(SPEED_VAR, &word)?);
    }
    Ok(parsed)
}

/// `eth0=1000fd`, or with a colon as in nicstat.
fn parse_link(option: &str, word: &str) -> Result<(String, Link), Failure> {
    let named = word.rsplit_once(['=', ':']).filter(|(name, _)| !name.is_empty());
    let link = named.and_then(|(name, speed)| Some((name.to_owned(), Link::parse(speed)?)));
    let known = link.filter(|(_, link)| link.duplex.is_some());
    known.ok_or_else(|| invalid_value(option, word, "the form is NAME=MBPS and fd or hd, such as eth0=1000fd".to_owned()))
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
        Host { hostname: Name::from(name), ..crate::synthetic::host() }
    }

    #[test]
    fn later_settings_override_earlier_ones() {
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
        let rule_config = settings.rule_config();
        assert_eq!((rule_config.thresholds.blocked_ratio, rule_config.thresholds.hung_seconds), (0.4, 7.0));
        let speeds: Vec<(&str, Option<u32>)> =
            rule_config.link_overrides.iter().map(|(name, link)| (name.as_str(), link.speed_mbps)).collect();
        assert_eq!(speeds, [("eth1", Some(10)), ("eth0", Some(1000))]);
        assert_eq!(rule_config.ignored.disks, ["loop*"]);
    }

    #[test]
    fn probes_are_auto_unless_a_file_says_otherwise() {
        let mut settings = Settings::default();
        assert_eq!(settings.probes(), ProbeMode::Auto);
        settings.apply(ParsedConfig::parse("probes = \"off\"\n[screen]\n").unwrap());
        settings.apply(ParsedConfig::parse("[screen]\n").unwrap());
        assert_eq!(settings.probes(), ProbeMode::Off);
        let wrong = ["probes = true", "probes = \"yes\"", "[screen]\nprobes = \"on\"", "probe = \"on\""];
        assert!(wrong.iter().all(|text| ParsedConfig::parse(text).is_err()));
    }

    #[test]
    fn settings_of_devices_do_not_apply_to_another_machine() {
        const TEXT: &str = "[thresholds]\nhung-seconds = 9\n[speeds]\neth0 = 100\n";
        let mut settings = Settings::default();
        settings.apply(ParsedConfig::parse(TEXT).unwrap());
        let elsewhere = settings.rule_config_for(&host("somewhere.invalid"));
        assert_eq!((elsewhere.thresholds.hung_seconds, elsewhere.link_overrides.len()), (9.0, 0));
        let here = gethostname().unwrap().into_string().unwrap();
        assert_eq!(settings.rule_config_for(&host(&here)).link_overrides.len(), 1);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.toml");
        std::fs::write(&file, TEXT).unwrap();
        let requested = Configuration { config: Some(file), ..Configuration::default() };
        let (settings, _) = Settings::load(&Root::at_directory(directory.path().to_owned()), &requested).unwrap();
        assert_eq!(settings.rule_config_for(&host("somewhere.invalid")).link_overrides.len(), 1);
    }
}
