//! What was chosen on the screens, in the state directory: the hidden and added columns and the hidden panes of each screen, the kind of
//! rows of the tasks screen, and the theme. The file is `lists.toml` beside the baselines; one that cannot be read or written costs nothing
//! but the choice.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::program::threads::{spawn, with_timeout};
use crate::baseline::store::BaselineStore;
use crate::state::settings_menu::HiddenPanes;
use crate::state::{ChosenColumns, ColumnChoices, State, TaskRows};

/// How long the start of the program waits for the file.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct SavedLists {
    task_rows: TaskRows,
    /// Its name
    pub theme: Option<String>,
    hidden_columns: ColumnChoices,
    shown_columns: ColumnChoices,
    hidden_panes: HiddenPanes,
}

/// What was chosen in the last run, as far as it can be read.
pub fn load() -> SavedLists {
    with_timeout(TIMEOUT, || Some(read(&path(&store()?)?))).ok().flatten().unwrap_or_default()
}

impl SavedLists {
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

/// Replaces the file, on a thread of its own. The demo replaces nothing.
pub fn save(state: &State) {
    if state.options.demo.is_some() {
        return;
    }
    let ChosenColumns { hidden, shown } = state.lists.chosen_columns.clone();
    let saved = SavedLists {
        task_rows: state.lists.task_rows,
        theme: state.options.remembered_theme.clone(),
        hidden_columns: hidden,
        shown_columns: shown,
        hidden_panes: state.hidden_panes.clone(),
    };
    // Nothing is lost but the choice.
    let _ = spawn("save lists", move || {
        let store = store()?;
        store.make_directory().ok()?;
        write(&path(&store)?, &saved).ok()
    });
}

fn store() -> Option<BaselineStore> {
    BaselineStore::at_default_path(nix::unistd::geteuid().as_raw())
}

fn path(store: &BaselineStore) -> Option<PathBuf> {
    Some(store.path().parent()?.join("lists.toml"))
}

fn read(path: &Path) -> SavedLists {
    let mut text = String::new();
    let is_file = fs::metadata(path).is_ok_and(|facts| facts.is_file());
    let read = File::open(path).ok().filter(|_| is_file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text).ok());
    read.and_then(|_| toml::from_str(&text).ok()).unwrap_or_default()
}

fn write(path: &Path, saved: &SavedLists) -> io::Result<()> {
    let text = toml::to_string(saved).map_err(io::Error::other)?;
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::TaskList;

    #[test]
    fn lists_are_read_back_and_a_damaged_file_is_the_default() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lists.toml");
        assert_eq!(read(&path), SavedLists::default(), "no file");
        for task_rows in [TaskRows::default(), TaskRows::Cgroups(TaskList::TreeWithThreads)] {
            let hidden_columns: ColumnChoices = [("disk".to_owned(), ["×base".to_owned(), "op".to_owned()].into())].into();
            let shown_columns: ColumnChoices = [("tasks".to_owned(), ["PRI".to_owned()].into())].into();
            let hidden_panes: HiddenPanes = [("overview".to_owned(), ["network".to_owned()].into())].into();
            let theme = Some("dark".to_owned());
            let saved = SavedLists { task_rows, theme, hidden_columns, shown_columns, hidden_panes };
            write(&path, &saved).unwrap();
            assert_eq!(read(&path), saved);
        }
        for damaged in [&b"hidden-columns = 3"[..], b"task-rows = 'x'", b"\xff", b"[[["] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path), SavedLists::default());
        }
        assert_eq!(read(directory.path()), SavedLists::default(), "a directory");
    }
}
