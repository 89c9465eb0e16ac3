//! What waits to be sent. It is bounded: of metrics only the newest are kept, and of findings a limited number of requests. Each kind is
//! taken on its own: one that the collector refuses does not hold up the other.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Requests with findings; the oldest are dropped. One a second at most.
const MAX_LOG_REQUESTS: usize = 600;

/// What a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Findings
    Logs,
    Metrics,
}

impl RequestKind {
    /// What it has, in messages.
    pub fn noun(self) -> &'static str {
        match self {
            RequestKind::Logs => "findings",
            RequestKind::Metrics => "metrics",
        }
    }

    /// The name of the signal in OTLP, which is the end of its path.
    pub fn signal(self) -> &'static str {
        match self {
            RequestKind::Logs => "logs",
            RequestKind::Metrics => "metrics",
        }
    }
}

/// Shared by the thread that samples and the one that sends.
#[derive(Debug, Default)]
pub struct Outbox {
    content: Mutex<Content>,
    logs_added: Notify,
    metrics_set: Notify,
}

#[derive(Debug, Default)]
struct Content {
    metrics: Option<Vec<u8>>,
    logs: VecDeque<Vec<u8>>,
}

impl Outbox {
    /// Replaces metrics that have not been sent yet: totals only grow, so that the newer ones have all.
    pub fn set_metrics(&self, request: Vec<u8>) {
        self.lock().metrics = Some(request);
        self.metrics_set.notify_one();
    }

    pub fn add_logs(&self, request: Vec<u8>) {
        let mut content = self.lock();
        if content.logs.len() >= MAX_LOG_REQUESTS {
            content.logs.pop_front();
        }
        content.logs.push_back(request);
        drop(content);
        self.logs_added.notify_one();
    }

    /// Waits for the next request of that kind.
    pub async fn next_request(&self, kind: RequestKind) -> Vec<u8> {
        loop {
            if let Some(request) = self.try_next_request(kind) {
                return request;
            }
            match kind {
                RequestKind::Logs => self.logs_added.notified().await,
                RequestKind::Metrics => self.metrics_set.notified().await,
            }
        }
    }

    fn try_next_request(&self, kind: RequestKind) -> Option<Vec<u8>> {
        let mut content = self.lock();
        match kind {
            RequestKind::Logs => content.logs.pop_front(),
            RequestKind::Metrics => content.metrics.take(),
        }
    }

    /// Puts back what could not be sent, to be the next of its kind. Metrics only if there are no newer ones.
    pub fn put_back(&self, kind: RequestKind, request: Vec<u8>) {
        let mut content = self.lock();
        match kind {
            RequestKind::Logs if content.logs.len() < MAX_LOG_REQUESTS => content.logs.push_front(request),
            RequestKind::Logs => {}
            RequestKind::Metrics => {
                content.metrics.get_or_insert(request);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::RequestKind::{Logs, Metrics};
    use super::*;

    #[test]
    fn the_newest_metrics_and_a_limited_number_of_findings_are_kept() {
        let outbox = Outbox::default();
        outbox.set_metrics(vec![1]);
        outbox.set_metrics(vec![2]);
        for number in 0..=MAX_LOG_REQUESTS {
            outbox.add_logs(vec![u8::from(number == 0)]);
        }
        let taken: Vec<Vec<u8>> = std::iter::from_fn(|| outbox.try_next_request(Logs)).collect();
        assert_eq!(taken.len(), MAX_LOG_REQUESTS);
        assert_eq!(taken.first(), Some(&vec![0]), "the oldest was dropped");
        assert_eq!([outbox.try_next_request(Metrics), outbox.try_next_request(Metrics)], [Some(vec![2]), None]);
    }

    #[test]
    fn what_could_not_be_sent_comes_next_unless_it_is_outdated() {
        let outbox = Outbox::default();
        outbox.add_logs(vec![2]);
        outbox.put_back(Logs, vec![1]);
        assert_eq!([outbox.try_next_request(Logs), outbox.try_next_request(Logs)], [Some(vec![1]), Some(vec![2])]);
        outbox.set_metrics(vec![4]);
        outbox.put_back(Metrics, vec![3]);
        assert_eq!([outbox.try_next_request(Metrics), outbox.try_next_request(Metrics)], [Some(vec![4]), None]);
    }
}
