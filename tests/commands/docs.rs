//! README.md and the pages of the book: their commands are run as printed, their outputs are those of the program, their links
//! lead somewhere, their YAML is YAML. `STALLTOP_BLESS=1 cargo test --test commands docs` writes the outputs again.

mod commands;
mod json_keys;
mod links;
mod outputs;
mod place;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The pages with commands.
fn pages_with_commands() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "docs/start.md", "docs/recipes.md", "docs/armed.md"].map(|page| root().join(page)).to_vec();
    pages.extend(fs::read_dir(root().join("docs/symptoms")).unwrap().map(|entry| entry.unwrap().path()));
    pages.sort();
    pages
}

/// Below the root of the source tree.
fn name(page: &Path) -> String {
    page.strip_prefix(root()).unwrap().display().to_string()
}
