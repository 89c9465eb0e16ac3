//! Formats of 64-bit words in the maps of eBPF programs: pairs of numbers, and device numbers. The programs (assets/probe) and this
//! process pack them in the same way.

use crate::ids::DiskId;

/// Two numbers of 32 bits, the first one at the lower address.
pub fn join_halves(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    let (low, high) = bytes.split_at_mut(4);
    low.copy_from_slice(&first.to_ne_bytes());
    high.copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// The inverse of `join_halves`.
pub fn split_halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// `dev_t` of the kernel
pub fn device_number(id: DiskId) -> u32 {
    id.major << 20 | id.minor & 0xf_ffff
}

/// Start of the search for a device in a table: `find_device` in block.bpf.c, `slot_of` in file_systems.bpf.c
pub fn device_hash(number: u32) -> u32 {
    (number >> 20).wrapping_mul(31).wrapping_add(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_as_they_were_written() {
        assert_eq!(split_halves(join_halves(7, u32::MAX)), (7, u32::MAX));
    }
}
