//! The store of baselines: a private file that is replaced whole.

use super::*;

/// A directory that only this user may write to, as the store requires.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
    folder
}

fn store(path: PathBuf) -> BaselineStore {
    BaselineStore::new(path, nix::unistd::geteuid().as_raw())
}

#[test]
fn the_file_is_private_and_replaced_atomically() {
    let folder = folder();
    let store = store(folder.path().join("state/baselines.toml"));
    assert!(store.load().notice.is_none(), "no file is no complaint");
    let mut bench = Bench::new();
    bench.teach(12, 100, 8);
    store.update(|baselines| baselines.learn(&bench.observations)).expect("kept");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(store.path()), mode(&folder.path().join("state"))), (0o600, 0o700));
    assert_eq!(store.load().baselines, bench.baselines);
    assert_eq!(fs::read_dir(folder.path().join("state")).expect("the folder").count(), 1, "nothing is left aside");
}

#[test]
fn the_baselines_of_two_concurrent_runs_are_merged() {
    let folder = folder();
    let place = store(folder.path().join("baselines.toml"));
    // Both began with nothing known; what each learned of the same device is added up.
    let (mut live, mut check) = (Bench::new(), Bench::new());
    live.teach(6, 100, 8);
    check.teach(5, 100, 8);
    place.update(|baselines| baselines.learn(&live.observations)).expect("kept");
    place.update(|baselines| baselines.learn(&check.observations)).expect("kept");
    let known = place.load().baselines;
    let learned = known.iter().next().expect("known").1;
    assert_eq!((learned.intervals, learned.latency()), (11, Some(Millis(8.0))));
    // What one program forgets is not written back by another that still has it.
    let device = known.iter().next().expect("known").0.device.clone();
    place.update(|baselines| baselines.forget(&device)).expect("kept");
    live.observations.clear();
    live.teach(2, 100, 8);
    place.update(|baselines| baselines.learn(&live.observations)).expect("kept");
    assert_eq!(place.load().baselines.iter().next().expect("known").1.intervals, 2);
    // At the same time, from several threads with descriptors of their own: nothing is lost.
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (place, observations) = (place.clone(), live.observations.clone());
            // On a slow machine one waits longer for the lock than it may.
            let keep = move || {
                while place.update(|b| b.learn(&observations)).is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
                {
                }
            };
            std::thread::spawn(move || (0..5).for_each(|_| keep()))
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().expect("no writer fails"));
    assert_eq!(place.load().baselines.iter().next().expect("known").1.intervals, 2 + 8 * 5 * 2);
}

#[test]
fn a_damaged_file_is_renamed_with_one_notice() {
    let folder = folder();
    let store = store(folder.path().join("baselines.toml"));
    let later = b"stalltop-baselines = 99\n".to_vec();
    for damaged in [b"\xff\xfe\0".to_vec(), b"stalltop-baselines = 1\n[[baseline]]\ndevice = 3".to_vec(), later, Vec::new()] {
        fs::write(store.path(), &damaged).expect("written");
        assert!(store.read().is_err() && store.path().exists(), "reading changes nothing");
        let loaded = store.load();
        assert_eq!(loaded.baselines, Baselines::default());
        assert!(loaded.notice.is_some_and(|notice| notice.contains(".bad") && !notice.contains('\n')));
        assert_eq!(fs::read(folder.path().join("baselines.toml.bad")).expect("kept aside"), damaged);
        assert!(store.load().notice.is_none(), "one notice only");
    }
    // It became damaged while a run was learning: what that run learned is kept all the same.
    fs::write(store.path(), b"not a table").expect("written");
    let mut bench = Bench::new();
    bench.teach(12, 100, 8);
    store.update(|baselines| baselines.learn(&bench.observations)).expect("kept");
    assert_eq!(store.load().baselines, bench.baselines);
    assert_eq!(fs::read(folder.path().join("baselines.toml.bad")).expect("kept aside"), b"not a table");
}

#[test]
fn no_symbolic_link_is_followed_and_no_foreign_directory_is_written() {
    let folder = folder();
    let observations = {
        let mut bench = Bench::new();
        bench.teach(12, 100, 8);
        bench.observations
    };
    let victim = folder.path().join("victim");
    fs::write(&victim, b"precious").expect("written");
    for (name, make) in [("link", true), ("folder", false)] {
        let place = store(folder.path().join(name).join("baselines.toml"));
        fs::create_dir(folder.path().join(name)).expect("made");
        if make {
            std::os::unix::fs::symlink(&victim, place.path()).expect("a link");
        } else {
            fs::create_dir(place.path()).expect("made");
        }
        assert!(place.load().notice.is_some(), "{name}");
        assert!(place.write_obstacle(|_| true).is_some(), "{name}");
        assert!(place.update(|baselines| baselines.learn(&observations)).is_err(), "{name}");
        assert_eq!(fs::read(&victim).expect("still there"), b"precious");
    }
    let open = folder.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("ours");
    let place = store(open.join("baselines.toml"));
    assert!(place.write_obstacle(|_| true).is_some_and(|why| why.contains("0777")));
    assert!(place.update(|baselines| baselines.learn(&observations)).is_err());
    assert!(!place.path().exists());
}

#[test]
fn numbers_out_of_range_are_refused() {
    let text = "stalltop-baselines = 1\n[[baseline]]\ndevice = \"d\"\noperation = \"read\"\nsize = \"<=16K\"\nintervals = 12\n\
                by_hand_ms = -3.0\nlowest_ms = [nan, 2.0]\n\
                days = [[20000, 40, nan, 40, 8.0], [20001, 10, 8.0, 10, 8.0]]\n";
    let baselines = Baselines::from_bytes(text.as_bytes()).expect("well formed");
    let (_, learned) = baselines.iter().next().expect("one");
    assert_eq!(learned.latency(), Some(Millis(8.0)), "only the second day is valid");
}
