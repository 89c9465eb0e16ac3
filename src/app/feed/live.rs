//! The running machine: judges each sample as it comes.

use std::time::Duration;

use crate::app::judging::{Judging, Lessons};
use crate::app::sampling::{Order, Sampling};
use crate::state::{Effect, Event, Notice};

pub struct Live {
    sampling: Sampling,
    judging: Judging,
    lessons: Lessons,
    /// The notice of the start
    told: Option<String>,
}

impl Live {
    pub fn new(sampling: Sampling, lessons: Lessons, told: Option<String>) -> Live {
        let judging = Judging::new(sampling.host.clone(), lessons.judge());
        Live { sampling, judging, lessons, told }
    }

    pub async fn next(&mut self) -> Vec<Event> {
        let Some(sample) = self.sampling.samples.recv().await else {
            return vec![Event::Ended(Some("sampling has ended".to_owned()))];
        };
        let mut events = Vec::new();
        if let Some(told) = self.told.take() {
            events.push(Event::Notice(Notice::failure(told)));
        }
        if let Some(judged) = self.judging.take(sample) {
            events.push(Event::Judged(judged));
        }
        self.lessons.keep_now_and_then(self.judging.judge());
        events
    }

    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::ChangeInterval(milliseconds) => {
                self.sampling.order(Order::Interval(Duration::from_millis(milliseconds)));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    pub fn close(mut self) {
        self.lessons.keep(self.judging.judge());
    }
}
