//! What was chosen on the screens, in the state directory: the hidden and added columns and the hidden panes of each screen, the kind of
//! rows of the tasks screen, and the theme. The file is `lists.toml` beside the baselines; one that cannot be read or written costs nothing
//! but the choice.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::program::threads::{spawn, with_timeout};
use crate::baseline::store::BaselineStore;
use crate::state::settings_menu::HiddenPanes;
use crate::state::{ChosenColumns, ColumnChoices, State, TaskRows};

/// How long the start of the program waits for the file.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How often, and after which time each, the lock of the directory is tried again: for two seconds.
const LOCK_RETRIES: u32 = 100;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct SavedChoices {
    task_rows: TaskRows,
    /// Its name
    pub theme: Option<String>,
    hidden_columns: ColumnChoices,
    shown_columns: ColumnChoices,
    hidden_panes: HiddenPanes,
}

/// What was chosen in the last run, as far as it can be read.
pub fn load() -> SavedChoices {
    with_timeout(TIMEOUT, || read(&path(&store()?)?)).ok().flatten().unwrap_or_default()
}

impl SavedChoices {
    /// Sets the rows, columns and panes. The notes of the demo are about the usual rows and panes.
    pub fn apply(self, state: &mut State) {
        state.options.remembered_theme = self.theme;
        state.lists.chosen_columns = ChosenColumns { hidden: self.hidden_columns, shown: self.shown_columns };
        if state.options.demo.is_none() {
            state.lists.task_rows = self.task_rows;
            state.hidden_panes = self.hidden_panes;
        }
    }
}

/// Writes what is chosen in a session. Another session may have written the file since this one has read it: only what this one changed is
/// replaced in it.
pub struct ChoicesWriter {
    /// As it was read, or written last
    known: SavedChoices,
    pending: PendingChanges,
}

/// What was chosen before and after each change that has not been written, the oldest first.
#[derive(Clone, Default)]
struct PendingChanges(Arc<Mutex<Vec<(SavedChoices, SavedChoices)>>>);

impl ChoicesWriter {
    pub fn new(state: &State) -> ChoicesWriter {
        ChoicesWriter { known: SavedChoices::chosen_in(state), pending: PendingChanges::default() }
    }

    /// Replaces in the file what has changed, on a thread of its own. The demo replaces nothing.
    pub fn save(&mut self, state: &State) {
        if state.options.demo.is_some() {
            return;
        }
        let changes = self.note_changes(state);
        // Nothing is lost but the choice.
        let _ = spawn("save choices", move || {
            let store = store()?;
            store.make_directory().ok()?;
            changes.write(&path(&store)?).ok()
        });
    }

    /// Everything that is to be written, with what has changed last.
    fn note_changes(&mut self, state: &State) -> PendingChanges {
        let chosen = SavedChoices::chosen_in(state);
        let before = std::mem::replace(&mut self.known, chosen.clone());
        self.pending.lock().push((before, chosen));
        self.pending.clone()
    }
}

impl PendingChanges {
    fn lock(&self) -> MutexGuard<'_, Vec<(SavedChoices, SavedChoices)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the changes that no other thread has made, in their order. Where that fails they are made with the next change.
    fn write(&self, path: &Path) -> io::Result<()> {
        // Sessions exclude each other from reading to writing: the lock of their directory ends with this descriptor.
        let directory = File::open(path.parent().unwrap_or(path))?;
        let mut retries = 0..LOCK_RETRIES;
        // Some file systems have no locks.
        while matches!(directory.try_lock(), Err(TryLockError::WouldBlock)) {
            retries.next().ok_or(io::ErrorKind::TimedOut)?;
            thread::sleep(LOCK_RETRY_INTERVAL);
        }
        let pending = std::mem::take(&mut *self.lock());
        let Some((_, chosen)) = pending.last() else { return Ok(()) };
        // A file that is missing or damaged is replaced by all that this session chose.
        let saved = read(path).map_or_else(
            || chosen.clone(),
            |mut saved| {
                pending.iter().for_each(|(before, after)| saved.change(before, after.clone()));
                saved
            },
        );
        let written = write(path, &saved);
        if written.is_err() {
            self.lock().splice(..0, pending);
        }
        written
    }
}

impl SavedChoices {
    fn chosen_in(state: &State) -> SavedChoices {
        let ChosenColumns { hidden, shown } = state.lists.chosen_columns.clone();
        SavedChoices {
            task_rows: state.lists.task_rows,
            theme: state.options.remembered_theme.clone(),
            hidden_columns: hidden,
            shown_columns: shown,
            hidden_panes: state.hidden_panes.clone(),
        }
    }

    /// Changes what differs between `before` and `after`.
    fn change(&mut self, before: &SavedChoices, after: SavedChoices) {
        let SavedChoices { task_rows, theme, hidden_columns, shown_columns, hidden_panes } = after;
        if task_rows != before.task_rows {
            self.task_rows = task_rows;
        }
        if theme != before.theme {
            self.theme = theme;
        }
        change_names(&mut self.hidden_columns, &before.hidden_columns, &hidden_columns);
        change_names(&mut self.shown_columns, &before.shown_columns, &shown_columns);
        change_names(&mut self.hidden_panes, &before.hidden_panes, &hidden_panes);
    }
}

/// Adds and removes the names of each screen that were added and removed between `before` and `after`.
fn change_names(saved: &mut ColumnChoices, before: &ColumnChoices, after: &ColumnChoices) {
    let none = BTreeSet::new();
    for screen in before.keys().chain(after.keys()) {
        let [before, after] = [before, after].map(|names| names.get(screen).unwrap_or(&none));
        let names = saved.entry(screen.clone()).or_default();
        names.retain(|name| after.contains(name) || !before.contains(name));
        names.extend(after.difference(before).cloned());
    }
    saved.retain(|_, names| !names.is_empty());
}

fn store() -> Option<BaselineStore> {
    BaselineStore::at_default_path(nix::unistd::geteuid().as_raw())
}

fn path(store: &BaselineStore) -> Option<PathBuf> {
    Some(store.path().parent()?.join("lists.toml"))
}

/// `None` if it is missing, or is not such a file.
fn read(path: &Path) -> Option<SavedChoices> {
    let mut text = String::new();
    let is_file = fs::metadata(path).is_ok_and(|facts| facts.is_file());
    let read = File::open(path).ok().filter(|_| is_file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text).ok());
    read.filter(|_| !text.is_empty()).and_then(|_| toml::from_str(&text).ok())
}

fn write(path: &Path, saved: &SavedChoices) -> io::Result<()> {
    let text = toml::to_string(saved).map_err(io::Error::other)?;
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Source, TaskList};
    use crate::synthetic::screen;

    /// A screen with what it found in the file, and its writer.
    struct Session {
        state: State,
        writer: ChoicesWriter,
    }

    impl Session {
        fn open(path: &Path) -> Session {
            let mut state = screen((80, 24), Source::Live);
            read(path).unwrap_or_default().apply(&mut state);
            Session { writer: ChoicesWriter::new(&state), state }
        }

        fn choose(&mut self, choose: impl FnOnce(&mut State)) -> PendingChanges {
            choose(&mut self.state);
            self.writer.note_changes(&self.state)
        }

        fn choose_theme(&mut self, theme: &str) -> PendingChanges {
            self.choose(|state| state.options.remembered_theme = Some(theme.to_owned()))
        }
    }

    const WITH_THREADS: TaskRows = TaskRows::Cgroups(TaskList::TreeWithThreads);

    /// What is kept of a session in which this was chosen.
    fn chosen(choose: impl FnOnce(&mut State)) -> SavedChoices {
        let mut state = screen((80, 24), Source::Live);
        choose(&mut state);
        SavedChoices::chosen_in(&state)
    }

    fn names(screen: &str, names: &[&str]) -> ColumnChoices {
        [(screen.to_owned(), names.iter().map(|&name| name.to_owned()).collect())].into()
    }

    #[test]
    fn lists_are_read_back_unless_the_file_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lists.toml");
        assert_eq!(read(&path), None, "no file");
        for task_rows in [TaskRows::default(), WITH_THREADS] {
            let (hidden, shown) = (names("disk", &["baseline_multiple", "operation"]), names("tasks", &["priority"]));
            let saved = chosen(|state| {
                state.lists.task_rows = task_rows;
                state.options.remembered_theme = Some("dark".to_owned());
                state.lists.chosen_columns = ChosenColumns { hidden: hidden.clone(), shown: shown.clone() };
                state.hidden_panes = names("overview", &["network"]);
            });
            write(&path, &saved).unwrap();
            assert_eq!(read(&path), Some(saved));
            let state = Session::open(&path).state;
            let columns = &state.lists.chosen_columns;
            assert_eq!((state.lists.task_rows, &columns.hidden, &columns.shown), (task_rows, &hidden, &shown));
            assert_eq!(state.options.remembered_theme.as_deref(), Some("dark"));
            assert_eq!(state.hidden_panes, names("overview", &["network"]));
        }
        for damaged in [&b"hidden-columns = 3"[..], b"task-rows = 'x'", b"\xff", b"[[["] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path), None);
        }
        assert_eq!(read(directory.path()), None, "a directory");
    }

    /// Two sessions read the same file; each changes something else, the older one last.
    #[test]
    fn a_session_replaces_only_what_it_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lists.toml");
        write(&path, &chosen(|state| state.lists.chosen_columns.hidden = names("disk", &["op", "base"]))).unwrap();
        let (mut older, mut newer) = (Session::open(&path), Session::open(&path));
        older.choose_theme("dark").write(&path).unwrap();
        let of_newer = newer.choose(|state| {
            state.options.remembered_theme = Some("light".to_owned());
            state.lists.task_rows = WITH_THREADS;
            state.lists.chosen_columns =
                ChosenColumns { hidden: names("disk", &["op", "queue"]), shown: names("tasks", &["PRI"]) };
        });
        of_newer.write(&path).unwrap();
        let of_older = older.choose(|state| {
            state.lists.chosen_columns.hidden = names("disk", &["base", "infl"]);
            state.hidden_panes = names("overview", &["network"]);
        });
        of_older.write(&path).unwrap();
        let expected = chosen(|state| {
            state.lists.task_rows = WITH_THREADS;
            state.options.remembered_theme = Some("light".to_owned());
            state.lists.chosen_columns =
                ChosenColumns { hidden: names("disk", &["infl", "queue"]), shown: names("tasks", &["PRI"]) };
            state.hidden_panes = names("overview", &["network"]);
        });
        assert_eq!(read(&path), Some(expected));
        older.choose(|state| state.lists.chosen_columns.hidden.clear()).write(&path).unwrap();
        assert_eq!(Session::open(&path).state.lists.chosen_columns.hidden, names("disk", &["queue"]));
    }

    #[test]
    fn changes_that_cannot_be_written_are_made_with_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lists.toml");
        let changes = Session::open(&path).choose_theme("dark");
        fs::create_dir(&path).unwrap();
        changes.write(&path).unwrap_err();
        fs::remove_dir(&path).unwrap();
        write(&path, &chosen(|state| state.lists.task_rows = WITH_THREADS)).unwrap();
        changes.write(&path).unwrap();
        let state = Session::open(&path).state;
        assert_eq!(state.options.remembered_theme.as_deref(), Some("dark"));
        assert_eq!(state.lists.task_rows, WITH_THREADS, "of another session");
    }

    #[test]
    fn changes_that_are_pending_are_made_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lists.toml");
        let mut session = Session::open(&path);
        session.choose_theme("dark");
        let changes = session.choose_theme("light");
        session.choose_theme("mono");
        changes.write(&path).unwrap();
        assert_eq!(read(&path).unwrap().theme.as_deref(), Some("mono"));
        fs::remove_file(&path).unwrap();
        changes.write(&path).unwrap();
        assert!(!path.exists(), "nothing was left to change");
        session.choose_theme("dark");
        session.choose_theme("mono").write(&path).unwrap();
        assert_eq!(read(&path).unwrap().theme.as_deref(), Some("mono"));
    }
}
