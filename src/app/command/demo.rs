//! `stalltop demo`: recordings of real loads that are part of the program, with a note on each that says what to notice.
//! Without a terminal: the list of them, or the findings of one.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;

use tempfile::NamedTempFile;

use crate::app::config::Settings;
use crate::app::demo_playlist::DemoRecording;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::full_screen;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{print, print_localized};
use crate::app::terminal;
use crate::cli;
use crate::cli::demo::RECORDING_COUNT;
use crate::kernel::Root;
use crate::report::text;
use crate::report::window::Window;
use crate::state::demo::DemoNote;

/// A recording that is part of the program. It was made by tests/recordings/make.sh.
struct Bundled {
    name: &'static str,
    title: &'static str,
    notice: &'static str,
    bytes: &'static [u8],
}

/// The numbers of `demo N` are those of the list, from 1.
const RECORDINGS: [Bundled; RECORDING_COUNT as usize] = [
    Bundled {
        name: "blocked-database",
        title: "a blocked database",
        notice: "No CPU time is free: its processes wait behind one flush of the log. Hatched time is blocked; \
                 iowait shows only a part. Press 6, Enter: who waits for whom.",
        bytes: include_bytes!("../../../assets/demo/1-blocked-database.stalltop"),
    },
    Bundled {
        name: "saturated-thread",
        title: "a saturated thread",
        notice: "Half of the host is idle, and one thread is at its limit: more CPUs would not make it faster. \
                 Press 2: its CPU. Press 5, Enter: where its time goes.",
        bytes: include_bytes!("../../../assets/demo/2-saturated-thread.stalltop"),
    },
    Bundled {
        name: "slow-disk",
        title: "a slow disk",
        notice: "Reads take 20 times as long as this kind of device needs: 64 of them queue in it. Press 3: \
                 await and queue. Press Enter: the latency over time.",
        bytes: include_bytes!("../../../assets/demo/3-slow-disk.stalltop"),
    },
    Bundled {
        name: "saturated-nic",
        title: "a saturated network interface",
        notice: "The queueing discipline (tbf) is full: packets wait and are dropped, round trips take 1000 \
                 times their minimum. Press 4: interfaces; p: remote hosts.",
        bytes: include_bytes!("../../../assets/demo/4-saturated-nic.stalltop"),
    },
    Bundled {
        name: "throttled-container",
        title: "a throttled container",
        notice: "The host is idle, and a process gets a fifth of a CPU: the quota of its cgroup throttles it 80 \
                 % of the time. Press 7, Enter: limits and members.",
        bytes: include_bytes!("../../../assets/demo/5-throttled-container.stalltop"),
    },
    Bundled {
        name: "harmless-load",
        title: "a load average that means nothing",
        notice: "The load average is above 100, and nothing is wrong: 1000 tasks wait in vfork for a child that \
                 sleeps. Press 5, then c: tasks by what they wait for.",
        bytes: include_bytes!("../../../assets/demo/6-harmless-load.stalltop"),
    },
    Bundled {
        name: "memory-thrashing",
        title: "thrashing without swap",
        notice: "Four processes read again what was just dropped: their cgroup is at its memory limit, the host \
                 has 20 GiB available. Press 7: pressure, and the cgroup.",
        bytes: include_bytes!("../../../assets/demo/7-memory-thrashing.stalltop"),
    },
];

/// The numbers and titles of the recordings.
pub fn titles() -> impl Iterator<Item = (usize, &'static str)> {
    RECORDINGS.iter().enumerate().map(|(index, bundled)| (index + 1, bundled.title))
}

/// Plays the recordings, or prints what they are where there is no terminal.
pub fn demo(configuration: &cli::Configuration, options: &cli::Demo) -> Result<Exit, Failure> {
    let (settings, _) = Settings::load(&Root::host(), configuration)?;
    settings.require_theme(options.appearance.theme.as_deref())?;
    let wanted = |place: usize| options.number.is_none_or(|number| usize::from(number) == place + 1);
    let chosen: Vec<(usize, &Bundled)> = RECORDINGS.iter().enumerate().filter(|(place, _)| wanted(*place)).collect();
    match chosen.as_slice() {
        [(_, single)] if !terminal::is_available() => {
            return print_localized(&findings(&settings, single)?).map(|_| Exit::Success);
        }
        _ if options.list || !terminal::is_available() => return print(&list()).map(|_| Exit::Success),
        _ => {}
    }
    let mut recordings = VecDeque::new();
    for (at, &(place, bundled)) in chosen.iter().enumerate() {
        let note = DemoNote {
            number: place + 1,
            count: RECORDINGS.len(),
            title: bundled.title,
            notice: bundled.notice,
            has_next: at + 1 < chosen.len(),
        };
        recordings.push_back(DemoRecording { file: unpack(bundled)?, name: bundled.name, note });
    }
    full_screen::demo(settings, options.appearance.clone(), recordings)
}

/// A file with the recording: it is read as any other one is.
fn unpack(bundled: &Bundled) -> Result<NamedTempFile, Failure> {
    let write = || -> std::io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().prefix("stalltop-demo-").suffix(".stalltop").tempfile()?;
        file.write_all(bundled.bytes)?;
        Ok(file)
    };
    write().map_err(|error| Failure::new(Exit::Failed, "cannot write a temporary file", error, "set TMPDIR"))
}

/// What the load is, and what `check` prints for its recording.
fn findings(settings: &Settings, bundled: &Bundled) -> Result<String, Failure> {
    let file = unpack(bundled)?;
    let mut window = Window::default();
    for evaluation in EvaluatedRecording::open(file.path(), settings)? {
        window.add(&evaluation);
    }
    Ok(format!("{}: {}\n\n{}", bundled.title, bundled.notice, text::check(&window)))
}

fn list() -> String {
    let mut text = String::new();
    for (number, bundled) in (1..).zip(&RECORDINGS) {
        let _ = writeln!(text, "{number}  {}: {}", bundled.title, bundled.notice);
    }
    text + "stalltop demo plays them in order, stalltop demo N one of them; q goes to the next one, Ctrl-C ends.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Replayer;

    #[test]
    fn the_key_to_press_is_on_a_terminal_of_80_columns() {
        for bundled in &RECORDINGS {
            assert_eq!(crate::view::text::wrap(bundled.notice, 80, usize::MAX).len(), 2, "{}", bundled.notice);
        }
    }

    /// Of all recordings: they are in every copy of the program.
    const MAX_BYTES: usize = 300_000;

    #[test]
    fn the_recordings_are_whole_small_and_without_arguments() {
        assert!(RECORDINGS.iter().map(|bundled| bundled.bytes.len()).sum::<usize>() <= MAX_BYTES);
        for bundled in &RECORDINGS {
            let mut replayer = Replayer::from_bytes(bundled.bytes.to_vec()).unwrap();
            assert!(replayer.len() >= 10, "{}", bundled.name);
            let sample = replayer.sample(5).unwrap();
            let processes = &sample.tasks.as_ref().unwrap().processes;
            assert!(processes.iter().all(|process| process.facts.cmdline.is_err()), "{}", bundled.name);
        }
    }
}
