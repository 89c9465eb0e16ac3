//! `nicstat`: samples of the network alone, as lines.

use std::thread;
use std::time::{Duration, Instant};

use jiff::Zoned;

use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdout::{Reader, print};
use crate::cli::Configuration;
use crate::cli::nicstat::Nicstat;
use crate::interval::nicstat::{self as arithmetic, Arithmetic, Link, Since};
use crate::kernel::Root;
use crate::kernel::network::NetworkReader;
use crate::kernel::network::ethtool::Ethtool;
use crate::report::nicstat::{At, Figures, Form, Listed, Printer, list};
use crate::sample::network::{Nic, Protocols};

/// As the tool says it: for whoever looks for these words.
const NO_INTERFACE: &str = "no matching interface";

pub fn nicstat(root: &Root, configuration: &Configuration, options: &Nicstat) -> Result<Exit, Failure> {
    if options.version {
        let text = format!("nicstat of stalltop {}\n", env!("CARGO_PKG_VERSION"));
        return print(&text).map(|_| Exit::Fine);
    }
    let operands = Operands::of(options)?;
    let links = Links::of(root, configuration, options)?;
    let mut network = NetworkReader::default();
    if options.list {
        let nics = shown(&mut network, root, options)?;
        // The old one lists what it has figures for.
        let all = !options.compat;
        let listed = nics.iter().filter(|nic| all || nic.rx.packets.0 > 0 || nic.tx.packets.0 > 0);
        let listed: Vec<Listed> = listed.map(|nic| links.listed(nic)).collect();
        return print(&list(&listed)).map(|_| Exit::Fine);
    }
    let form = Form {
        tcp: options.tcp || options.all,
        udp: options.udp || options.all,
        extended: options.extended || options.all,
        summary: options.summary,
        both_utilizations: options.both_utilizations,
        megabits: options.megabits,
        parseable: options.parseable,
        skip_zero: options.skip_zero,
    };
    let mut printer = Printer::new(form);
    let begin = Instant::now();
    let mut last: Option<Taken> = None;
    for number in 1.. {
        let taken = Taken::now(&mut network, root, options)?;
        let since = Since {
            older: last.as_ref().map_or(0.0, |last| (taken.at - last.at).as_secs_f64()),
            boot: uptime(root, options.compat)?,
        };
        let now = Zoned::now();
        let at = At { clock: now.strftime("%H:%M:%S").to_string(), epoch: now.timestamp().as_second() };
        let text = printer.sample(&at, &figures(last.as_ref(), &taken, since, &links));
        if print(&text)? == Reader::Gone || operands.count.is_some_and(|count| number >= count) {
            break;
        }
        let Some(interval) = operands.interval else { break };
        last = Some(taken);
        // A late sample must not make all later ones late.
        let due = begin + interval.saturating_mul(number);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(Exit::Fine)
}

/// One look at the network.
struct Taken {
    at: Instant,
    nics: Vec<Nic>,
    protocols: Protocols,
}

impl Taken {
    fn now(network: &mut NetworkReader, root: &Root, options: &Nicstat) -> Result<Taken, Failure> {
        let nics = shown(network, root, options)?;
        let at = Instant::now();
        Ok(Taken { at, nics, protocols: network.protocols(root) })
    }
}

fn figures(older: Option<&Taken>, newer: &Taken, since: Since, links: &Links) -> Figures {
    let (nics, protocols) = (older.map(|older| older.nics.as_slice()), older.map(|older| &older.protocols));
    Figures {
        tcp: arithmetic::tcp(protocols, &newer.protocols, since, links.arithmetic),
        udp: arithmetic::udp(protocols, &newer.protocols, since, links.arithmetic),
        interfaces: arithmetic::interfaces(nics, &newer.nics, since, links.arithmetic, |nic| links.link(nic)),
    }
}

/// The interfaces that are asked for.
fn shown(network: &mut NetworkReader, root: &Root, options: &Nicstat) -> Result<Vec<Nic>, Failure> {
    let read = network.sample(root);
    let mut nics = read.map_err(|why| Failure::new(Exit::Failed, "cannot read /proc/net/dev", why, ""))?;
    nics.retain(|nic| {
        let wanted = |name: &String| name.as_bytes() == nic.id.name.as_bytes();
        let named = options.interfaces.is_empty() || options.interfaces.iter().any(wanted);
        named && !(options.non_local && nic.facts.loopback)
    });
    // Interfaces without a packet have no line; if that leaves none, it is as if there were none.
    let any = nics.iter().any(|nic| nic.rx.packets.0 > 0 || nic.tx.packets.0 > 0);
    if any { Ok(nics) } else { Err(Failure::new(Exit::Usage, NO_INTERFACE, "", "")) }
}

/// INTERVAL and COUNT.
struct Operands {
    interval: Option<Duration>,
    count: Option<u32>,
}

impl Operands {
    /// What is no positive number is wrong usage, with nicstat's exit code.
    fn of(options: &Nicstat) -> Result<Operands, Failure> {
        let wrong = |what: &str, text: &str| {
            Failure::new(Exit::Failed, format!("{what} '{text}'"), "not a positive number", "try 'stalltop nicstat -h'")
        };
        let interval = options.interval.as_deref().map(|text| {
            let seconds = text.parse().ok().filter(|seconds: &f64| *seconds >= 0.1 && *seconds <= 86_400.0);
            seconds.map(Duration::from_secs_f64).ok_or_else(|| wrong("interval", text))
        });
        let count = options.count.as_deref().map(|text| text.parse().map_err(|_| wrong("count", text)));
        // nicstat takes a count of 0 for none.
        Ok(Operands { interval: interval.transpose()?, count: count.transpose()?.filter(|&count: &u32| count > 0) })
    }
}

/// What is known of each interface's speed and duplex.
struct Links {
    arithmetic: Arithmetic,
    asked: Vec<(String, Link)>,
    old: Option<Ethtool>,
}

impl Links {
    /// What -S says goes before what is configured; the old one knows no configuration.
    fn of(root: &Root, configuration: &Configuration, options: &Nicstat) -> Result<Links, Failure> {
        let mut asked: Vec<(String, Link)> = options.speeds.iter().map(|text| speed(text)).collect::<Result<_, _>>()?;
        if !options.compat {
            asked.extend_from_slice(&Settings::load_or_complain(root, configuration)?.criteria().links);
        }
        let arithmetic = if options.compat { Arithmetic::Compat } else { Arithmetic::Fixed };
        let old = if options.compat && root.is_host() { Ethtool::open().ok() } else { None };
        Ok(Links { arithmetic, asked, old })
    }

    /// Fixed: what was asked for comes first. Compat: the driver's answer does, where it is not 0.
    fn link(&self, nic: &Nic) -> Link {
        let asked = self.asked.iter().find(|(name, _)| name.as_bytes() == nic.id.name.as_bytes()).map(|(_, link)| *link);
        let found = Link { mbps: nic.facts.speed_mbps.ok(), duplex: nic.facts.duplex.ok() };
        match (self.arithmetic, &self.old) {
            (Arithmetic::Fixed, _) => asked.unwrap_or(found),
            (Arithmetic::Compat, Some(old)) => {
                let answer = old.old_link(nic.id.name.as_bytes()).ok().filter(|(mbps, _)| *mbps > 0);
                let answer = answer.map(|(mbps, duplex)| Link { mbps: Some(u32::from(mbps)), duplex });
                answer.or(asked).unwrap_or_default()
            }
            (Arithmetic::Compat, None) => asked.unwrap_or(found),
        }
    }

    fn listed(&self, nic: &Nic) -> Listed {
        let compat = self.arithmetic == Arithmetic::Compat;
        let link = self.link(nic);
        Listed {
            name: nic.id.name.clone(),
            loopback: nic.facts.loopback,
            mbps: link.mbps,
            duplex: link.duplex,
            up: compat || nic.facts.up != Some(false),
            unknown_speed: if compat { "0" } else { "-" },
        }
    }
}

/// As `-S` has it.
fn speed(text: &str) -> Result<(String, Link), Failure> {
    let name = text.split(':').next().unwrap_or_default();
    let wrong = || Failure::new(Exit::Usage, format!("invalid speed for -S {name}"), "", "try -S eth0:1000fd");
    Link::named(text).ok_or_else(wrong)
}

/// Seconds since boot. Compat: whole seconds of it and the fraction of the wall clock's second, as nicstat has it.
fn uptime(root: &Root, compat: bool) -> Result<f64, Failure> {
    let failed = |why: &str| Failure::new(Exit::Failed, "cannot read /proc/uptime", why, "");
    let bytes = root.read_once("proc/uptime").map_err(|why| failed(&why.to_string()))?;
    let first = String::from_utf8_lossy(&bytes).split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let uptime = first.filter(|uptime| *uptime > 0.0).ok_or_else(|| failed("it holds no number"))?;
    Ok(if compat { uptime.floor() + f64::from(Zoned::now().timestamp().subsec_nanosecond()) / 1e9 } else { uptime })
}
