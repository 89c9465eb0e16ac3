//! docs/configuration.md, made from the list of thresholds: its example is complete, and is what is read.

use std::fmt::Write;

use crate::findings::THRESHOLDS;

/// Sections beside the thresholds, each with a line that does something.
const DEVICE_SECTIONS: &str = "\
[speeds]
# Mbit/s and fd or hd (full or half duplex) of interfaces, before what their drivers say: nicstat's -S.
# A virtual interface that is given one is judged by it.
#eth0 = \"1000fd\"

[baselines]
# What a disk needs for one request at a time, by its name or the identity that `stalltop baseline show` prints: before
# what was learned. For all sizes, or for requests of up to 16 KiB, of up to 128 KiB, and more.
#sda = { read = \"0.5ms\", write = \"1ms\", flush = \"2ms\" }
#nvme0n1 = { read = { 16K = \"80us\", 128K = \"120us\", more = \"400us\" } }

[ignore]
# No findings about these; their figures are shown all the same. A * at the end stands for any rest.
#disks = [\"loop*\", \"sr0\"]
#nics = [\"docker0\", \"veth*\"]
";

/// The example: every key, as a comment with its default.
pub fn example() -> String {
    let mut text = String::from("[thresholds]\n");
    let mut kinds = String::new();
    for limit in THRESHOLDS {
        let of = limit.kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
        if of != kinds {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n# {of}");
            kinds = of;
        }
        let _ = writeln!(text, "#{} = {:?}  # {}: {}", limit.name(), limit.default, limit.unit.label(), limit.meaning());
    }
    text + "\n" + DEVICE_SECTIONS
}

/// The whole page. A test fails when the file in docs/ is not this.
pub fn render() -> String {
    format!("{HEADER}\n```toml\n{}```\n\n{FOOTER}", example())
}

const HEADER: &str = "\
# Configuration

<!-- Made by src/app/config/page.rs: change it there, then STALLTOP_BLESS=1 cargo test --test generated_files -->

Nothing has to be configured. What is, is read from, the first one that says something about a thing being the one that counts:

1. the command line: `check --threshold KIND=VALUE`, `--nic-speed eth0=1000fd` (of every command, the live screen and `replay`
   among them; for `replay`, `--speed` is how fast it plays), `nicstat -S`
2. the environment: `STALLTOP_THRESHOLD=disk-latency=5,hung-task=10s`, `STALLTOP_SPEED=eth0=1000fd`
3. the user's file: `$XDG_CONFIG_HOME/stalltop/config.toml`, where that is not set `~/.config/stalltop/config.toml`
4. the system's file: `/etc/stalltop/config.toml`

`--config FILE` (or `STALLTOP_CONFIG=FILE`) stands for both files, `--no-config` for none. `stalltop doctor` says which are
read. Under sudo the user's file is root's (`/root/.config/stalltop/config.toml`): root believes no place that is not root's.

All commands that judge go by it: the live screen and lines, `replay`, `check`; `nicstat` takes the speeds (`--compat` does
not), `baseline show` the baselines, and `record` writes the baselines into the recording; all else in a recording is what the
kernel gave. A recording of another machine is judged by the thresholds here; its devices are its own, and what is said of
devices holds for it only when the file is named with `--config`, or `--nic-speed` says it.

## Every key
";

const FOOTER: &str = "\
A threshold is a number in its unit, or text with one: `blocked-ratio = \"30%\"`, `hung-seconds = \"10s\"`,
`swapping-bytes-per-second = \"4M\"`. [findings.md](findings.md) says what each rule does with its thresholds.

## What is wrong is said

| what | then |
| --- | --- |
| no file | nothing is set |
| an unknown key, a value that is none, no TOML, not UTF-8, larger than 1 MiB, no regular file (a directory, a FIFO) | one line with the file, the line and what was probably meant; exit 2 |
| others may write it, or it belongs to neither you nor root | refused, one line, exit 6 |
| it cannot be read (permission, an I/O error, a link that leads nowhere) | a notice, and on without it; exit 1 where it was named with `--config` |
| its file system does not answer for 3 s | a notice, and on without it |

`check` exits with 3 for all of these, as for everything else that keeps it from telling. Links are followed, and what they
lead to is looked at.
";
