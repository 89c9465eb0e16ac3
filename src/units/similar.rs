//! Which known word was probably meant by one that is not known.

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

/// The first known word of which this one has a letter too few, too many or wrong, or two neighbours exchanged.
pub fn one_edit_away<'a>(word: &str, mut known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.find(|candidate| strsim::osa_distance(word, candidate) == 1)
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
    fn one_letter_may_be_missing_added_replaced_or_exchanged() {
        for word in ["--fo", "--forr", "--far", "--fro"] {
            assert_eq!(one_edit_away(word, ["--rotate", "--for"].into_iter()), Some("--for"), "{word}");
        }
        assert_eq!(one_edit_away("--for", ["--for", "--rotate"].into_iter()), None);
    }
}
