//! ETHTOOL_GLINKSETTINGS: speed and duplex as the driver has them, full 32 bits wide. Any user may ask.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::kernel::root::absent;
use crate::sample::network::Duplex;
use crate::sample::{Absent, Reading};

const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;

nix::ioctl_readwrite_bad!(siocethtool, libc::SIOCETHTOOL, libc::ifreq);

/// struct ethtool_link_settings, with room for the masks of link modes behind it.
#[repr(C)]
#[derive(Clone, Copy)]
struct LinkSettings {
    command: u32,
    speed: u32,
    duplex: u8,
    port: u8,
    phy_address: u8,
    autonegotiation: u8,
    mdio_support: u8,
    mdix: u8,
    mdix_control: u8,
    mask_words: i8,
    others: [u8; 4],
    reserved: [u32; 7],
    masks: [u32; 3 * 127],
}

/// A socket to ask over.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    pub fn open() -> Reading<Ethtool> {
        socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map(|socket| Ethtool { socket })
            .map_err(|errno| absent(&errno.into()))
    }

    /// Raw speed in megabits a second, and duplex where the driver knows it.
    pub fn link(&self, interface: &[u8]) -> Reading<(u32, Option<Duplex>)> {
        let mut settings = LinkSettings {
            command: ETHTOOL_GLINKSETTINGS,
            speed: 0,
            duplex: 0,
            port: 0,
            phy_address: 0,
            autonegotiation: 0,
            mdio_support: 0,
            mdix: 0,
            mdix_control: 0,
            mask_words: 0,
            others: [0; 4],
            reserved: [0; 7],
            masks: [0; 3 * 127],
        };
        self.ask(interface, &mut settings)?;
        // The first answer only says, as a negative number, how many words a mask has.
        let words = settings.mask_words.checked_neg().filter(|words| *words > 0).ok_or(Absent::Malformed)?;
        settings.command = ETHTOOL_GLINKSETTINGS;
        settings.mask_words = words;
        self.ask(interface, &mut settings)?;
        let duplex = match settings.duplex {
            0 => Some(Duplex::Half),
            1 => Some(Duplex::Full),
            _ => None,
        };
        Ok((settings.speed, duplex))
    }

    fn ask(&self, interface: &[u8], settings: &mut LinkSettings) -> Reading<()> {
        // SAFETY: ifreq is plain integers, pointers and bytes, for all of which zeros are a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays the zero that ends the name.
        if interface.len() >= request.ifr_name.len() {
            return Err(Absent::Malformed);
        }
        for (to, from) in request.ifr_name.iter_mut().zip(interface) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(settings).cast();
        // SAFETY: the kernel writes into `settings` only, at most the header and three masks of `mask_words`
        // words, for which there is room whatever the i8 says; both outlive the call.
        unsafe { siocethtool(self.socket.as_raw_fd(), &mut request) }.map_err(|errno| absent(&errno.into()))?;
        Ok(())
    }
}
