//! How the terminal may be drawn on: how many colours, which glyphs. Found out once, from variables and options.

/// The look of every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub colours: Colours,
    pub glyphs: Glyphs,
}

/// How many colours there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    /// NO_COLOR, or a terminal without any: bold, dim and reverse only
    None,
    /// The 16 of every terminal
    #[default]
    Sixteen,
    /// 256 or more
    Many,
}

/// Which characters there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Glyphs {
    #[default]
    Unicode,
    /// `--ascii`, or a locale that is not UTF-8
    Ascii,
}

impl Look {
    /// From environment variables (passed in by name) and the option `--ascii`.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>, ascii: bool) -> Look {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let colours = if set("NO_COLOR").is_some() || term == "dumb" || term.starts_with("vt") {
            Colours::None
        } else if term.contains("256") || term.contains("direct") || set("COLORTERM").is_some() {
            Colours::Many
        } else {
            Colours::Sixteen
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default().to_lowercase();
        // Without any locale (ssh with a bare environment) the terminal at the other end is UTF-8 all the same; only a locale
        // that names another encoding, the Linux console with its 256 glyphs, and a serial console say otherwise.
        let names_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let names_another = locale.contains('.') && !names_utf8;
        let serial = term.starts_with("vt") && !names_utf8;
        let plain = ascii || names_another || serial || term == "linux" || term == "dumb";
        Look { colours, glyphs: if plain { Glyphs::Ascii } else { Glyphs::Unicode } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pairs: &[(&str, &str)]) -> Look {
        Look::from_variables(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()), false)
    }

    #[test]
    fn the_environment_decides() {
        assert_eq!(look(&[("TERM", "xterm-256color")]).colours, Colours::Many);
        assert_eq!(look(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).colours, Colours::None);
        assert_eq!(look(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]).colours, Colours::Many, "empty is not set");
        assert_eq!(look(&[("TERM", "xterm")]).colours, Colours::Sixteen);
        assert_eq!(look(&[("LANG", "de_DE.ISO-8859-1")]).glyphs, Glyphs::Ascii);
        assert_eq!(look(&[("LANG", "C")]).glyphs, Glyphs::Unicode);
        assert_eq!(look(&[("LANG", "C.UTF-8"), ("TERM", "linux")]).glyphs, Glyphs::Ascii);
        assert_eq!(look(&[("TERM", "vt220")]).glyphs, Glyphs::Ascii, "a serial console");
        assert_eq!(look(&[("LANG", "C.UTF-8"), ("TERM", "vt220")]).glyphs, Glyphs::Unicode);
    }
}
