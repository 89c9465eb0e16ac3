//! ETHTOOL_GLINKSETTINGS: speed and duplex as the driver has them, full 32 bits wide. Any user may ask.

use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::kernel::root::absent_from_io_error;
use crate::sample::network::Duplex;
use crate::sample::{Absent, Reading};

const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const ETHTOOL_GSET: u32 = 0x01;

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

/// struct ethtool_cmd of include/uapi/linux/ethtool.h: the old form, with 16 bits for the speed.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct LegacySettings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex: u8,
    /// port, phy_address, transceiver, autoneg, mdio_support
    others: [u8; 5],
    /// maxtxpkt, maxrxpkt
    coalescing: [u32; 2],
    speed_high: u16,
    /// eth_tp_mdix, eth_tp_mdix_ctrl
    crossover: [u8; 2],
    lp_advertising: u32,
    reserved: [u32; 2],
}

// The kernel copies as many bytes as its own struct has, whatever the length of ours.
const _: () = assert!(size_of::<LegacySettings>() == 44);
const _: () = assert!(offset_of!(LegacySettings, speed) == 12 && offset_of!(LegacySettings, reserved) == 36);
const _: () = assert!(offset_of!(LinkSettings, masks) == 48 && size_of::<LinkSettings>() == 48 + 4 * 3 * 127);

/// A socket to ask over.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    pub fn open() -> Reading<Ethtool> {
        socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map(|socket| Ethtool { socket })
            .map_err(|errno| absent_from_io_error(&errno.into()))
    }

    /// Raw speed in megabits a second, and duplex where the driver knows it.
    pub fn link_settings(&self, interface: &[u8]) -> Reading<(u32, Option<Duplex>)> {
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
        self.request(interface, std::ptr::from_mut(&mut settings).cast())?;
        // The first answer only says, as a negative number, how many words a mask has.
        let words = settings.mask_words.checked_neg().filter(|words| *words > 0).ok_or(Absent::Malformed)?;
        settings.command = ETHTOOL_GLINKSETTINGS;
        settings.mask_words = words;
        self.request(interface, std::ptr::from_mut(&mut settings).cast())?;
        Ok((settings.speed, parse_duplex(settings.duplex)))
    }

    /// The same as programs of before 2016 ask it: 16 bits of the speed, so that 100 Gbit/s reads 34464 and unknown 65535.
    pub fn legacy_link_settings(&self, interface: &[u8]) -> Reading<(u16, Option<Duplex>)> {
        let mut settings = LegacySettings { command: ETHTOOL_GSET, ..LegacySettings::default() };
        self.request(interface, std::ptr::from_mut(&mut settings).cast())?;
        Ok((settings.speed, parse_duplex(settings.duplex)))
    }

    /// `settings` is as large as the command in its first word says.
    fn request(&self, interface: &[u8], settings: *mut libc::c_char) -> Reading<()> {
        // SAFETY: ifreq is plain integers, pointers and bytes, for all of which zeros are a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays the zero that ends the name.
        if interface.len() >= request.ifr_name.len() {
            return Err(Absent::Malformed);
        }
        for (to, from) in request.ifr_name.iter_mut().zip(interface) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = settings;
        // SAFETY: the kernel writes into `settings` only: an ethtool_cmd of 44 bytes, or the header and three masks of
        // `mask_words` words, for which there is room whatever the i8 says; both outlive the call.
        unsafe { siocethtool(self.socket.as_raw_fd(), &mut request) }.map_err(|errno| absent_from_io_error(&errno.into()))?;
        Ok(())
    }
}

fn parse_duplex(value: u8) -> Option<Duplex> {
    match value {
        0 => Some(Duplex::Half),
        1 => Some(Duplex::Full),
        _ => None,
    }
}
