//! Power loss: any part of what was written after the last fdatasync may be missing, in any order. What was synced is there,
//! at most one key frame period is lost, and nothing that was never recorded is read.

use std::io;
use std::sync::{Arc, Mutex};

use stalltop::recording::{DiskSpace, Recorder, RecorderStatus, Storage};

use crate::generator::{self, Dice};
use crate::measure::{MIB, Trials, full};
use crate::recorded::Recorded;
use crate::support::{PATIENCE, ok_summary, options};

/// A disk that records its writes and syncs.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<Step>>>);

#[derive(Clone)]
enum Step {
    Write(Vec<u8>),
    Sync,
}

impl Storage for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(Step::Write(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().push(Step::Sync);
        Ok(())
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        panic!("nothing failed")
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }
}

/// The disk after a power loss: all that was synced, and a random part of the rest.
fn after_the_cut(steps: &[Step], dice: &mut Dice) -> (Vec<u8>, usize) {
    let synced = steps.iter().rposition(|step| matches!(step, Step::Sync)).map_or(0, |at| at + 1);
    let bytes = |steps: &[Step]| -> Vec<u8> {
        steps.iter().flat_map(|step| if let Step::Write(bytes) = step { bytes.clone() } else { Vec::new() }).collect()
    };
    let safe = bytes(&steps[..synced]);
    let mut disk = safe.clone();
    disk.extend(bytes(&steps[synced..]));
    // The size may have reached the disk before the blocks did.
    let size = match dice.below(3) {
        0 => disk.len(),
        1 => safe.len(),
        _ => safe.len() + dice.below((disk.len() - safe.len()) as u64 + 1) as usize,
    };
    disk.truncate(size);
    let block = if dice.one_in(2) { 512 } else { 4096 };
    let mut at = safe.len();
    while at < disk.len() {
        let end = ((at / block + 1) * block).min(disk.len());
        if dice.one_in(2) {
            // Blocks that were not written: zeros, or old contents.
            let old = dice.one_in(3);
            disk[at..end].iter_mut().for_each(|byte| *byte = if old { dice.roll() as u8 } else { 0 });
        }
        at = end;
    }
    (disk, safe.len())
}

#[test]
fn a_power_loss_loses_at_most_what_was_not_synced() {
    let recorded = Recorded::long();
    let journal = Journal::default();
    let count = recorded.samples.len();
    let mut recorder = Recorder::from_storage(Box::new(journal.clone()), &generator::meta(), options(count)).unwrap();
    recorded.samples.iter().for_each(|sample| recorder.offer_with_summary(sample.clone(), ok_summary()));
    assert!(matches!(recorder.finish(PATIENCE), RecorderStatus::Finished(_)));
    let steps = journal.0.lock().unwrap().clone();
    let mut dice = Dice::new(77);
    let mut trials = Trials::new("power loss, unsynced blocks dropped or reordered", count);
    for cut in 1..=steps.len() {
        if !full() && !dice.one_in(8) {
            continue;
        }
        let written: usize = steps[..cut].iter().map(|step| if let Step::Write(bytes) = step { bytes.len() } else { 0 }).sum();
        let whole = |length: usize| (0..count).take_while(|&number| recorded.frame(number).end() <= length).count();
        for round in 0..if full() { 40 } else { 2 } {
            let (disk, safe) = after_the_cut(&steps[..cut], &mut dice);
            trials.run(16 * MIB, || {
                let Some(found) = recorded.read_file(&disk) else {
                    assert_eq!(safe, 0, "step {cut}, round {round}");
                    return 0;
                };
                for number in 0..whole(safe) {
                    assert!(
                        found.sound.contains(&number),
                        "step {cut}, round {round}: sample {number} was synced, and is lost"
                    );
                }
                let lost = whole(written) - found.sound.len();
                assert!(lost <= 60, "step {cut}, round {round}: {lost} samples");
                lost
            });
        }
    }
}
