//! The directory: who may write to it, and how much is kept. Wrong options.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::armed_recorder::Place;

/// Captures one mark, in a recorder of its own.
fn capture(place: &Place, text: &str, options: &[&str]) {
    let mut recorder = place.armed(&[&["-i", "200ms", "--psi", "none", "--on", "disk-drift"], options].concat());
    place.mark(text);
    recorder.until_it_captures();
    recorder.end();
}

#[test]
fn the_oldest_captures_are_deleted() {
    let place = Place::new();
    capture(&place, "first", &[]);
    capture(&place, "second", &[]);
    fs::write(place.path("captures/notes.txt"), "of the user").unwrap();
    let first = place.captures().into_iter().find(|file| file.to_str().unwrap().contains("-first")).unwrap();
    fs::File::options().write(true).open(first).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    capture(&place, "third", &["--max-captures", "2"]);
    let words: Vec<String> = place
        .captures()
        .iter()
        .map(|file| file.file_stem().unwrap().to_str().unwrap().rsplit('-').next().unwrap().to_owned())
        .collect();
    assert_eq!(words.iter().filter(|word| *word == "first").count(), 0, "{words:?}");
    assert!(["second", "third", "notes"].iter().all(|kept| words.iter().any(|word| word == kept)), "{words:?}");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.path("captures")), 0o700);
    assert!(
        place.captures().into_iter().filter(|file| file.extension().unwrap() == "stalltop").all(|file| mode(file) == 0o600)
    );
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path("captures")).unwrap();
    fs::set_permissions(place.path("captures"), fs::Permissions::from_mode(0o777)).unwrap();
    let output = place.stalltop(&["record", "--armed", "captures"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(6) && told.contains("others may write to it"), "{told}");
}

#[test]
fn wrong_options_are_one_line() {
    let place = Place::new();
    for (words, why) in [
        ("record --armed", "a value is required"),
        ("record x --armed captures", "cannot be used with"),
        ("record --armed captures --rotate 1d", "cannot be used with"),
        ("record --pre-roll 1m", "were not provided: --armed <DIR>"),
        ("record --armed captures --pre-roll 1s", "it is 10s to 1h"),
        ("record --armed captures --after 2h", "it is 1s to 1h"),
        ("record --armed captures --psi io", "the form is 'some io 150ms 1s'"),
        ("record --armed captures --max-size 1M", "give 16M or more"),
        ("record --armed captures --max-captures 0", "whole number of 1 or more"),
        ("record --armed captures --on critcal", "did you mean 'critical'?"),
        ("record --armed captures --on-finding /nonexistent/tell", "there is no such program"),
        ("record x --on critical", "add --armed DIR or --on-finding CMD"),
        ("check --on-finding true", "add --watch"),
        ("check --watch --on critical", "add --on-finding CMD"),
    ] {
        let output = place.stalltop(&words.split(' ').collect::<Vec<_>>()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(why) && told.lines().count() == 1, "{words}: {told}");
        assert!([2, 3].contains(&output.status.code().unwrap()), "{words}: {told}");
    }
    assert!(place.captures().is_empty());
}
