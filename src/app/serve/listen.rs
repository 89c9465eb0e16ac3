//! Opens the listening socket: on a loopback address, unless the user allows others.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::app::program::exit::{Exit, Failure};

/// Listens, or says in one line why not and what to do.
pub fn listen(address: SocketAddr, allow_remote: bool) -> Result<TcpListener, Failure> {
    let what = format!("cannot listen on {address}");
    if !is_loopback(address.ip()) && !allow_remote {
        let why = "other machines could read the metrics there, which name processes, devices and cgroups";
        return Err(Failure::new(Exit::Usage, what, why, "add --allow-remote, or use 127.0.0.1"));
    }
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| {
        let next = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(9709));
        match error.kind() {
            ErrorKind::AddrInUse => {
                let why = format!("another program listens on port {}", address.port());
                let port = address.port();
                Failure::new(
                    Exit::Failed,
                    what,
                    why,
                    format!("find it with 'ss -ltnp sport = :{port}', or try --listen {next}"),
                )
            }
            ErrorKind::AddrNotAvailable => {
                Failure::new(Exit::Failed, what, "this machine has no such address", "'ip address' lists its addresses")
            }
            ErrorKind::PermissionDenied => {
                Failure::new(Exit::Refused, what, error, "ports below 1024 need CAP_NET_BIND_SERVICE: use a higher one")
            }
            _ => Failure::new(Exit::Failed, what, error, "try another --listen ADDR"),
        }
    })
}

/// Also of an IPv4 address written as IPv6.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_needs_no_permission() {
        for (address, loopback) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("10.0.0.7", false),
            ("::ffff:10.0.0.7", false),
            ("fe80::1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(is_loopback(address), loopback, "{address}");
            if !loopback {
                let failure = listen(SocketAddr::new(address, 0), false).unwrap_err();
                assert_eq!(failure.exit, Exit::Usage);
                assert!(failure.to_string().contains("--allow-remote"), "{failure}");
            }
        }
    }

    #[test]
    fn a_port_in_use_is_named_with_what_to_do() {
        let first = listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = first.local_addr().unwrap();
        let line = listen(address, false).unwrap_err().to_string();
        let port = address.port();
        assert!(line.starts_with(&format!("cannot listen on {address}: another program listens on port {port}: ")), "{line}");
        assert!(line.contains("--listen 127.0.0.1:"), "{line}");
    }
}
