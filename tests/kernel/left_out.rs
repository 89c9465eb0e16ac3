//! Sub-samples that are left out because no thread is due: all counts are the same as if they had been taken.

use std::time::Duration;

use stalltop::kernel::Sampler;
use stalltop::sample::waits::Waits;

use crate::proc_tree::{FIRST_PID, SampledTree};

const TENTH: Duration = Duration::from_millis(100);
/// More than those of which sleepers are asked between samples, too
const PROCESSES: u32 = 310;
const SECONDS: u32 = 14;
/// In this second one of them gets stuck, at this tenth of it
const STUCK: (u32, u32) = (7, 5);

/// What the samples say of waits, and how many sub-samples were taken in each second. All goes on as it is told by the time.
fn watched(busy: u32, leaves_out: bool) -> (Vec<Waits>, Vec<u32>) {
    let mut tree = SampledTree::new(PROCESSES, 1);
    let stuck = FIRST_PID + 2;
    let (mut waits, mut taken) = (Vec::new(), Vec::new());
    let mut ran_ms = 0;
    for second in 0..SECONDS {
        waits.push(tree.sample().waits.clone());
        taken.push(0);
        let mut next = 1 + left_out(&mut tree.sampler, leaves_out, 1);
        for tenth in 1..10 {
            ran_ms += 1;
            for pid in FIRST_PID..FIRST_PID + busy {
                tree.run(pid, pid, ran_ms);
                tree.clock(pid, ran_ms);
            }
            if (second, tenth) >= STUCK && (second, tenth) < (STUCK.0 + 1, STUCK.1) {
                tree.block(stuck, "submit_bio_wait");
            }
            if (second, tenth) == (STUCK.0 + 1, STUCK.1) {
                tree.wake(stuck);
            }
            if tenth == next {
                tree.sub_sample_at(tenth);
                taken.iter_mut().last().into_iter().for_each(|taken| *taken += 1);
                next += 1 + left_out(&mut tree.sampler, leaves_out, next + 1);
            }
        }
    }
    (waits, taken)
}

/// How many are left out before the one at `next` tenths.
fn left_out(sampler: &mut Sampler, leaves_out: bool, next: u32) -> u32 {
    if leaves_out { sampler.omit_idle_sub_samples(TENTH, TENTH, 10_u32.saturating_sub(next)) } else { 0 }
}

#[test]
fn counts_are_the_same_whether_empty_sub_samples_are_taken_or_omitted() {
    for busy in [3, 40] {
        let ((all, each), (some, taken)) = (watched(busy, false), watched(busy, true));
        assert_eq!(each, [9; SECONDS as usize]);
        for (second, (all, some)) in all.iter().zip(&some).enumerate() {
            assert_eq!(all, some, "{busy} busy, second {second}");
            assert_eq!(some.sub_samples.len(), if second == 0 { 1 } else { 10 }, "second {second}");
        }
        println!("{busy} busy: taken {taken:?}");
        assert!(taken.iter().skip(4).take(3).all(|taken| (2..=4).contains(taken)), "calm: {taken:?}");
        assert!(taken.iter().skip(8).take(2).all(|&taken| taken == 9), "one is stuck: {taken:?}");
        assert!(taken.iter().skip(12).all(|taken| (2..=4).contains(taken)), "calm again: {taken:?}");
    }
}
