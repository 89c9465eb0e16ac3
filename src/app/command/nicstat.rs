//! `nicstat`: figures of network interfaces and protocols as lines, as nicstat 1.95 prints them.

use std::thread;
use std::time::{Duration, Instant};

use jiff::Zoned;

use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{ReaderState, print};
use crate::cli::Configuration;
use crate::cli::nicstat::Nicstat;
use crate::interval::network::Link;
use crate::kernel::Root;
use crate::kernel::network::NetworkReader;
use crate::kernel::network::ethtool::Ethtool;
use crate::report::nicstat::arithmetic::{self, Arithmetic, Elapsed};
use crate::report::nicstat::{ListedInterface, Options, Printer, SampleFigures, SampleTime, interface_list};
use crate::sample::network::{Nic, Protocols};
use crate::units::time::next_end;

/// The original's message, which scripts may search for.
const NO_INTERFACE: &str = "no matching interface";

pub fn nicstat(root: &Root, configuration: &Configuration, options: &Nicstat) -> Result<Exit, Failure> {
    if options.version {
        let text = format!("nicstat of stalltop {}\n", env!("CARGO_PKG_VERSION"));
        return print(&text).map(|_| Exit::Success);
    }
    let operands = Operands::parse(options)?;
    let links = Links::load(root, configuration, options)?;
    let mut network = NetworkReader::default();
    if options.list {
        let nics = read_interfaces(&mut network, root, options)?;
        // The original lists only interfaces with packets.
        let all = !options.compat;
        let listed = nics.iter().filter(|nic| all || nic.rx.packets.0 > 0 || nic.tx.packets.0 > 0);
        let listed: Vec<ListedInterface> = listed.map(|nic| links.list_entry(nic)).collect();
        return print(&interface_list(&listed)).map(|_| Exit::Success);
    }
    let print_options = Options {
        tcp: options.tcp || options.all,
        udp: options.udp || options.all,
        extended: options.extended || options.all,
        summary: options.summary,
        both_utilizations: options.both_utilizations,
        megabits: options.megabits,
        parseable: options.parseable,
        skip_zero: options.skip_zero,
    };
    let mut printer = Printer::new(print_options);
    let begin = Instant::now();
    let mut last: Option<NetworkSample> = None;
    for number in 1.. {
        let sample = NetworkSample::read(&mut network, root, options)?;
        let since = Elapsed {
            since_older: last.as_ref().map_or(0.0, |last| (sample.at - last.at).as_secs_f64()),
            since_boot: uptime(root, options.compat)?,
        };
        let now = Zoned::now();
        let at = SampleTime { clock: now.strftime("%H:%M:%S").to_string(), epoch: now.timestamp().as_second() };
        let text = printer.sample(&at, &figures(last.as_ref(), &sample, since, &links));
        if print(&text)? == ReaderState::Closed || operands.count.is_some_and(|count| number >= count) {
            break;
        }
        let Some(interval) = operands.interval else { break };
        last = Some(sample);
        // A late sample makes no later one late, and missed ones are left out.
        let elapsed = begin.elapsed();
        thread::sleep(next_end(elapsed, interval).saturating_sub(elapsed));
    }
    Ok(Exit::Success)
}

/// One sample of the network.
struct NetworkSample {
    at: Instant,
    nics: Vec<Nic>,
    protocols: Protocols,
}

impl NetworkSample {
    fn read(network: &mut NetworkReader, root: &Root, options: &Nicstat) -> Result<NetworkSample, Failure> {
        let nics = read_interfaces(network, root, options)?;
        let at = Instant::now();
        Ok(NetworkSample { at, nics, protocols: network.protocols(root) })
    }
}

fn figures(older: Option<&NetworkSample>, newer: &NetworkSample, since: Elapsed, links: &Links) -> SampleFigures {
    let (nics, protocols) = (older.map(|older| older.nics.as_slice()), older.map(|older| &older.protocols));
    SampleFigures {
        tcp: arithmetic::tcp_line(protocols, &newer.protocols, since, links.arithmetic),
        udp: arithmetic::udp_line(protocols, &newer.protocols, since, links.arithmetic),
        interfaces: arithmetic::interface_lines(nics, &newer.nics, since, links.arithmetic, |nic| links.link(nic)),
    }
}

/// The requested interfaces.
fn read_interfaces(network: &mut NetworkReader, root: &Root, options: &Nicstat) -> Result<Vec<Nic>, Failure> {
    let read = network.sample(root);
    let mut nics = read.map_err(|why| Failure::new(Exit::Failed, "cannot read /proc/net/dev", why, ""))?;
    nics.retain(|nic| {
        let wanted = |name: &String| name.as_bytes() == nic.id.name.as_bytes();
        let named = options.interfaces.is_empty() || options.interfaces.iter().any(wanted);
        named && !(options.non_local && nic.facts.loopback)
    });
    // Interfaces without packets have no line: without others it is an error, as in the original.
    let any = nics.iter().any(|nic| nic.rx.packets.0 > 0 || nic.tx.packets.0 > 0);
    if any { Ok(nics) } else { Err(Failure::new(Exit::Usage, NO_INTERFACE, "", "")) }
}

/// INTERVAL and COUNT.
struct Operands {
    interval: Option<Duration>,
    count: Option<u32>,
}

impl Operands {
    /// Anything but a positive number is wrong usage, with the original's exit code.
    fn parse(options: &Nicstat) -> Result<Operands, Failure> {
        let wrong = |what: &str, text: &str| {
            Failure::new(Exit::Failed, format!("{what} '{text}'"), "not a positive number", "try 'stalltop nicstat -h'")
        };
        let interval = options.interval.as_deref().map(|text| {
            let seconds = text.parse().ok().filter(|seconds: &f64| *seconds >= 0.1 && *seconds <= 86_400.0);
            seconds.map(Duration::from_secs_f64).ok_or_else(|| wrong("interval", text))
        });
        let count = options.count.as_deref().map(|text| text.parse().map_err(|_| wrong("count", text)));
        // The original runs without end for a count of 0.
        Ok(Operands { interval: interval.transpose()?, count: count.transpose()?.filter(|&count: &u32| count > 0) })
    }
}

/// Speed and duplex of the interfaces, from options, configuration and drivers.
struct Links {
    arithmetic: Arithmetic,
    requested: Vec<(String, Link)>,
    ethtool: Option<Ethtool>,
}

impl Links {
    /// -S overrides the configuration. The original has no configuration.
    fn load(root: &Root, configuration: &Configuration, options: &Nicstat) -> Result<Links, Failure> {
        let mut requested: Vec<(String, Link)> =
            options.speeds.iter().map(|text| parse_speed(text)).collect::<Result<_, _>>()?;
        if !options.compat {
            let settings = Settings::load_and_warn(root, configuration)?;
            requested.extend_from_slice(&settings.rule_config().link_overrides);
        }
        let arithmetic = if options.compat { Arithmetic::Compat } else { Arithmetic::Fixed };
        let ethtool = if options.compat && root.is_host() { Ethtool::open().ok() } else { None };
        Ok(Links { arithmetic, requested, ethtool })
    }

    /// Fixed arithmetic: the requested speed takes precedence. Compat: the speed of the driver does, unless it is 0.
    fn link(&self, nic: &Nic) -> Link {
        let requested =
            self.requested.iter().find(|(name, _)| name.as_bytes() == nic.id.name.as_bytes()).map(|(_, link)| *link);
        let found = Link { speed_mbps: nic.facts.speed_mbps.ok(), duplex: nic.facts.duplex.ok() };
        match (self.arithmetic, &self.ethtool) {
            (Arithmetic::Fixed, _) => requested.unwrap_or(found),
            (Arithmetic::Compat, Some(ethtool)) => {
                let answer = ethtool.legacy_link_settings(nic.id.name.as_bytes()).ok().filter(|(mbps, _)| *mbps > 0);
                let answer = answer.map(|(mbps, duplex)| Link { speed_mbps: Some(u32::from(mbps)), duplex });
                answer.or(requested).unwrap_or_default()
            }
            (Arithmetic::Compat, None) => requested.unwrap_or(found),
        }
    }

    fn list_entry(&self, nic: &Nic) -> ListedInterface {
        let compat = self.arithmetic == Arithmetic::Compat;
        let link = self.link(nic);
        ListedInterface {
            name: nic.id.name.clone(),
            loopback: nic.facts.loopback,
            mbps: link.speed_mbps,
            duplex: link.duplex,
            up: compat || nic.facts.up != Some(false),
            unknown_speed: if compat { "0" } else { "-" },
        }
    }
}

/// Parses a value of `-S`.
fn parse_speed(text: &str) -> Result<(String, Link), Failure> {
    let name = text.split(':').next().unwrap_or_default();
    let wrong = || Failure::new(Exit::Usage, format!("invalid speed for -S {name}"), "", "try -S eth0:1000fd");
    Link::parse_named(text).ok_or_else(wrong)
}

/// Seconds since boot. Compat: as the original, its whole seconds and the fraction of CLOCK_REALTIME.
fn uptime(root: &Root, compat: bool) -> Result<f64, Failure> {
    let failed = |why: &str| Failure::new(Exit::Failed, "cannot read /proc/uptime", why, "");
    let bytes = root.read_once("proc/uptime").map_err(|why| failed(&why.to_string()))?;
    let first = String::from_utf8_lossy(&bytes).split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let uptime = first.filter(|uptime| *uptime > 0.0).ok_or_else(|| failed("it does not begin with a number"))?;
    Ok(if compat { uptime.floor() + f64::from(Zoned::now().timestamp().subsec_nanosecond()) / 1e9 } else { uptime })
}
