//! Links of the pages lead to files and headings that exist; those of the book stay in the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{name, root};

/// The targets of links and pictures: what stands in `](…)`, outside of code.
fn targets(page: &str) -> Vec<String> {
    let (mut found, mut in_block) = (Vec::new(), false);
    for line in page.lines() {
        in_block ^= line.starts_with("```");
        // Every second part is between backquotes.
        let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        let links = text.match_indices("](").filter_map(|(at, _)| Some(text[at + 2..].split_once(')')?.0.to_owned()));
        found.extend(links.filter(|_| !in_block));
    }
    found
}

/// The anchors of the headings, as mdBook and GitHub make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|heading| heading.chars().filter_map(letter).collect()).collect()
}

/// Without `.` and `..`; `None` if it leads out of the source tree.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::CurDir => {}
            component => plain.push(component),
        }
    }
    plain.starts_with(root()).then_some(plain)
}

fn all_pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    for folder in ["docs", "docs/symptoms"] {
        pages.extend(fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages
}

#[test]
fn every_link_leads_somewhere() {
    let summary = root().join("docs/SUMMARY.md");
    let book: BTreeSet<PathBuf> =
        targets(&fs::read_to_string(&summary).unwrap()).iter().map(|page| root().join("docs").join(page)).collect();
    let (mut links, mut wrong) = (0, Vec::new());
    for page in all_pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in targets(&text).iter().filter(|target| !target.contains("://")) {
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { Some(page.clone()) } else { plain(&page.parent().unwrap().join(path)) };
            let Some(path) = path.filter(|path| path.exists()) else {
                wrong.push(format!("{}: {target}: no such file", name(&page)));
                continue;
            };
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            if book.contains(&page) && (!path.starts_with(root().join("docs")) || is_page && !book.contains(&path)) {
                wrong.push(format!("{}: {target} is not in docs/SUMMARY.md", name(&page)));
            }
            if !anchor.is_empty() && !anchors(&fs::read_to_string(&path).unwrap()).contains(anchor) {
                wrong.push(format!("{}: {target}: no such heading", name(&page)));
            }
        }
    }
    assert!(links > 100, "{links} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
