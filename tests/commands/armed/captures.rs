//! What starts a capture, and what is in it.

use std::time::Duration;

use nix::sys::signal::Signal;
use stalltop::recording::Replayer;

use crate::busy::Busy;

use super::armed_recorder::{Place, around, open, texts, times};

/// A busy machine has findings of its own, but not these: they need days.
const NO_FINDINGS: [&str; 2] = ["--on", "disk-drift"];

/// SIGUSR1 starts it; a mark meanwhile is in the same file.
#[test]
fn a_signal_captures_the_time_before_it_and_the_event() {
    let place = Place::new();
    let mut recorder = place.armed(&[&["-i", "300ms", "--psi", "none"], &NO_FINDINGS[..]].concat());
    // This is the time to be captured.
    std::thread::sleep(Duration::from_secs(2));
    assert!(place.captures().is_empty(), "nothing is written while it is armed");
    recorder.signal(Signal::SIGUSR1);
    recorder.until_it_captures();
    place.mark("deploy 42");
    let written = || place.captures().first().map_or(0, |file| Replayer::open(file).map_or(0, |replayer| replayer.len()));
    let marked = written();
    recorder.until("records ten samples more", |_| written() >= marked + 10);
    let told = recorder.end();
    let captures = place.captures();
    let [file] = captures.as_slice() else { panic!("{captures:?}") };
    assert!(file.to_str().unwrap().ends_with("-SIGUSR1.stalltop"), "{file:?}");
    assert!(told.contains("stalltop: recorded ") && told.lines().count() == 3, "{told}");
    let replayer = open(file);
    assert_eq!(texts(&replayer), ["SIGUSR1", "deploy 42"]);
    let mark = replayer.marks().first().unwrap().clone();
    let (before, delay) = around(&replayer, &mark);
    println!("{before} samples before the signal; the next one {delay:?} after it");
    assert!(before >= 2, "{before} samples before the signal");
    // A sample that was being read when the signal came is recorded after the mark.
    let of_mark = usize::try_from(mark.samples_before).unwrap();
    assert!(of_mark == before || of_mark + 1 == before, "the mark stands between the samples around it: {of_mark}, {before}");
}

/// At the interval of an hour no second sample would come.
#[test]
fn the_samples_of_an_event_do_not_wait_for_the_ordinary_interval() {
    let place = Place::new();
    let mut recorder = place.armed(&[&["-i", "1h", "--psi", "none"], &NO_FINDINGS[..]].concat());
    recorder.signal(Signal::SIGUSR1);
    recorder.until_it_captures();
    let written = || place.captures().first().map_or(0, |file| Replayer::open(file).map_or(0, |replayer| replayer.len()));
    recorder.until("records ten samples", |_| written() >= 10);
    recorder.end();
}

/// The whole course takes half a minute.
#[test]
fn a_capture_ends_and_the_same_mark_does_not_start_another_one() {
    let place = Place::new();
    let mut recorder = place.armed(&[&["-i", "500ms", "--after", "2s", "--psi", "none"], &NO_FINDINGS[..]].concat());
    place.mark("again");
    recorder.until_it_captures();
    recorder.until("has recorded it", |told| told.contains("stalltop: recorded "));
    place.mark("again");
    place.mark("$(reboot) `reboot` ../../x");
    recorder.until("captures the other one", |told| told.matches("capturing into").count() == 2);
    let told = recorder.end();
    assert_eq!(told.matches("capturing into").count(), 2, "{told}");
    let captures = place.captures();
    let [first, second] = captures.as_slice() else { panic!("{captures:?}") };
    assert!(first.to_str().unwrap().ends_with("-mark-again.stalltop"), "{captures:?}");
    assert!(second.to_str().unwrap().ends_with("-mark-reboot-reboot-x.stalltop"), "{captures:?}");
    let (first, second) = (open(first), open(second));
    let length = |replayer: &Replayer| times(replayer).last().unwrap() - replayer.marks()[0].at.boottime_ns;
    // To one sample: they stand 500 ms apart.
    assert!(length(&first) >= 31_500_000_000, "the event and the time after it: {} ns", length(&first));
    // After a sample that is late the next one comes sooner: one of the last three is not.
    let intervals: Vec<u64> = times(&first).windows(2).map(|pair| pair[1] - pair[0]).collect();
    let last = &intervals[intervals.len() - 3..];
    assert!(last.iter().any(|interval| *interval >= 400_000_000), "at the ordinary interval after the event: {last:?} ns");
    // What was not captured again is in what was in memory.
    assert_eq!(texts(&first), ["again"]);
    let marks = texts(&second);
    assert_eq!(marks[marks.len() - 2..], ["again", "$(reboot) `reboot` ../../x"], "{marks:?}");
    assert!(times(&first).is_sorted() && times(&second).is_sorted());
}

#[test]
fn pressure_captures_between_two_samples() {
    let place = Place::new();
    let mut recorder = place.armed(&[&["-i", "1h", "--psi", "some cpu 10ms 500ms"], &NO_FINDINGS[..]].concat());
    if recorder.told().contains("no pressure trigger") {
        return println!("skipped: {}", recorder.told().lines().next().unwrap());
    }
    let hogs = (0..2 * std::thread::available_parallelism().unwrap().get()).map(|_| Busy::start());
    let hogs: Vec<Busy> = hogs.collect();
    recorder.until_it_captures();
    drop(hogs);
    recorder.end();
    let captures = place.captures();
    let [file] = captures.as_slice() else { panic!("{captures:?}") };
    assert!(file.to_str().unwrap().contains("-pressure-some-cpu-10ms-"), "{file:?}");
    let replayer = open(file);
    let (before, delay) = around(&replayer, &replayer.marks()[0]);
    println!("the first sample comes {delay:?} after the pressure trigger");
    // The next one would be due in an hour.
    assert!(before >= 1 && delay.is_some(), "{:?}", times(&replayer));
}
