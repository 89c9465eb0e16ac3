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
        let keys: Vec<String> = words(binding.key_label);
        let screens = match binding.screens {
            Screens::Sortable => "with a list".to_owned(),
            screens => screens.digits().unwrap_or_else(|| "all".to_owned()),
        };
        let _ = writeln!(text, "| {} | {} | {screens} |", keys.join(" "), binding.description.replace('|', "\\|"));
    }
    text + OTHER_KEYS
}

/// Keys of the table of bindings that the help page has no room for.
const OTHER_KEYS: &str = "
`F3` and `\\` are as `/`, and `=` is as `+`. `Shift-Tab` goes to the previous pane.
";

/// The keys as code. A slash between two of them stays text, the key `/` does not.
fn words(label: &str) -> Vec<String> {
    let is_separator = |word: &str| word == "/" && label != "/";
    let code = |word: &str| if is_separator(word) { word.to_owned() } else { format!("`{}`", word.replace('|', "\\|")) };
    label.split_whitespace().map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_on_the_page() {
        let page = render();
        let is_named = |key: &str| {
            page.split([' ', '`', '(', ')', ',', ';', '\n']).any(|word| word == key) || page.contains(&format!("`{key}`"))
        };
        let keys = BINDINGS.iter().flat_map(|binding| binding.keys).map(|(key, _)| key.label());
        let missing: Vec<String> = keys.filter(|key| !is_named(key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_slash_is_a_key_only_where_it_stands_alone() {
        assert_eq!([words("Enter / Esc").join(" "), words("/").join(" ")], ["`Enter` / `Esc`", "`/`"]);
    }
}
