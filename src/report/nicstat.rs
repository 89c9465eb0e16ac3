//! Formats the lines of `stalltop nicstat` with the columns, widths and precision of nicstat. Pure: figures in, text out.

pub mod arithmetic;
mod columns;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use super::formatting::printable;
use crate::sample::network::Duplex;
use arithmetic::{NicLine, TcpLine, UdpLine};
use columns::{InterfaceTable, precision, precision_parseable, precision4};

/// What is printed, and how. The option letters are nicstat's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-t`
    pub tcp: bool,
    /// `-u`
    pub udp: bool,
    /// `-x`
    pub extended: bool,
    /// `-s`
    pub summary: bool,
    /// `-U`
    pub both_utilizations: bool,
    /// `-M`: megabits (2^20 bits) instead of KB
    pub megabits: bool,
    /// `-p`
    pub parseable: bool,
    /// `-z`
    pub skip_zero: bool,
}

impl Options {
    /// TCP or UDP alone leave the interfaces out.
    pub fn shows_interfaces(&self) -> bool {
        self.extended || !(self.tcp || self.udp)
    }
}

/// The time of a sample as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleTime {
    /// HH:MM:SS, local
    pub clock: String,
    /// Seconds since 1970
    pub epoch: i64,
}

/// One sample's figures.
#[derive(Clone, Debug)]
pub struct SampleFigures {
    pub tcp: TcpLine,
    pub udp: UdpLine,
    pub interfaces: Vec<NicLine>,
}

/// Prints samples in order, with headings.
#[derive(Debug)]
pub struct Printer {
    options: Options,
    /// Lines under the last heading of a table of one interface
    since_heading: Option<u32>,
}

/// Lines between headings of a single interface.
const HEADING_EVERY: u32 = 20;

impl Printer {
    pub fn new(options: Options) -> Printer {
        Printer { options, since_heading: None }
    }

    /// All lines of one sample.
    pub fn sample(&mut self, at: &SampleTime, figures: &SampleFigures) -> String {
        let mut text = String::new();
        if self.options.tcp {
            self.tcp(&mut text, at, &figures.tcp);
        }
        if self.options.udp {
            self.udp(&mut text, at, &figures.udp);
        }
        if self.options.shows_interfaces() {
            self.interfaces(&mut text, at, &figures.interfaces);
        }
        text
    }

    fn tcp(&self, text: &mut String, at: &SampleTime, tcp: &TcpLine) {
        let figures = [
            tcp.kilobytes_in,
            tcp.kilobytes_out,
            tcp.segments_in,
            tcp.segments_out,
            tcp.resets,
            tcp.attempt_fails,
            tcp.retransmitted_percent,
            tcp.connections_in,
            tcp.connections_out,
            tcp.listen_drops,
        ];
        if self.options.parseable {
            return write_line(text, format_args!("{}:TCP{}", at.epoch, parseable(&figures.map(precision_parseable))));
        }
        let [kin, kout, sin, sout, resets, fails, retransmitted, cin, cout, drops] = figures;
        let heading = ["InKB", "OutKB", "InSeg", "OutSeg"].map(|name| format!(" {name:>7}")).concat();
        write_line(text, format_args!("{:>8}{heading} Reset  AttF %ReTX InConn OutCon Drops", at.clock));
        let wide = [kin, kout, sin, sout].map(|figure| format!(" {:>7}", precision(figure))).concat();
        let rest = format!(
            "{:>5} {:>5} {:>4} {:>6}",
            precision4(resets),
            precision4(fails),
            precision_parseable(retransmitted),
            precision4(cin)
        );
        write_line(text, format_args!("TCP     {wide} {rest} {:>6} {:>5}", precision4(cout), precision4(drops)));
    }

    fn udp(&self, text: &mut String, at: &SampleTime, udp: &UdpLine) {
        let figures = [udp.datagrams_in, udp.datagrams_out, udp.errors_in, udp.errors_out];
        if self.options.parseable {
            return write_line(text, format_args!("{}:UDP{}", at.epoch, parseable(&figures.map(precision_parseable))));
        }
        let [din, dout, ein, eout] = figures.map(precision);
        write_line(
            text,
            format_args!("{:>8}                 {:>7} {:>7}   {:>7} {:>7}", at.clock, "InDG", "OutDG", "InErr", "OutErr"),
        );
        write_line(text, format_args!("UDP                      {din:>7} {dout:>7}   {ein:>7} {eout:>7}"));
    }

    fn interfaces(&mut self, text: &mut String, at: &SampleTime, interfaces: &[NicLine]) {
        let is_zero =
            |line: &&NicLine| [line.rx.packets, line.tx.packets].iter().all(|rate| rate.is_some_and(|rate| rate == 0.0));
        let shown: Vec<&NicLine> = interfaces.iter().filter(|line| !(self.options.skip_zero && is_zero(line))).collect();
        let table = InterfaceTable { options: self.options, at };
        let due = self.since_heading.is_none_or(|lines| interfaces.len() > 1 || lines >= HEADING_EVERY);
        if !self.options.parseable && due {
            write_line(text, format_args!("{}", table.heading()));
            self.since_heading = Some(0);
        }
        for interface in &shown {
            write_line(text, format_args!("{}", table.row(interface)));
        }
        if let Some(lines) = &mut self.since_heading {
            *lines = lines.saturating_add(u32::try_from(shown.len()).unwrap_or(u32::MAX));
        }
    }
}

/// An interface in the list of `-l`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedInterface {
    pub name: crate::sample::Name,
    pub loopback: bool,
    pub mbps: Option<u32>,
    pub duplex: Option<Duplex>,
    pub up: bool,
    /// Compat writes an unknown speed as 0
    pub unknown_speed: &'static str,
}

/// The list of `-l`.
pub fn interface_list(interfaces: &[ListedInterface]) -> String {
    let mut text = String::from("Int      Loopback   Mbit/s Duplex State\n");
    for interface in interfaces {
        let name = printable(&String::from_utf8_lossy(interface.name.as_bytes()));
        let duplex = match interface.duplex {
            Some(Duplex::Full) => "full",
            Some(Duplex::Half) => "half",
            None => "unkn",
        };
        let state = if interface.up { "up" } else { "down" };
        let mbps = match (interface.loopback, interface.mbps) {
            (true, _) => "-".to_owned(),
            (false, Some(mbps)) => mbps.to_string(),
            (false, None) => interface.unknown_speed.to_owned(),
        };
        let loopback = if interface.loopback { "Yes" } else { " No" };
        write_line(&mut text, format_args!("{name:<12}  {loopback} {mbps:>8}   {duplex:>4}  {state:>4}"));
    }
    text
}

/// Writing to a String cannot fail.
fn write_line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{arguments}");
}

fn parseable(figures: &[String]) -> String {
    figures.iter().map(|figure| format!(":{figure}")).collect()
}
