//! Payloads as docs/recording-format.md describes them, unpacked without the code under test.

use std::io::Read;

/// What a payload holds, by the flags of its frame: bit 0, it begins with a zstd frame; bit 1, more follows that as it is.
pub fn unpacked(flags: u8, stored: &[u8]) -> Vec<u8> {
    if flags & 1 == 0 {
        return stored.to_vec();
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stored).unwrap().single_frame();
    let mut payload = Vec::new();
    decoder.read_to_end(&mut payload).unwrap();
    let rest = decoder.finish();
    assert_eq!(rest.is_empty(), flags & 2 == 0, "flags {flags}");
    payload.extend(rest);
    payload
}
