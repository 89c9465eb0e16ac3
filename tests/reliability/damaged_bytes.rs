//! Damage at each offset: cuts, flipped bits, bytes overwritten, inserted, removed. No sample is read that was not
//! recorded, and only damaged samples and those that refer to them are lost.

use crate::generator::Dice;
use crate::measure::{MIB, Trials, full};
use crate::recorded::Recorded;

/// Most bytes that reading a damaged small recording may allocate.
const CAP: usize = 8 * MIB;

/// Distance between offsets without `STALLTOP_FULL`.
fn stride() -> usize {
    if full() { 1 } else { 9 }
}

#[test]
fn cut_anywhere_nothing_before_the_cut_is_lost() {
    let recorded = Recorded::small();
    let frames = &recorded.frames;
    let mut trials = Trials::new("cut at every byte", recorded.samples.len());
    for cut in (0..recorded.bytes.len()).step_by(stride()) {
        let part = &recorded.bytes[..cut];
        let whole = frames.iter().filter(|frame| frame.is_sample() && frame.end() <= cut).count();
        trials.run(CAP, || {
            match recorded.read_file(part) {
                Some(found) => {
                    assert_eq!(found.sound, (0..whole).collect(), "cut at {cut}");
                    let clean = frames.iter().any(|frame| frame.at == cut);
                    assert_eq!(found.damaged, !clean, "cut at {cut}");
                }
                None => assert!(cut < frames[0].end(), "cut at {cut}"),
            }
            match recorded.read_pipe(part) {
                Some(found) => assert_eq!(found.sound, (0..whole).collect(), "cut at {cut}, as a pipe"),
                None => assert!(cut < 128, "cut at {cut}"),
            }
            // What was after the cut does not count as lost.
            0
        });
    }
}

#[test]
fn a_flipped_bit_is_detected_and_costs_only_what_refers_to_its_frame() {
    let recorded = Recorded::small();
    let mut trials = Trials::new("each bit of each byte flipped", recorded.samples.len());
    for at in (0..recorded.bytes.len()).step_by(stride()) {
        let some = (at * 5 + at / 8) % 8;
        for bit in (0..8).filter(|&bit| full() || bit == some) {
            trials.run(CAP, || flip(recorded, at, bit));
        }
    }
    let recorded = Recorded::long();
    let mut trials = Trials::new("a bit flipped", recorded.samples.len());
    let mut dice = Dice::new(23);
    for _ in 0..if full() { 20_000 } else { 5 } {
        let (at, bit) = (dice.below(recorded.bytes.len() as u64) as usize, dice.below(8) as usize);
        trials.run(CAP, || flip(recorded, at, bit));
    }
}

fn flip(recorded: &Recorded, at: usize, bit: usize) -> usize {
    let mut damaged = recorded.bytes.clone();
    damaged[at] ^= 1 << bit;
    let lost = recorded.lost_with(&(at..at + 1));
    for (how, found) in [("a file", recorded.read_file(&damaged)), ("a pipe", recorded.read_pipe(&damaged))] {
        let found = found.unwrap();
        assert!(found.damaged, "byte {at} bit {bit} was not seen in {how}");
        assert!(found.sound.is_disjoint(&lost), "byte {at} bit {bit}: out of {how} comes what is damaged");
        assert_eq!(found.sound.len() + lost.len(), recorded.samples.len(), "byte {at} bit {bit} in {how}");
    }
    lost.len()
}

/// Runs of random bytes, zeros, ones; bytes inserted and removed.
#[test]
fn bytes_changed_inserted_and_removed_cost_what_they_hit() {
    type Change = fn(&mut Vec<u8>, usize, usize, &mut Dice);
    let changes: [(&'static str, Change, bool); 5] = [
        (
            "random bytes written over 1 to 4096 bytes",
            |bytes, at, end, dice| {
                bytes[at..end].iter_mut().for_each(|byte| *byte = dice.roll() as u8);
            },
            true,
        ),
        ("zeros written over 1 to 4096 bytes", |bytes, at, end, _| bytes[at..end].fill(0), true),
        ("ones written over 1 to 4096 bytes", |bytes, at, end, _| bytes[at..end].fill(0xff), true),
        ("1 to 4096 bytes removed", |bytes, at, end, _| drop(bytes.drain(at..end)), true),
        (
            "1 to 4096 random bytes inserted",
            |bytes, at, end, dice| {
                let noise: Vec<u8> = (at..end).map(|_| dice.roll() as u8).collect();
                bytes.splice(at..at, noise);
            },
            false,
        ),
    ];
    for (seed, (what, change, hits_the_range)) in changes.into_iter().enumerate() {
        let mut dice = Dice::new(seed as u64 + 40);
        for recorded in [Recorded::small(), Recorded::long()] {
            let mut trials = Trials::new(what, recorded.samples.len());
            let rounds = match (full(), recorded.samples.len() < 10) {
                (true, true) => 20_000,
                (true, false) => 2000,
                (false, true) => 60,
                (false, false) => 2,
            };
            for round in 0..rounds {
                let mut damaged = recorded.bytes.clone();
                // The file header has a test of its own.
                let at = 128 + dice.below(recorded.bytes.len() as u64 - 128) as usize;
                let most = if dice.one_in(3) { 4096 } else { 64 };
                let end = (at + 1 + dice.below(most) as usize).min(damaged.len());
                change(&mut damaged, at, end, &mut dice);
                // Bytes inserted at a place hit the frame around it, if it does not begin there.
                let inside = recorded.frames.iter().any(|frame| frame.at < at && at < frame.end());
                let hit = match (hits_the_range, inside) {
                    (true, _) => at..end,
                    (false, true) => at - 1..at + 1,
                    (false, false) => at..at,
                };
                trials.run(CAP, || recorded.survives(&damaged, Some(&hit), &format!("{what}, round {round}: {at} to {end}")));
            }
        }
    }
}

/// Counts for which the next frame begins anywhere inside the length of the frame before.
#[test]
fn bytes_missing_anywhere_cost_only_the_frames_they_are_missing_in() {
    let recorded = Recorded::small();
    let mut trials = Trials::new("1, 20, 51, 52, 53 bytes removed at every byte", recorded.samples.len());
    for at in (0..recorded.bytes.len()).step_by(stride() * 4) {
        for count in [1, 20, 51, 52, 53] {
            let end = (at + count).min(recorded.bytes.len());
            let mut damaged = recorded.bytes.clone();
            damaged.drain(at..end);
            let hit = at..end;
            // After a short file header no offset is right.
            let known = (at >= 128).then_some(&hit);
            trials.run(CAP, || recorded.survives(&damaged, known, &format!("{count} bytes removed at {at}")));
        }
    }
}

/// The frame header of the next frame begins among the last bytes that the damaged one claims.
#[test]
fn a_frame_that_is_short_of_a_few_bytes_costs_nothing_behind_it() {
    let recorded = Recorded::long();
    // After some of them comes a frame that does not refer to them: the first of a row of eight, a key frame.
    for number in [0, 6, 7, 15, 119, 127] {
        let frame = recorded.frame(number);
        for count in [1, 3, 20, 51].into_iter().filter(|count| frame.length > 60 + count) {
            let mut damaged = recorded.bytes.clone();
            damaged.drain(frame.at + 56..frame.at + 56 + count);
            recorded.survives(&damaged, Some(&(frame.at..frame.end())), &format!("{count} bytes missing in sample {number}"));
        }
    }
}

/// Intact frames out of place: doubled, and in a wrong order.
#[test]
fn frames_out_of_place_give_no_false_sample() {
    let recorded = Recorded::small();
    let mut trials = Trials::new("intact bytes of the recording copied elsewhere", recorded.samples.len());
    let mut dice = Dice::new(11);
    for round in 0..if full() { 50_000 } else { 60 } {
        let mut damaged = recorded.bytes.clone();
        let length = recorded.bytes.len() as u64;
        let (at, from) = (dice.below(length) as usize, dice.below(length) as usize);
        let copy = recorded.bytes[from..(from + 1 + dice.below(4096) as usize).min(recorded.bytes.len())].to_vec();
        damaged.splice(at..at, copy);
        trials.run(CAP, || recorded.survives(&damaged, None, &format!("round {round}")));
    }
}
