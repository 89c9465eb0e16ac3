//! The supply chain: crates pinned by checksum, and the number of `unsafe` blocks.

use std::fs;
use std::path::{Path, PathBuf};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_crate_is_pinned_and_from_the_registry() {
    let lock: toml::Table = fs::read_to_string(project().join("Cargo.lock")).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let text = |package: &toml::Value, key: &str| package.get(key).and_then(|it| it.as_str()).map(str::to_owned);
    let mut own = Vec::new();
    for package in packages {
        let name = text(package, "name").unwrap();
        let Some(source) = text(package, "source") else {
            own.push(name);
            continue;
        };
        assert_eq!(source, "registry+https://github.com/rust-lang/crates.io-index", "{name}");
        let checksum = text(package, "checksum").unwrap_or_default();
        assert!(checksum.len() == 64 && checksum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name} has no checksum");
    }
    assert_eq!(own, ["stalltop"]);
}

#[test]
fn the_page_states_the_number_of_unsafe_blocks() {
    let mut files = vec![project().join("src")];
    let mut blocks = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(&path).unwrap().map(|entry| -> PathBuf { entry.unwrap().path() }));
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        blocks += code.filter(|line| line.contains("unsafe {")).count();
        assert!(!source.contains("unsafe impl") && !source.contains("unsafe fn "), "{}", path.display());
    }
    let page = fs::read_to_string(project().join("docs/faults.md")).unwrap();
    assert!(page.contains(&format!("{blocks} `unsafe` blocks")), "docs/faults.md, case 100: there are {blocks}");
}
