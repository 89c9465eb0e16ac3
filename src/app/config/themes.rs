//! Themes of the user: `themes/NAME.toml` beside the user's configuration, with `base = "dark"` and colors as `critical = "#ff7a70"`.

use std::fs;
use std::path::Path;

use super::file::{ConfigFile, user_config_path};
use crate::state::theme_choice::{NamedTheme, Purpose, Rgb, ThemeChoice, ThemeColors};
use crate::units::SmallSort;
use crate::view::theme::colors::built_in_themes;

/// Files that are read at most.
const MAX_THEMES: usize = 100;

/// The themes of the program and of the user, and a line for each file that is no theme.
pub fn all_themes() -> (Vec<ThemeChoice>, Vec<String>) {
    let mut themes: Vec<ThemeChoice> = built_in_themes().collect();
    let mut problems = Vec::new();
    let directory = user_config_path().and_then(|file| Some(file.parent()?.join("themes")));
    let mut files: Vec<_> = directory.into_iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten().collect();
    files.small_sort_by_key(fs::DirEntry::file_name);
    for file in files.into_iter().take(MAX_THEMES) {
        let path = file.path();
        let Some(name) =
            path.file_stem().and_then(|name| name.to_str()).filter(|_| path.extension().is_some_and(|e| e == "toml"))
        else {
            continue;
        };
        match read_theme(&path, name) {
            Ok(_) if themes.iter().any(|theme| theme.name() == name) => {
                problems.push(format!("theme {}: the program has a theme of that name", path.display()));
            }
            Ok(theme) => themes.push(theme),
            Err(why) => problems.push(format!("theme {}: {why}", path.display())),
        }
    }
    (themes, problems)
}

fn read_theme(path: &Path, name: &str) -> Result<ThemeChoice, String> {
    let file = ConfigFile { path: path.to_owned(), explicit: true };
    let text = file.read_safely().map_err(|error| error.into_failure(&file).to_string())?;
    let colors = parse_theme(&text.unwrap_or_default())?;
    // A theme lives as long as the program.
    Ok(ThemeChoice::Colors(Box::leak(Box::new(NamedTheme { name: name.to_owned(), colors }))))
}

/// The colors of the base, changed by those of the file.
fn parse_theme(text: &str) -> Result<ThemeColors, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let base = table.get("base").map_or(Some("dark"), toml::Value::as_str).ok_or("base is not the name of a theme")?;
    let base_colors = built_in_themes().find_map(|theme| match theme {
        ThemeChoice::Colors(theme) if theme.name == base => Some(theme.colors),
        _ => None,
    });
    let mut colors = base_colors.ok_or_else(|| format!("no theme '{base}' with colors"))?;
    for (key, value) in table.iter().filter(|(key, _)| *key != "base") {
        let purpose = Purpose::ALL.into_iter().find(|purpose| purpose.key() == key).ok_or_else(|| {
            let known: Vec<&str> = Purpose::ALL.iter().map(|purpose| purpose.key()).collect();
            format!("unknown key '{key}': the keys are base, {}", known.join(", "))
        })?;
        let color = value.as_str().and_then(parse_color).ok_or_else(|| format!("{key} is not a color such as \"#ff7a70\""))?;
        colors.set(purpose, color);
    }
    Ok(colors)
}

fn parse_color(text: &str) -> Option<Rgb> {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some([red, green, blue])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_changes_the_colors_of_its_base() {
        let colors = parse_theme("base = \"light\"\ncritical = \"#102030\"\n").unwrap();
        assert_eq!(colors.color(Purpose::Critical), [0x10, 0x20, 0x30]);
        assert_eq!(colors.color(Purpose::Background), [0xff; 3]);
        assert_eq!(parse_theme("").unwrap().color(Purpose::Background), [0x16, 0x18, 0x1d], "dark is the base");
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        for (text, why) in [
            ("critcal = \"#102030\"", "unknown key 'critcal'"),
            ("critical = \"red\"", "critical is not a color such as"),
            ("critical = \"#1020é\"", "critical is not a color such as"),
            ("base = \"terminal\"", "no theme 'terminal' with colors"),
            ("base = 1", "base is not the name"),
            ("=", ""),
        ] {
            let found = parse_theme(text).unwrap_err();
            assert!(found.contains(why) && !found.contains('\n'), "{text}: {found}");
        }
    }
}
