//! Reads speed and duplex of a network interface from its driver (SIOCETHTOOL). Needs no privilege.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::kernel::root::absent_from_errno;
use crate::kernel::sys;
use crate::sample::network::Duplex;
use crate::sample::{Absent, Reading};

/// A socket for the requests.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens the socket.
    pub fn open() -> Reading<Ethtool> {
        socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map(|socket| Ethtool { socket })
            .map_err(absent_from_errno)
    }

    /// ETHTOOL_GLINKSETTINGS: speed in Mbit/s (32 bits, all ones where unknown), and duplex where the driver knows it.
    pub fn link_settings(&self, interface: &[u8]) -> Reading<(u32, Option<Duplex>)> {
        let request =
            |mask_words| sys::ethtool_link_settings(self.socket.as_fd(), interface, mask_words).map_err(absent_from_errno);
        // The first answer only has the size of a link mode mask in words, as a negative number.
        let mask_words =
            request(0)?.link_mode_masks_nwords.checked_neg().filter(|&words| words > 0).ok_or(Absent::Malformed)?;
        let settings = request(mask_words)?;
        Ok((settings.speed, parse_duplex(settings.duplex)))
    }

    /// ETHTOOL_GSET, the request of nicstat 1.95: the lower 16 bits of the speed, so that 100 Gbit/s reads 34464 and unknown
    /// 65535.
    pub fn legacy_link_settings(&self, interface: &[u8]) -> Reading<(u16, Option<Duplex>)> {
        let settings = sys::ethtool_legacy_settings(self.socket.as_fd(), interface).map_err(absent_from_errno)?;
        Ok((settings.speed, parse_duplex(settings.duplex)))
    }
}

/// DUPLEX_HALF and DUPLEX_FULL of include/uapi/linux/ethtool.h.
fn parse_duplex(value: u8) -> Option<Duplex> {
    match value {
        0 => Some(Duplex::Half),
        1 => Some(Duplex::Full),
        _ => None,
    }
}
