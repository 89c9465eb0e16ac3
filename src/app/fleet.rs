//! `fleet`: many hosts at a time. Each one is a command, usually `ssh HOST stalltop record -`, whose output a thread reads, evaluates and
//! keeps for the last minutes (`connection`). The screen takes the newest state of each (`host_link`).

mod connection;
mod copying;
mod event_loop;
mod host_link;
mod host_list;
mod host_samples;
mod host_screens;
mod once;
mod recorded_hosts;
mod recording;
mod remote_output;
mod replay;
mod saving;
mod source;
mod transport;
mod work_slot;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::app::config::Settings;
use crate::app::console::{self, Console};
use crate::app::disk_jobs;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::TerminationSignals;
use crate::app::program::stdio;
use crate::app::saved_choices;
use crate::app::screen_setup::setup;
use crate::app::terminal;
use crate::cli::{self, Configuration};
use crate::kernel::Root;
use crate::state::fleet::{FleetEvent, FleetSetup, FleetState, update};
use crate::state::{Notice, Source, TerminalCapabilities};
use connection::FleetContext;
use copying::RemoteCopies;
use event_loop::FleetLoop;
use host_link::HostLink;
use host_samples::HistoryLimits;
use host_screens::HostScreens;
use recorded_hosts::RecordedHosts;
use recording::FleetRecorder;
use replay::ReplayControl;
use source::FleetSource;
use transport::Transport;

/// The screen of the fleet, or its result.
pub fn fleet(configuration: &Configuration, options: &cli::Fleet) -> Result<Exit, Failure> {
    let is_plugin = options.once || options.json;
    run(configuration, options).map_err(|failure| if is_plugin { failure.as_unknown() } else { failure })
}

fn run(configuration: &Configuration, options: &cli::Fleet) -> Result<Exit, Failure> {
    let is_screen = !options.once && !options.json && terminal::is_available();
    match &options.replay {
        Some(directory) => {
            let files = RecordedHosts::find(directory)?;
            let settings = settings(configuration, options)?;
            if is_screen { replay(options, &settings, files) } else { once::of_recordings(options, &settings, &files) }
        }
        None => live(configuration, options, is_screen),
    }
}

/// The settings; an unknown theme is an error before any host is connected to.
fn settings(configuration: &Configuration, options: &cli::Fleet) -> Result<Settings, Failure> {
    let settings = Settings::load_and_warn(&Root::host(), configuration)?;
    settings.require_theme(options.appearance.theme.as_deref())?;
    Ok(settings)
}

fn live(configuration: &Configuration, options: &cli::Fleet, is_screen: bool) -> Result<Exit, Failure> {
    let hosts = host_list::hosts(options)?;
    // A signal ends it in order: copies are removed, recordings closed.
    let signals = TerminationSignals::block();
    let signals = signals.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let (links, notify) = links(hosts.iter().map(String::as_str));
    let (stopped, terminated) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    signals.on_signal({
        let (stopped, terminated, notify) = (Arc::clone(&stopped), Arc::clone(&terminated), Arc::clone(&notify));
        move || {
            stopped.store(true, Ordering::SeqCst);
            terminated.notify_one();
            notify.notify_one();
        }
    })?;
    let settings = settings(configuration, options)?;
    let transport = Transport::new(options.ssh.as_deref());
    // Dropped, and removed, when all connections have ended.
    let (_copies, stalltops) = RemoteCopies::new(options, &hosts, &transport, &stopped)?;
    let context = Arc::new(FleetContext {
        settings: settings.clone(),
        transport,
        interval: options.interval,
        limits: HistoryLimits::for_hosts(links.len()),
        recorder: options.record.as_deref().map(FleetRecorder::new).transpose()?,
        once: !is_screen,
    });
    let remotes = stalltops.iter().map(|stalltop| record_command(stalltop, options)).collect();
    connection::start(&links, remotes, &context)?;
    let exit = match is_screen {
        true => screen(options, &settings, &links, (notify, terminated), FleetSource::Live),
        false => once::once(options, &links, &notify, &stopped),
    };
    context.transport.end_all();
    recording::finish(&links).iter().for_each(|line| stdio::print_stderr(line));
    exit
}

fn replay(options: &cli::Fleet, settings: &Settings, files: RecordedHosts) -> Result<Exit, Failure> {
    let (links, notify) = links(files.names());
    let hosts = files.open(settings);
    for (host, link) in hosts.iter().zip(&links) {
        link.update(|state| *state = host.state());
    }
    let control = ReplayControl::start(files, hosts, links.clone(), options.speed)?;
    screen(options, settings, &links, (notify, Arc::default()), FleetSource::Replay(control))
}

/// A link for each host, and what wakes the screen.
fn links<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<Arc<HostLink>>, Arc<Notify>) {
    let notify = Arc::new(Notify::new());
    let link = |name: &str| Arc::new(HostLink::new(name.to_owned(), Arc::clone(&notify)));
    (names.map(link).collect(), notify)
}

/// Shows the fleet until the user quits. `notify`: a host has changed; `terminated`: as of `SignalEvents`.
fn screen(
    options: &cli::Fleet,
    settings: &Settings,
    links: &[Arc<HostLink>],
    (notify, terminated): (Arc<Notify>, Arc<Notify>),
    source: FleetSource,
) -> Result<Exit, Failure> {
    let setup = setup(&options.appearance, Source::Live, options.interval);
    let (_, theme, notices) = settings.themes(options.appearance.theme.as_deref(), saved_choices::load().theme.as_deref())?;
    let hosts = links.iter().map(|link| link.state()).collect();
    let setup = FleetSetup {
        terminal: TerminalCapabilities { theme, ..setup.terminal },
        time_zone: setup.time_zone,
        size: setup.size,
        playback_speed: matches!(source, FleetSource::Replay(_)).then_some(options.speed),
        recorded_in: options.record.as_ref().map(|directory| directory.display().to_string()),
    };
    let mut state = FleetState::new(setup, hosts);
    if let Some(notice) = notices.first() {
        update(&mut state, FleetEvent::Notice(Notice::failure(notice)));
    }
    let host_screens = HostScreens { settings, appearance: &options.appearance };
    console::runtime()?.block_on(async {
        let mut fleet_loop = FleetLoop::new(state, links, notify, source, host_screens);
        let (console, ended) = fleet_loop.run(Console::open(terminated)?).await;
        drop(console.terminal);
        let FleetLoop { saved, mut report, .. } = fleet_loop;
        saved.close(&mut report);
        let failure = report.print();
        disk_jobs::end_with(ended, failure)
    })
}

/// What runs on a host: `stalltop record - -i 1000ms`
fn record_command(stalltop: &str, options: &cli::Fleet) -> String {
    format!("{stalltop} record - -i {}ms", options.interval.as_millis())
}
