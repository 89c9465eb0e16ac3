//! Suggests the known word that an unknown word probably meant.

/// `: did you mean …?` if a known word is similar, else empty.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    most_similar(word, known).map_or_else(String::new, |meant| format!(": did you mean '{meant}'?"))
}

/// The known word that is most similar, if it is similar enough; of equally similar ones the last.
pub fn most_similar<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Jaro-Winkler similarity of a probable misspelling.
    const MIN_SIMILARITY: f64 = 0.8;
    let likely = known.map(|candidate| (strsim::jaro_winkler(word, candidate), candidate)).max_by(|a, b| a.0.total_cmp(&b.0));
    likely.filter(|&(similarity, _)| similarity >= MIN_SIMILARITY).map(|(_, candidate)| candidate)
}

/// The known word from which this one differs least, by at most `max_edits` letters missing, added, wrong or exchanged with the
/// next one. Minus signs before both do not count. Of equally near words, the one that begins most like it.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>, max_edits: usize) -> Option<&'a str> {
    let word = word.trim_start_matches('-');
    let near = known.filter_map(|candidate| {
        let name = candidate.trim_start_matches('-');
        let edits = strsim::osa_distance(word, name);
        (edits <= max_edits).then(|| (edits, strsim::jaro_winkler(word, name), candidate))
    });
    near.min_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1))).map(|(_, _, candidate)| candidate)
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

    #[test]
    fn letters_may_be_missing_added_replaced_or_exchanged() {
        for word in ["--fo", "--forr", "--far", "--fro"] {
            assert_eq!(nearest(word, ["--rotate", "--for"].into_iter(), 1), Some("--for"), "{word}");
        }
        assert_eq!(nearest("--f", ["--for", "--rotate"].into_iter(), 1), None);
        assert_eq!(nearest("-moon", ["--on", "--mono"].into_iter(), 2), Some("--mono"));
    }
}
