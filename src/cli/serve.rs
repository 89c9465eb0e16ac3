//! The options of `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value_parsers;

/// This machine only, and a port that no other exporter has by default.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9709);

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Serve {
    /// Address and port: 127.0.0.1:9709, [::1]:9709. Any but a loopback address needs --allow-remote
    #[arg(long, value_name = "ADDR", default_value_t = DEFAULT_ADDRESS, value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Answer other machines too; without --web-config unencrypted and without a password. Metrics have names of processes,
    /// devices and cgroups
    #[arg(long)]
    pub allow_remote: bool,
    /// TLS and passwords, in a file as Prometheus' own exporters have it (tls_server_config, basic_auth_users)
    #[arg(long, value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Send metrics and findings to an OpenTelemetry collector too, by OTLP over HTTP: http://localhost:4318. Headers such as a
    /// password are read from OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Time between metrics that are sent; changes of findings are sent at once
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value_parsers::positive_duration, requires = "otlp")]
    pub otlp_interval: Duration,
    /// Time between samples: 100ms to 1h
    #[arg(short, long, default_value = "1s", value_parser = value_parsers::interval)]
    pub interval: Duration,
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let meant = match (text.rsplit_once(':').map_or("", |(host, _)| host), port) {
        ("" | "localhost", Some(port)) => format!(": did you mean '127.0.0.1:{port}'?"),
        _ => String::new(),
    };
    text.parse().map_err(|_| format!("it is an IP address and a port, such as 127.0.0.1:9709 or [::1]:9709{meant}"))
}
