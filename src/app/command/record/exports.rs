//! `record --rotate --export DIR`: each ended recording is written as Parquet files, as `export --hive` does, by a thread of low
//! priority (Cargo feature `parquet`).

#[cfg(feature = "parquet")]
mod thread {
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    use crate::app::command::export::hive::{self, HiveSelection};
    use crate::app::config::Settings;
    use crate::app::evaluated_recording::EvaluatedRecording;
    use crate::app::program::exit::{Exit, Failure};
    use crate::app::program::{priority, stdio, threads};
    use crate::app::sys;
    use crate::cli::Configuration;
    use crate::kernel::Root;

    /// The thread, and the recordings that it is to export.
    pub struct Exports {
        files: Sender<PathBuf>,
        thread: JoinHandle<Result<(), Failure>>,
    }

    impl Exports {
        pub fn start(configuration: &Configuration, directory: &Path) -> Result<Exports, Failure> {
            // The recorder prints the warnings.
            let (settings, _) = Settings::load(&Root::host(), configuration)?;
            let (files, received) = channel();
            let directory = directory.to_owned();
            let thread = threads::spawn("export", move || export_all(&received, &settings, &directory))?;
            Ok(Exports { files, thread })
        }

        /// Exports this ended recording after those that were added before.
        pub fn add(&self, file: &Path) {
            // The thread ends only when this is dropped.
            let _ = self.files.send(file.to_owned());
        }

        /// Waits for the last one.
        pub fn finish(self) -> Result<(), Failure> {
            drop(self.files);
            let panicked = || Failure::new(Exit::Failed, "cannot export", "its thread has panicked", "");
            self.thread.join().unwrap_or_else(|_| Err(panicked()))
        }
    }

    /// Prints each failure at once, since recording goes on. Returns the exit code of the last one.
    fn export_all(files: &Receiver<PathBuf>, settings: &Settings, directory: &Path) -> Result<(), Failure> {
        priority::lower();
        let mut result = Ok(());
        for file in files {
            let exported = EvaluatedRecording::open_even_empty(&file, settings)
                .and_then(|mut recorded| hive::write(&mut recorded, &HiveSelection::all(), directory));
            // The recorder needs a tenth of what an export takes.
            sys::malloc_trim();
            if let Err(failure) = exported {
                stdio::print_stderr(&failure.to_string());
                result = Err(Failure::already_reported(failure.exit));
            }
        }
        result
    }
}

#[cfg(not(feature = "parquet"))]
mod thread {
    use std::path::Path;

    use crate::app::command::export::{PARQUET_REMEDY, WITHOUT_PARQUET};
    use crate::app::program::exit::{Exit, Failure, quoted};
    use crate::cli::Configuration;

    /// Cannot be made.
    pub enum Exports {}

    impl Exports {
        /// Fails.
        pub fn start(_: &Configuration, directory: &Path) -> Result<Exports, Failure> {
            Err(Failure::new(Exit::Usage, format!("cannot export to {}", quoted(directory)), WITHOUT_PARQUET, PARQUET_REMEDY))
        }

        pub fn add(&self, _: &Path) {}

        pub fn finish(self) -> Result<(), Failure> {
            Ok(())
        }
    }
}

pub use thread::Exports;
