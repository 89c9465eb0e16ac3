//! docs/keys.md, generated from the table of key bindings.

use std::fmt::Write;

use super::keys::{BINDINGS, Screens};
use super::screen::Screen;

const HEADING: &str = "\
# Keys

<!-- Generated from BINDINGS in src/state/keys.rs: change it there, then STALLTOP_BLESS=1 cargo test --test generated_files -->

`?` shows this list on the screen, `:` searches it. A prompt at the bottom of the screen takes the usual keys of a shell's line, and
Esc leaves it.

";

/// The page.
pub fn render() -> String {
    let mut text = HEADING.to_owned();
    let screens: Vec<String> = Screen::ALL.iter().map(|screen| format!("`{}` {}", screen.digit(), screen.label())).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "The screens are {}.\n", screens.join(", "));
    text.push_str("| keys | what they do | screens |\n| --- | --- | --- |\n");
    for binding in BINDINGS {
        let keys: Vec<String> = binding.key_label.split_whitespace().map(key).collect();
        let screens = match binding.screens {
            Screens::Sortable => "with a list".to_owned(),
            screens => screens.digits().unwrap_or_else(|| "all".to_owned()),
        };
        let _ = writeln!(text, "| {} | {} | {screens} |", keys.join(" "), binding.description.replace('|', "\\|"));
    }
    text
}

/// A key as code; the slash between two groups stays text, the key `/` does not.
fn key(word: &str) -> String {
    format!("`{}`", word.replace('|', "\\|"))
}
