//! Other tools, and what to type instead of them: for a user who types `stalltop iostat`, and for the table in README.md.

use crate::units::similar::nearest;

/// A tool, and the command of this program that shows the same.
#[derive(Clone, Copy, Debug)]
pub struct OtherTool {
    /// The command as it is usually typed
    pub typed: &'static str,
    pub instead: &'static str,
    /// What is shown beyond it, or not at all
    pub note: &'static str,
}

impl OtherTool {
    /// The name of its program.
    pub fn name(&self) -> &'static str {
        self.typed.split(' ').next().unwrap_or_default()
    }
}

/// In the order of README.md.
pub const OTHER_TOOLS: [OtherTool; 15] = [
    OtherTool { typed: "top", instead: "stalltop", note: "the line below the title says what is wrong; key 5 lists the tasks" },
    OtherTool {
        typed: "htop",
        instead: "stalltop",
        note: "F1, F3 to F6, F9 (with `--allow-signals`) and F10 as there; key 5, then T: tree, t: threads, u: containers",
    },
    OtherTool {
        typed: "atop",
        instead: "stalltop record --rotate 1d --keep 7d DIR",
        note: "`stalltop replay DIR` shows any of these days",
    },
    OtherTool {
        typed: "iostat -x 1",
        instead: "stalltop table disk 1",
        note: "iostat's columns, and each latency against its baseline",
    },
    OtherTool {
        typed: "mpstat -P ALL 1",
        instead: "stalltop table core 1",
        note: "mpstat's columns; `--columns all`: the busiest thread of each CPU, too",
    },
    OtherTool {
        typed: "pidstat 1",
        instead: "stalltop table task 1 --busy",
        note: "CPU, waits, faults and bytes in one line; for -t: `table thread`",
    },
    OtherTool { typed: "vmstat 1", instead: "stalltop table load 1 --columns vmstat", note: "vmstat's columns, with decimals" },
    OtherTool {
        typed: "sar -f FILE",
        instead: "stalltop table cpu 1m --from FILE",
        note: "any table, at any interval; `replay` shows the screens",
    },
    OtherTool {
        typed: "nicstat 1",
        instead: "stalltop nicstat 1",
        note: "the same options and columns; `--compat` for the same arithmetic",
    },
    OtherTool {
        typed: "iotop",
        instead: "stalltop table task 1 --sort kB_wr/s --top 10",
        note: "on the screen: key 5, then s until the column is chosen",
    },
    OtherTool {
        typed: "perf top",
        instead: "stalltop",
        note: "key 5, then Enter: where the time of a process goes; for its functions use perf",
    },
    OtherTool {
        typed: "biolatency",
        instead: "stalltop table disk 1 --columns latency",
        note: "as root: p50 to max of reads, writes and flushes; key 3: a heat map, on 100 columns and 32 rows or more",
    },
    OtherTool { typed: "runqlat", instead: "stalltop probe runq 1", note: "the same, by CPU and process" },
    OtherTool {
        typed: "vfsstat",
        instead: "stalltop probe fs 1",
        note: "sequential, random and mapped reads and writes of each file system",
    },
    OtherTool {
        typed: "offcputime",
        instead: "stalltop table thread 1 --columns states",
        note: "time by state; stacks: `stalltop export --folded FILE`",
    },
];

/// What to type instead of the tool with this name.
pub fn instead_of(word: &str) -> Option<&'static OtherTool> {
    OTHER_TOOLS.iter().find(|tool| tool.name() == word)
}

/// The tool with this name, or with one letter of it wrong.
pub fn one_edit_from(word: &str) -> Option<&'static OtherTool> {
    instead_of(nearest(word, OTHER_TOOLS.iter().map(OtherTool::name), 1)?)
}
