//! Processes that slept for the whole interval.

use super::*;
use crate::sample::Name;
use crate::sample::task::ProcessFacts;
use crate::units::PerSecond;

#[test]
fn facts_read_later_do_not_make_a_sleeping_process_active() {
    let asleep = process(7, 100, 5_000_000);
    let mut known = Process::clone(&asleep);
    known.facts = Arc::new(ProcessFacts { cmdline: Ok(Name::from("sleep 1000")), ..ProcessFacts::default() });
    known.io = Ok(Default::default());
    let mut ran = known.clone();
    ran.cpu_ns = Some(Counter(6_000_000));
    let spans = |newer: Process| {
        let interval = between(&with_tasks(10.0, vec![asleep.clone()]), &with_tasks(11.0, vec![Arc::new(newer)]));
        interval.tasks.expect("both have tasks")
    };
    let span = spans(known.clone());
    assert!(span.active_processes.is_empty() && span.threads.is_empty(), "{span:?}");
    assert_eq!(span.process(&known).read_bytes, Some(PerSecond(0.0)));
    assert_eq!(spans(ran).active_processes.len(), 1);
}
