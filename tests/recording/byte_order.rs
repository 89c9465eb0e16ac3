//! A recording is the same on every machine: no code that reads or writes one uses the machine's byte order.

use std::path::{Path, PathBuf};

fn sources(directory: &Path, list: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, list);
        } else {
            list.push(path);
        }
    }
}

#[test]
fn no_number_is_read_or_written_in_native_byte_order() {
    let mut list = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recording"), &mut list);
    assert!(list.len() > 20, "{list:?}");
    for path in list {
        let text = std::fs::read_to_string(&path).unwrap();
        for native in ["_ne_bytes", "transmute", "from_raw_parts", "align_to", "read_unaligned", "target_endian", "unsafe"] {
            assert!(!text.contains(native), "{}: {native}", path.display());
        }
    }
}
