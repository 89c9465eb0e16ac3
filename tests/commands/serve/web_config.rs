//! `--web-config`: TLS and passwords as other programs see them (curl, openssl, promtool). Needs the feature `tls`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::program;

/// Exit code and message of `serve` with this file.
fn refused(text: Option<&str>) -> (Option<i32>, String) {
    refused_in(tempfile::tempdir().unwrap().path(), text)
}

/// The same beside what is in this directory.
fn refused_in(folder: &Path, text: Option<&str>) -> (Option<i32>, String) {
    let file = folder.join("web.yml");
    if let Some(text) = text {
        fs::write(&file, text).unwrap();
    }
    let mut command = Command::new(program());
    let output: Output = command.args(["serve", "--listen", "127.0.0.1:0", "--web-config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    (output.status.code(), said.replace(&folder.display().to_string(), "DIR"))
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_the_feature_a_web_config_is_an_error() {
    let (code, said) = refused(Some("basic_auth_users: {}\n"));
    assert!(code == Some(2) && said.contains("--features tls"), "{said}");
}

#[cfg(feature = "tls")]
mod with_tls {
    use super::*;
    use crate::serve::metrics::has_promtool;
    use crate::serve::server::Server;

    /// Runs a program of the system in this directory; prints that it is missing, or fails with its words.
    fn run(folder: &Path, words: &str) -> Option<String> {
        let mut words = words.split(' ');
        let program = words.next().unwrap();
        let Ok(output) = Command::new(program).args(words).current_dir(folder).output() else {
            println!("skipped: {program} is not installed");
            return None;
        };
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// An authority (ca.crt), and certificates of localhost and of a client that it has signed.
    fn certificates(folder: &Path) -> Option<()> {
        fs::write(folder.join("server.ext"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        fs::write(folder.join("client.ext"), "extendedKeyUsage=clientAuth\n").unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        run(folder, &format!("openssl req -x509 {key} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority"))?;
        for name in ["server", "client"] {
            run(folder, &format!("openssl req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"))?;
            let sign = format!("openssl x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial");
            run(folder, &format!("{sign} -out {name}.crt -days 2 -extfile {name}.ext"))?;
        }
        Some(())
    }

    /// Status of an answer by curl; 000 without one.
    fn curl(folder: &Path, options: &str, url: &str) -> Option<String> {
        let mut command = Command::new("curl");
        command.args(["-s", "-o", "body", "-w", "%{http_code}", "--max-time", "20", "--retry", "20", "--retry-delay", "0"]);
        command.args(options.split_whitespace()).arg(url).current_dir(folder);
        let Ok(output) = command.output() else {
            println!("skipped: curl is not installed");
            return None;
        };
        Some(String::from_utf8(output.stdout).unwrap())
    }

    fn start(folder: &Path, config: &str) -> Server {
        fs::write(folder.join("web.yml"), config).unwrap();
        if has_promtool() {
            run(folder, "promtool check web-config web.yml");
        }
        Server::spawn(&["-i", "200ms", "--web-config", &folder.join("web.yml").display().to_string()])
    }

    #[test]
    fn a_password_is_needed_and_all_is_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(()) = certificates(folder) else { return };
        let hash = bcrypt::hash("secret", 4).unwrap();
        let config = format!(
            "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  min_version: TLS13\n\
             basic_auth_users:\n  prometheus: {hash}\n"
        );
        let server = start(folder, &config);
        let url = format!("https://localhost:{}/metrics", server.address.port());
        // 503 until there is an interval: curl tries again.
        let Some(status) = curl(folder, "--cacert ca.crt -u prometheus:secret", &url) else { return };
        assert_eq!(status, "200");
        assert!(fs::read_to_string(folder.join("body")).unwrap().contains("stalltop_cpus"));
        assert_eq!(curl(folder, "--cacert ca.crt --retry 0", &url).unwrap(), "401");
        let wrong = curl(folder, "--cacert ca.crt --retry 0 -u prometheus:wrong", &url).unwrap();
        assert!(["401", "429"].contains(&wrong.as_str()), "{wrong}");
        assert_eq!(curl(folder, "--cacert ca.crt -u prometheus:secret", &url).unwrap(), "200");
        assert_eq!(curl(folder, "--cacert ca.crt --tls-max 1.2 --retry 0", &url).unwrap(), "000", "TLS 1.3 at least");
        assert_eq!(curl(folder, "--retry 0", &url).unwrap(), "000", "signed by an authority that curl does not know");
        assert_eq!(curl(folder, "--retry 0", &url.replace("https", "http")).unwrap(), "000", "not without TLS");
        assert_eq!(server.request("GET /metrics HTTP/1.0\r\n\r\n").0, 0, "an alert of TLS at most");
        assert_eq!(curl(folder, "--cacert ca.crt -u prometheus:secret", &url).unwrap(), "200", "it serves on");
    }

    #[test]
    fn a_certificate_of_the_client_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(()) = certificates(folder) else { return };
        let config = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  client_ca_file: ca.crt\n  \
                      client_auth_type: RequireAndVerifyClientCert\n";
        let server = start(folder, config);
        let url = format!("https://localhost:{}/metrics", server.address.port());
        let authorised = || curl(folder, "--cacert ca.crt --cert client.crt --key client.key", &url);
        let Some(status) = authorised() else { return };
        assert_eq!(status, "200");
        assert_eq!(curl(folder, "--cacert ca.crt --retry 0", &url).unwrap(), "000");
        assert_eq!(authorised().unwrap(), "200", "it serves on");
    }

    /// A client that begins no handshake is closed.
    #[test]
    fn a_silent_client_ends() {
        use std::io::{ErrorKind, Read};
        let folder = tempfile::tempdir().unwrap();
        let Some(()) = certificates(folder.path()) else { return };
        let server = start(folder.path(), "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n");
        let mut stream = server.connect();
        // It waits for `PATIENCE`.
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        }
        let url = format!("https://localhost:{}/metrics", server.address.port());
        let Some(status) = curl(folder.path(), "--cacert ca.crt", &url) else { return };
        assert_eq!(status, "200", "it serves on");
    }

    #[test]
    fn certificates_and_keys_that_cannot_serve_are_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let Some(()) = certificates(folder) else { return };
        fs::write(folder.join("empty.crt"), "").unwrap();
        let server = "cert_file: server.crt\n  key_file: server.key\n";
        let require = "client_auth_type: RequireAndVerifyClientCert\n";
        for (config, expected) in [
            ("cert_file: server.crt\n  key_file: client.key\n".to_owned(), "DIR/server.crt': "),
            ("cert_file: server.crt\n  key_file: server.crt\n".to_owned(), "DIR/server.crt': "),
            ("cert_file: empty.crt\n  key_file: server.key\n".to_owned(), "DIR/empty.crt': there is no certificate in it"),
            ("cert_file: missing.crt\n  key_file: server.key\n".to_owned(), "DIR/missing.crt': "),
            (format!("{server}  {require}"), "add client_ca_file\n"),
            (format!("{server}  client_ca_file: empty.crt\n  {require}"), "DIR/empty.crt': there is no certificate in it"),
            (format!("{server}  client_ca_file: missing.crt\n  {require}"), "DIR/missing.crt': "),
        ] {
            let (code, said) = refused_in(folder, Some(&format!("tls_server_config:\n  {config}")));
            assert!(
                code == Some(1) && said.starts_with("stalltop: cannot use '") && said.contains(expected),
                "{config}: {said}"
            );
        }
        let (_, said) = refused_in(folder, Some("tls_server_config:\n  cert_file: server.crt\n  key_file: client.key\n"));
        assert!(said.ends_with(": certificate and key must belong together\n"), "{said}");
    }

    #[test]
    fn a_wrong_file_is_one_line() {
        for (text, expected) in [
            (None, "cannot use 'DIR/web.yml': No such file"),
            (Some("tls_server_config: [1\n"), "cannot use 'DIR/web.yml': "),
            (Some("basic_auth_user: {}\n"), "unknown field `basic_auth_user`"),
            (Some("basic_auth_users:\n  a: secret\n"), "the password of a is no bcrypt hash: make it with 'htpasswd"),
            (Some("tls_server_config:\n  cert_file: x\n"), "missing field `key_file`"),
            (Some("tls_server_config:\n  cert_file: x\n  key_file: y\n"), "cannot use 'DIR/y': "),
            (Some("tls_server_config:\n  cert_file: x\n  key_file: y\n  client_ca_file: z\n"), "add client_auth_type"),
            (Some("tls_server_config:\n  cert_file: x\n  key_file: y\n  min_version: TLS10\n"), "unknown variant `TLS10`"),
            (Some("&a [*a, *a]\n"), "cannot use 'DIR/web.yml': "),
        ] {
            let (code, said) = refused(text);
            assert!(code == Some(1) && said.contains(expected), "{text:?}: {said}");
        }
    }
}
