//! The fuzz targets on their corpus, with any compiler: an input that once failed is tested for ever. tests/fuzz does the fuzzing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "fuzz/targets.rs"]
mod targets;

use std::fs;
use std::path::Path;

use targets::{TARGETS, recordings};

/// `STALLTOP_BLESS=1` writes the seeds again, after a change of the format.
#[test]
fn every_target_survives_its_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    if std::env::var_os("STALLTOP_BLESS").is_some() {
        for (number, (target, bytes)) in recordings::seeds().into_iter().enumerate() {
            fs::create_dir_all(corpus.join(target)).unwrap();
            fs::write(corpus.join(target).join(format!("seed-{number}")), bytes).unwrap();
        }
    }
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            println!("{name}: {}", input.display());
            target(&fs::read(&input).unwrap());
        }
    }
}

#[test]
fn every_target_survives_the_seeds_of_the_recordings() {
    for (name, bytes) in recordings::seeds() {
        let (_, target) = TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
        target(&bytes);
    }
}

/// Each target is a program, and each program a target.
#[test]
fn the_package_names_every_target() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
    let manifest: toml::Table = fs::read_to_string(package.join("Cargo.toml")).unwrap().parse().unwrap();
    let mut programs: Vec<&str> = manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap()).collect();
    let mut targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    programs.sort_unstable();
    targets.sort_unstable();
    assert_eq!(programs, targets);
    for target in targets {
        let source = fs::read_to_string(package.join(format!("fuzz_targets/{target}.rs"))).unwrap();
        assert!(source.contains(&format!("targets::{target}(")), "{target}");
    }
}
