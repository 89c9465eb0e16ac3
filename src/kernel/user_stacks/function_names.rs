//! Names of functions as people write them: demangled (Rust, C++), without hashes and parameters, of bounded length.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// Characters of a name that are kept.
const MAX_CHARACTERS: usize = 160;
/// A longer symbol is not demangled.
const MAX_SYMBOL_BYTES: usize = 2048;
/// A symbol may refer to parts of itself, so that its name doubles with each byte: demangling ends here.
const MAX_NAME_BYTES: usize = 4096;

/// The name of a file or mapping. Bytes that are no text become U+FFFD.
pub fn mapping_name(name: &[u8]) -> String {
    shortened(&String::from_utf8_lossy(name))
}

/// A symbol's name for people. Bytes that are no text become U+FFFD.
pub fn readable(symbol: &[u8]) -> String {
    let symbol = without_version(symbol);
    let text = String::from_utf8_lossy(symbol);
    if symbol.len() > MAX_SYMBOL_BYTES {
        return shortened(&text);
    }
    let name = match rustc_demangle::try_demangle(&text) {
        Ok(name) => rust_name(&name),
        Err(_) if text.starts_with("_Z") => cpp_name(symbol).unwrap_or_else(|| text.into_owned()),
        Err(_) => without_clone_suffix(&text).to_owned(),
    };
    shortened(&name)
}

/// A name as far as it has room; then its writer fails, which ends the demangling.
#[derive(Default)]
struct BoundedName {
    text: String,
    is_full: bool,
}

impl Write for BoundedName {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.is_full |= self.text.len() + part.len() > MAX_NAME_BYTES;
        if self.is_full {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// glibc's versions: `pthread_cond_wait@@GLIBC_2.3.2`. Names in perf maps have paths: `/node_modules/@scope/a.js`.
fn without_version(symbol: &[u8]) -> &[u8] {
    let at = symbol.iter().position(|&byte| matches!(byte, b'@' | b' ' | b'/'));
    at.filter(|&at| at > 0 && symbol.get(at) == Some(&b'@')).and_then(|at| symbol.get(..at)).unwrap_or(symbol)
}

fn rust_name(symbol: &rustc_demangle::Demangle) -> String {
    let mut name = BoundedName::default();
    // Its beginning is kept.
    let _ = write!(name, "{symbol:#}");
    name.text
}

fn cpp_name(symbol: &[u8]) -> Option<String> {
    let options = DemangleOptions::new().no_params().no_return_type();
    let (symbol, _) = BorrowedSymbol::with_tail(symbol).ok()?;
    let mut name = BoundedName::default();
    let demangled = symbol.structured_demangle(&mut name, &options);
    (demangled.is_ok() || name.is_full).then_some(name.text)
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
            ("LazyCompile:*run /app/@scope/a.js:1", "LazyCompile:*run /app/@scope/a.js:1"),
            ("flush.constprop.0", "flush"),
            ("main.(*Wal).Append", "main.(*Wal).Append"),
            ("_Zxyz", "_Zxyz"),
        ];
        for (symbol, name) in names {
            assert_eq!(readable(symbol.as_bytes()), name);
        }
    }

    /// Each type holds the one before it twice: the last one has 2^33 times the first.
    #[test]
    fn a_symbol_that_expands_is_cut() {
        let reference = |number| format!("S{}_", char::from_digit(number, 36).unwrap().to_ascii_uppercase());
        let types: String = (2..36).map(|number| format!("S1_I{0}{0}E", reference(number))).collect();
        let name = readable(format!("_Z1fI1A1BIS0_S0_E{types}Evv").as_bytes());
        assert!(name.starts_with("f<A, B<A, A>, B<B<A, A>, B<A, A> >") && name.ends_with('…'), "{name}");
        assert_eq!(name.chars().count(), MAX_CHARACTERS + 1);
    }

    #[test]
    fn a_hostile_name_is_one_short_line() {
        assert_eq!(readable(b"a\nb\x1b[31m"), "a?b?[31m");
        assert_eq!(mapping_name(b"_ZN1a1bEv@2.so\n"), "_ZN1a1bEv@2.so?");
        let long = readable(&[b'x'; 4000]);
        assert_eq!(long.chars().count(), MAX_CHARACTERS + 1);
    }
}
