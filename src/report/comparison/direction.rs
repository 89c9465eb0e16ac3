//! For the worse or for the better: which way a figure should go, where that can be told from it alone.

/// Which value of two is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterDirection {
    Lower,
    Higher,
    /// More work done, or more work needed? Only who made the load knows.
    Neither,
}

/// What nobody wants more of: names of JSON, by the table in which they stand.
const LOWER_IS_BETTER: &[(&str, &[&str])] = &[
    ("cpu", &["steal_ratio", "idle_but_blocked_ratio", "unaccounted_ratio", "hidden_ratio"]),
    ("load", &["run_queue_wait", "blocked_threads", "blocked", "blocked_disk", "procs_blocked"]),
    (
        "memory",
        &[
            "swap_in_bytes_per_second",
            "swap_out_bytes_per_second",
            "major_faults_per_second",
            "refaults_per_second",
            "allocation_stalls_per_second",
            "direct_scans_per_second",
            "oom_kills",
        ],
    ),
    (
        "disk",
        &[
            "read_await_seconds",
            "write_await_seconds",
            "discard_await_seconds",
            "flush_await_seconds",
            "read_multiple",
            "write_multiple",
            "queue",
        ],
    ),
    ("nic", &["saturation_per_second", "receive_errors_per_second", "send_errors_per_second"]),
    ("tcp", &["resets_per_second", "attempt_fails_per_second", "retransmitted_ratio", "listen_drops_per_second"]),
    ("udp", &["datagram_errors_in_per_second", "datagram_errors_out_per_second"]),
];

/// What nobody can have enough of.
const HIGHER_IS_BETTER: &[(&str, &[&str])] = &[("cpu", &["free_ratio"]), ("memory", &["available_bytes"])];

/// Which way that figure of that table should go.
pub fn better_direction(table: &str, figure: &str) -> BetterDirection {
    let lists = |list: &[(&str, &[&str])]| list.iter().any(|(of, figures)| *of == table && figures.contains(&figure));
    match () {
        // All of it is time in which tasks were kept waiting.
        () if table == "pressure" || lists(LOWER_IS_BETTER) => BetterDirection::Lower,
        () if lists(HIGHER_IS_BETTER) => BetterDirection::Higher,
        () => BetterDirection::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table;

    #[test]
    fn every_figure_that_is_named_here_is_there() {
        for (name, figures) in LOWER_IS_BETTER.iter().chain(HIGHER_IS_BETTER) {
            let heads = table::find_table(name).unwrap().columns();
            for figure in *figures {
                assert!(heads.iter().any(|head| head.key == *figure), "{name} {figure}");
            }
        }
    }
}
