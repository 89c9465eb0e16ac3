//! Payloads as docs/recording-format.md describes them, decompressed without the code under test.

/// The payload of a frame, by its flags: bit 0, it is a zstd frame.
pub fn unpacked(flags: u8, stored: &[u8]) -> Vec<u8> {
    match flags {
        0 => stored.to_vec(),
        1 => zstd::stream::decode_all(stored).unwrap(),
        other => panic!("flags {other}"),
    }
}
