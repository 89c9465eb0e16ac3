//! Colors and characters that the terminal supports, from environment variables and options.

use super::theme_choice::ThemeChoice;

/// Colors and characters that may be used in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalCapabilities {
    pub colors: ColorSupport,
    pub glyphs: GlyphSet,
    /// Which colors are used
    pub theme: ThemeChoice,
}

/// Number of colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorSupport {
    /// NO_COLOR is set or the terminal has no colors: bold, dim and reverse only
    None,
    /// The 16 ANSI colors
    #[default]
    Ansi16,
    /// 256
    Ansi256,
    /// 24 bits
    TrueColor,
}

/// Character set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlyphSet {
    #[default]
    Unicode,
    /// `--ascii`, a locale that is not UTF-8 (including C and POSIX), or a Linux or serial console
    Ascii,
}

impl TerminalCapabilities {
    /// Detects them from environment variables, which `variable` returns by name. `option` overrides the character set.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>, option: Option<GlyphSet>) -> TerminalCapabilities {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let colours = if set("NO_COLOR").is_some() || term == "dumb" || term.starts_with("vt") {
            ColorSupport::None
        } else if set("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit") || term.contains("direct") {
            ColorSupport::TrueColor
        } else if term.contains("256") || set("COLORTERM").is_some() {
            ColorSupport::Ansi256
        } else {
            ColorSupport::Ansi16
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default().to_lowercase();
        // No locale at all (ssh with an empty environment): the remote terminal is UTF-8. ASCII only if the locale names another
        // encoding, or on the Linux console, which has 256 glyphs, or on a serial console.
        let names_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let names_another = (locale.contains('.') || matches!(locale.as_str(), "c" | "posix")) && !names_utf8;
        let serial = term.starts_with("vt") && !names_utf8;
        let plain = names_another || serial || term == "linux" || term == "dumb";
        TerminalCapabilities {
            colors: colours,
            glyphs: option.unwrap_or(if plain { GlyphSet::Ascii } else { GlyphSet::Unicode }),
            theme: ThemeChoice::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(pairs: &[(&str, &str)]) -> TerminalCapabilities {
        detect_with_option(pairs, None)
    }

    fn detect_with_option(pairs: &[(&str, &str)], option: Option<GlyphSet>) -> TerminalCapabilities {
        TerminalCapabilities::from_env(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()), option)
    }

    #[test]
    fn capabilities_come_from_the_environment() {
        assert_eq!(detect(&[("TERM", "xterm-256color")]).colors, ColorSupport::Ansi256);
        assert_eq!(detect(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).colors, ColorSupport::None);
        assert_eq!(
            detect(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]).colors,
            ColorSupport::Ansi256,
            "an empty NO_COLOR is not set"
        );
        assert_eq!(detect(&[("TERM", "xterm")]).colors, ColorSupport::Ansi16);
        assert_eq!(detect(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]).colors, ColorSupport::TrueColor);
        assert_eq!(detect(&[("LANG", "de_DE.ISO-8859-1")]).glyphs, GlyphSet::Ascii);
        for plain in [("LANG", "C"), ("LC_ALL", "C"), ("LC_CTYPE", "POSIX"), ("LC_ALL", "en_US.ISO-8859-15@euro")] {
            assert_eq!(detect(&[plain]).glyphs, GlyphSet::Ascii, "{plain:?}");
            assert_eq!(detect_with_option(&[plain], Some(GlyphSet::Unicode)).glyphs, GlyphSet::Unicode, "the option overrides");
        }
        assert_eq!(detect_with_option(&[("LANG", "C.UTF-8")], Some(GlyphSet::Ascii)).glyphs, GlyphSet::Ascii);
        for rich in [&[][..], &[("LANG", "")], &[("LANG", "de_DE")], &[("LANG", "C"), ("LC_CTYPE", "en_US.utf8")]] {
            assert_eq!(detect(rich).glyphs, GlyphSet::Unicode, "{rich:?}");
        }
        assert_eq!(detect(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).glyphs, GlyphSet::Ascii, "LC_ALL overrides LANG");
        assert_eq!(detect(&[("LC_CTYPE", "C"), ("LANG", "de_DE.UTF-8")]).glyphs, GlyphSet::Ascii, "LC_CTYPE overrides LANG");
        assert_eq!(detect(&[("LANG", "C.UTF-8"), ("TERM", "linux")]).glyphs, GlyphSet::Ascii);
        assert_eq!(detect(&[("TERM", "vt220")]).glyphs, GlyphSet::Ascii, "a serial console");
        assert_eq!(detect(&[("LANG", "C.UTF-8"), ("TERM", "vt220")]).glyphs, GlyphSet::Unicode);
    }
}
