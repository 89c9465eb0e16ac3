//! Since format 1.3 two cells are kept less what others say of them, so that mostly nothing remains.

use super::schema::tasks::{LOOKS, THREAD_CPU, WAIT_CLASSES};

/// A user tick as most kernels count them, in ns. A guess that is wrong costs bits and nothing else.
const TICK_NS: u64 = 10_000_000;

/// Of the classes that a thread was seen in, the first becomes how often it was looked at: the same for all threads.
pub fn keep_looks(row: &mut [u64]) {
    let others = others(row);
    if let Some(cell) = row.get_mut(LOOKS) {
        *cell = cell.wrapping_add(others);
    }
}

/// The inverse of `keep_looks`.
pub fn give_looks(row: &mut [u64]) {
    let others = others(row);
    if let Some(cell) = row.get_mut(LOOKS) {
        *cell = cell.wrapping_sub(others);
    }
}

fn others(row: &[u64]) -> u64 {
    row.get(WAIT_CLASSES).unwrap_or_default().iter().fold(0, |sum, &cell| sum.wrapping_add(cell))
}

/// The kernel shares out what a thread ran (`cputime_adjust`): its user and system ticks together are that, in ticks.
pub fn keep_ticks(row: &mut [u64]) {
    let expected = expected(row);
    if let Some(cell) = row.get_mut(THREAD_CPU.user) {
        *cell = cell.wrapping_sub(expected);
    }
}

/// The inverse of `keep_ticks`.
pub fn give_ticks(row: &mut [u64]) {
    let expected = expected(row);
    if let Some(cell) = row.get_mut(THREAD_CPU.user) {
        *cell = cell.wrapping_add(expected);
    }
}

fn expected(row: &[u64]) -> u64 {
    let cell = |at: usize| row.get(at).copied().unwrap_or_default();
    if cell(THREAD_CPU.known) == 0 {
        return 0;
    }
    (cell(THREAD_CPU.run_ns) / TICK_NS).wrapping_sub(cell(THREAD_CPU.system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_little_and_gives_back_what_was() {
        let mut looks: Vec<u64> = (0..36).collect();
        let before = looks.clone();
        keep_looks(&mut looks);
        assert_eq!(looks[LOOKS], (4..36).sum::<u64>());
        give_looks(&mut looks);
        assert_eq!(looks, before);

        let mut thread = vec![0; 29];
        (thread[THREAD_CPU.user], thread[THREAD_CPU.system]) = (700, 299);
        (thread[THREAD_CPU.known], thread[THREAD_CPU.run_ns]) = (1, 10_004_000_000);
        keep_ticks(&mut thread);
        assert_eq!(thread[THREAD_CPU.user].cast_signed(), -1);
        give_ticks(&mut thread);
        assert_eq!(thread[THREAD_CPU.user], 700);
        thread[THREAD_CPU.known] = 0;
        keep_ticks(&mut thread);
        assert_eq!(thread[THREAD_CPU.user], 700, "nothing is known of what it ran");
    }
}
