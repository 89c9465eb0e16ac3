//! Where the collector is: the URL of `--otlp`, and the headers of OTEL_EXPORTER_OTLP_HEADERS.

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::app::program::exit::{Exit, Failure};

/// The port of OTLP over HTTP.
const DEFAULT_PORT: u16 = 4318;

/// As every exporter of OpenTelemetry has it: `name=value,name=value`, percent-encoded. In the environment, because others can read
/// the command line of a process.
const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// A collector.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    /// Path before /v1/metrics; empty, or begins with a slash
    base: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// As the user wrote it
    pub url: String,
}

impl Endpoint {
    /// Reads the URL and the environment.
    pub fn parse(url: &str) -> Result<Endpoint, Failure> {
        let refused = |why: &str| {
            let remedy = "it is http://HOST:4318, of a collector on this machine or in its network";
            Failure::new(Exit::Usage, format!("cannot send metrics to '{url}'"), why, remedy)
        };
        let uri: Uri = url.parse().map_err(|error| refused(&format!("it is no URL: {error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refused("there is no TLS to a collector: send to one on this machine, which has it")),
            _ => return Err(refused("it does not begin with http://")),
        }
        let authority = uri.authority().ok_or_else(|| refused("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("passwords belong into OTEL_EXPORTER_OTLP_HEADERS"));
        }
        if uri.query().is_some() {
            return Err(refused("it has a query"));
        }
        let base = uri.path().trim_end_matches('/').to_owned();
        if base.ends_with("/v1/metrics") || base.ends_with("/v1/logs") {
            return Err(refused("the paths /v1/metrics and /v1/logs are added to it"));
        }
        let headers = match std::env::var(HEADERS_VARIABLE) {
            Ok(text) => headers(&text).ok_or_else(|| refused("OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value"))?,
            Err(_) => Vec::new(),
        };
        // An IPv6 address stands in brackets.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        Ok(Endpoint { host, port, base, headers, url: url.to_owned() })
    }

    /// The path for one kind of data: metrics, logs.
    pub fn path(&self, kind: &str) -> String {
        format!("{}/v1/{kind}", self.base)
    }

    /// The value of the header Host.
    pub fn authority(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

fn headers(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let header = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let mut value = HeaderValue::from_bytes(&percent_decode_str(value.trim()).collect::<Vec<u8>>()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
    };
    pairs.map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_perhaps_a_port_and_a_path() {
        let parse = |url: &str| Endpoint::parse(url).map(|endpoint| (endpoint.authority(), endpoint.path("logs")));
        let is = |url: &str, authority: &str, path: &str| {
            assert_eq!(parse(url).ok(), Some((authority.to_owned(), path.to_owned())), "{url}");
        };
        is("http://localhost", "localhost:4318", "/v1/logs");
        is("http://10.0.0.7:80/otlp/", "10.0.0.7:80", "/otlp/v1/logs");
        is("http://[::1]:4318", "[::1]:4318", "/v1/logs");
        for url in
            ["localhost:4318", "https://localhost", "http://", "ftp://x", "http://u:p@x", "http://x/v1/logs", "http://x?y"]
        {
            assert!(parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn headers_are_those_of_the_environment() {
        let pairs = headers("authorization=Basic%20YTpi, x-tenant=7,").unwrap();
        let text: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(text, [("authorization", "Basic YTpi"), ("x-tenant", "7")]);
        assert!(headers("no value").is_none() && headers("a=b%0Ac").is_none());
    }
}
