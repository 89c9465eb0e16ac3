//! Names of functions as people write them: demangled (Rust, C++), without hashes and parameters, of bounded length.

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// Characters of a name that are kept.
const MAX_CHARACTERS: usize = 160;

/// A symbol's name for people. Bytes that are no text become U+FFFD.
pub fn readable(symbol: &[u8]) -> String {
    // glibc's versions: `pthread_cond_wait@@GLIBC_2.3.2`.
    let symbol = symbol.split(|&byte| byte == b'@').next().unwrap_or(symbol);
    let text = String::from_utf8_lossy(symbol);
    let name = match rustc_demangle::try_demangle(&text) {
        Ok(name) => format!("{name:#}"),
        Err(_) if text.starts_with("_Z") => cpp_name(symbol).unwrap_or_else(|| text.into_owned()),
        Err(_) => without_clone_suffix(&text).to_owned(),
    };
    shortened(&name)
}

fn cpp_name(symbol: &[u8]) -> Option<String> {
    let options = DemangleOptions::new().no_params().no_return_type();
    let (name, _) = BorrowedSymbol::with_tail(symbol).ok()?;
    name.demangle_with_options(&options).ok()
}

/// gcc's copies of functions: `flush.constprop.0`, `flush.part.1`, `flush.cold`.
fn without_clone_suffix(name: &str) -> &str {
    let suffixes = [".constprop.", ".part.", ".isra.", ".cold", ".lto_priv."];
    let at = suffixes.iter().filter_map(|suffix| name.find(suffix)).filter(|&at| at > 0).min();
    at.and_then(|at| name.get(..at)).unwrap_or(name)
}

/// A function is a line.
fn shortened(name: &str) -> String {
    let kept = name.chars().map(|letter| if letter.is_control() { '?' } else { letter });
    let mut text: String = kept.take(MAX_CHARACTERS).collect();
    if name.chars().nth(MAX_CHARACTERS).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_without_hash_parameters_and_version() {
        let names = [
            ("_ZN2db3wal3Wal6append17h0123456789abcdefE", "db::wal::Wal::append"),
            ("_RNvNtCs1234_2db3wal6append", "db::wal::append"),
            ("_ZN3Wal6appendEPKcm", "Wal::append"),
            ("_ZN5Queue3popEv.constprop.0", "Queue::pop"),
            ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
            ("flush.constprop.0", "flush"),
            ("main.(*Wal).Append", "main.(*Wal).Append"),
            ("_Zxyz", "_Zxyz"),
        ];
        for (symbol, name) in names {
            assert_eq!(readable(symbol.as_bytes()), name);
        }
    }

    #[test]
    fn a_hostile_name_is_one_short_line() {
        assert_eq!(readable(b"a\nb\x1b[31m"), "a?b?[31m");
        let long = readable(&[b'x'; 4000]);
        assert_eq!(long.chars().count(), MAX_CHARACTERS + 1);
    }
}
