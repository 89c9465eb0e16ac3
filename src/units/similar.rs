//! Which known word was probably meant by one that is not known.

/// `: did you mean …?` if a known word is similar, else empty.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    /// Jaro-Winkler similarity of a probable misspelling.
    const MIN_SIMILARITY: f64 = 0.8;
    let likely = known.map(|candidate| (strsim::jaro_winkler(word, candidate), candidate)).max_by(|a, b| a.0.total_cmp(&b.0));
    likely
        .filter(|&(similarity, _)| similarity >= MIN_SIMILARITY)
        .map_or_else(String::new, |(_, candidate)| format!(": did you mean '{candidate}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_word_is_meant() {
        let known = ["r_await", "w_await"];
        assert_eq!(did_you_mean("r_awai", known.into_iter()), ": did you mean 'r_await'?");
        assert_eq!(did_you_mean("zzz", known.into_iter()), "");
    }
}
