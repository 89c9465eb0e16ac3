//! Who may read the metrics: everybody who can connect, or by a web-config file (Cargo feature `tls`).

use std::path::Path;

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::HeaderMap;

#[cfg(feature = "tls")]
use super::web_config::WebConfig;
use crate::app::program::exit::Failure;

/// The answer to a request that is refused.
type Refusal = Response<Full<Bytes>>;

/// TLS and passwords, if any.
pub struct Access {
    #[cfg(feature = "tls")]
    config: WebConfig,
}

#[cfg(feature = "tls")]
impl Access {
    /// Reads the file; without one there is neither TLS nor a password.
    pub fn load(file: Option<&Path>) -> Result<Access, Failure> {
        let config = file.map_or_else(|| Ok(WebConfig::default()), WebConfig::load)?;
        Ok(Access { config })
    }

    pub fn scheme(&self) -> &'static str {
        if self.config.tls.is_some() { "https" } else { "http" }
    }

    /// Does the handshakes; `None`: unencrypted.
    pub fn tls(&self) -> Option<&tokio_rustls::TlsAcceptor> {
        self.config.tls.as_ref()
    }

    /// The answer to a request without the right user and password; `None`: it may be answered.
    pub async fn refusal(&self, headers: &HeaderMap) -> Option<Refusal> {
        self.config.users.refusal(headers).await
    }
}

#[cfg(not(feature = "tls"))]
impl Access {
    /// Fails where there is a file.
    pub fn load(file: Option<&Path>) -> Result<Access, Failure> {
        use crate::app::program::exit::{Exit, quoted};
        let Some(file) = file else { return Ok(Access {}) };
        let why = "this stalltop was built without TLS and passwords";
        let remedy = "build it with --features tls, or serve on 127.0.0.1 behind a reverse proxy";
        Err(Failure::new(Exit::Usage, format!("cannot use {}", quoted(file)), why, remedy))
    }

    pub fn scheme(&self) -> &'static str {
        "http"
    }

    /// Every request may be answered.
    pub async fn refusal(&self, _: &HeaderMap) -> Option<Refusal> {
        None
    }
}
