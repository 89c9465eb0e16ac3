//! The web-config file, as Prometheus' exporter toolkit has it: YAML with `tls_server_config` and `basic_auth_users`. A setting that
//! is not known is an error: one that is ignored might be the one that protects. Read once, at the start.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::basic_auth::Users;
use crate::app::program::exit::{Exit, Failure, quoted};

/// What the file asks for; by default nothing.
#[derive(Default)]
pub struct WebConfig {
    pub tls: Option<TlsAcceptor>,
    pub users: Users,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tls_server_config: Option<TlsServerConfig>,
    /// User, and bcrypt hash of the password
    basic_auth_users: Option<BTreeMap<String, String>>,
}

/// Paths are relative to the directory of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsServerConfig {
    cert_file: PathBuf,
    key_file: PathBuf,
    #[serde(default)]
    client_auth_type: ClientAuth,
    client_ca_file: Option<PathBuf>,
    #[serde(default)]
    min_version: MinVersion,
}

/// The toolkit has others that check less.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
enum ClientAuth {
    #[default]
    NoClientCert,
    RequireAndVerifyClientCert,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
enum MinVersion {
    #[default]
    TLS12,
    TLS13,
}

impl WebConfig {
    pub fn load(path: &Path) -> Result<WebConfig, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unusable(path, error, ""))?;
        let remedy = "its settings are tls_server_config and basic_auth_users: docs/serve.md";
        let file: File = serde_norway::from_str(&text).map_err(|error| unusable(path, error, remedy))?;
        let users = Users::new(file.basic_auth_users.unwrap_or_default()).map_err(|why| unusable(path, why, BCRYPT_REMEDY))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let tls = file.tls_server_config.map(|tls| tls.acceptor(path, folder)).transpose()?;
        Ok(WebConfig { tls, users })
    }
}

const BCRYPT_REMEDY: &str = "make it with 'htpasswd -nBC 10 USER'";

impl TlsServerConfig {
    fn acceptor(&self, path: &Path, folder: &Path) -> Result<TlsAcceptor, Failure> {
        let versions: &[&SupportedProtocolVersion] = match self.min_version {
            MinVersion::TLS12 => &[&version::TLS13, &version::TLS12],
            MinVersion::TLS13 => &[&version::TLS13],
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
        let builder = builder.map_err(|error| unusable(path, error, ""))?;
        let builder = match (self.client_auth_type, &self.client_ca_file) {
            (ClientAuth::NoClientCert, None) => builder.with_no_client_auth(),
            (ClientAuth::RequireAndVerifyClientCert, Some(file)) => {
                let file = folder.join(file);
                let mut roots = RootCertStore::empty();
                for certificate in certificates(&file)? {
                    roots.add(certificate).map_err(|error| unusable(&file, error, ""))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| unusable(&file, error, ""))?)
            }
            (ClientAuth::NoClientCert, Some(_)) => {
                let remedy = "add client_auth_type: RequireAndVerifyClientCert";
                return Err(unusable(path, "client_ca_file alone requires no certificate of clients", remedy));
            }
            (ClientAuth::RequireAndVerifyClientCert, None) => {
                return Err(unusable(
                    path,
                    "client_auth_type needs the certificates that clients' are signed with",
                    "add client_ca_file",
                ));
            }
        };
        let (cert_file, key_file) = (folder.join(&self.cert_file), folder.join(&self.key_file));
        let key =
            PrivateKeyDer::from_pem_file(&key_file).map_err(|error| unusable(&key_file, error, "it needs a key in PEM"))?;
        let config = builder.with_single_cert(certificates(&cert_file)?, key);
        let config = config.map_err(|error| unusable(&cert_file, error, "certificate and key must belong together"))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let remedy = "it needs certificates in PEM";
    let all = CertificateDer::pem_file_iter(file).and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
    let all = all.map_err(|error| unusable(file, error, remedy))?;
    if all.is_empty() { Err(unusable(file, "there is no certificate in it", remedy)) } else { Ok(all) }
}

fn unusable(path: &Path, why: impl Display, remedy: &str) -> Failure {
    Failure::new(Exit::Failed, format!("cannot use {}", quoted(path)), why, remedy)
}
