//! Numbers as docs/recording-format.md describes them, read without the code under test.

/// Removes a varint from the front.
pub fn take_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in 0.. {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            break;
        }
    }
    value
}
