//! What waits to be sent. It is bounded: of metrics only the newest are kept, and of findings a limited number of requests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Requests with findings; the oldest are dropped. One a second at most.
const MAX_LOG_REQUESTS: usize = 600;

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Logs(Vec<u8>),
    Metrics(Vec<u8>),
}

/// Shared by the thread that samples and the one that sends.
#[derive(Debug, Default)]
pub struct Outbox {
    content: Mutex<Content>,
    filled: Notify,
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
        self.filled.notify_one();
    }

    pub fn add_logs(&self, request: Vec<u8>) {
        let mut content = self.lock();
        if content.logs.len() >= MAX_LOG_REQUESTS {
            content.logs.pop_front();
        }
        content.logs.push_back(request);
        drop(content);
        self.filled.notify_one();
    }

    /// Waits for the next request.
    pub async fn take(&self) -> Body {
        loop {
            if let Some(body) = self.try_take() {
                return body;
            }
            self.filled.notified().await;
        }
    }

    fn try_take(&self) -> Option<Body> {
        let mut content = self.lock();
        content.logs.pop_front().map(Body::Logs).or_else(|| content.metrics.take().map(Body::Metrics))
    }

    /// Puts back what could not be sent, to be the next. Metrics only if there are no newer ones.
    pub fn put_back(&self, body: Body) {
        let mut content = self.lock();
        match body {
            Body::Logs(request) if content.logs.len() < MAX_LOG_REQUESTS => content.logs.push_front(request),
            Body::Logs(_) => {}
            Body::Metrics(request) => {
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
    use super::*;

    #[test]
    fn the_newest_metrics_and_a_limited_number_of_findings_are_kept() {
        let outbox = Outbox::default();
        outbox.set_metrics(vec![1]);
        outbox.set_metrics(vec![2]);
        for number in 0..=MAX_LOG_REQUESTS {
            outbox.add_logs(vec![u8::from(number == 0)]);
        }
        let mut taken = Vec::new();
        while let Some(body) = outbox.try_take() {
            taken.push(body);
        }
        assert_eq!(taken.len(), MAX_LOG_REQUESTS + 1);
        assert_eq!(taken.first(), Some(&Body::Logs(vec![0])), "the oldest was dropped");
        assert_eq!(taken.last(), Some(&Body::Metrics(vec![2])));
    }

    #[test]
    fn what_could_not_be_sent_comes_next_unless_it_is_outdated() {
        let outbox = Outbox::default();
        outbox.add_logs(vec![2]);
        outbox.put_back(Body::Logs(vec![1]));
        assert_eq!(outbox.try_take(), Some(Body::Logs(vec![1])));
        assert_eq!(outbox.try_take(), Some(Body::Logs(vec![2])));
        outbox.set_metrics(vec![4]);
        outbox.put_back(Body::Metrics(vec![3]));
        assert_eq!(outbox.try_take(), Some(Body::Metrics(vec![4])));
        assert_eq!(outbox.try_take(), None);
    }
}
