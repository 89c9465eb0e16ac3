//! Without a terminal: a block of lines a second (or as often as asked for).

use crate::app::config::Settings;
use crate::app::judging::{Judging, Lessons};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdout::{self, Reader};
use crate::app::sampling::Sampling;
use crate::cli::{Configuration, Live};
use crate::kernel::Root;
use crate::report::{text, window::Window};

/// Until somebody ends it, or nobody reads any more.
pub fn live(root: Root, configuration: &Configuration, live: &Live) -> Result<Exit, Failure> {
    let settings = Settings::load_or_complain(&root, configuration)?;
    let mut lessons = if root.is_host() { Lessons::load_or_complain() } else { Lessons::none() };
    let mut sampling = Sampling::start(root, live.interval, None)?;
    let mut judging = Judging::new(sampling.host.clone(), lessons.judge(settings.criteria_for(&sampling.host)));
    let glyphs = stdout::glyphs(live.appearance.glyphs());
    while let Some(taken) = sampling.samples.blocking_recv() {
        if let Some(baselines) = lessons.news() {
            judging.adopt(baselines);
        }
        let Some(judged) = judging.take(taken.sample) else { continue };
        lessons.hear(&judged);
        let mut window = Window::default();
        window.add(&judged);
        if stdout::say_with(glyphs, &text::block(&window))? == Reader::Gone {
            break;
        }
        if let Some(line) = lessons.keep_now_and_then() {
            stdout::complain(&format!("what was learned of disks is not kept: {line}"));
        }
    }
    if let Some(line) = lessons.keep_in_time() {
        stdout::complain(&line);
    }
    if crate::app::program::panics::happened() { Err(Failure::told(Exit::Failed)) } else { Ok(Exit::Fine) }
}
