//! docs/configuration.md and the configuration file of the packages, generated from the list of thresholds. Both have every key.

use std::fmt::Write;

use crate::findings::THRESHOLDS;

/// The keys before the sections.
const FIRST_KEYS: &str = "\
# When eBPF programs are attached, which measure what /proc does not tell, such as the distribution of disk latencies: auto (where the
# kernel and the user's privileges allow it, and while they take at most 1 % of a CPU), off, or on (whatever they cost).
# 'stalltop probe' attaches its own programs whatever is set here.
#probes = \"auto\"
";

/// The sections of devices, each with an example.
const DEVICE_SECTIONS: &str = "\
[speeds]
# Mbit/s and fd or hd (full or half duplex) of interfaces, instead of what their drivers report: nicstat's -S.
# A virtual interface has a utilization only with a speed given here.
#eth0 = \"1000fd\"

[baselines]
# The latency of a disk with one request at a time, by its name or the identity that `stalltop baseline show` prints; used
# instead of the learned one. For all sizes, or for requests of up to 16 KiB, of up to 128 KiB, and more.
#sda = { read = \"0.5ms\", write = \"1ms\", flush = \"2ms\" }
#nvme0n1 = { read = { 16K = \"80us\", 128K = \"120us\", more = \"400us\" } }

[ignore]
# No findings about these devices, and about how full the file systems at these mount points are; their figures are shown. A * at the
# end matches any rest of a name.
#disks = [\"loop*\", \"sr0\"]
#nics = [\"docker0\", \"veth*\"]
#file-systems = [\"/mnt/plots*\"]

[screen]
# The colors of the screen, as with --theme: terminal, mono, dark, light, high-contrast, color-blind, or the name of a user's file
# ~/.config/stalltop/themes/NAME.toml (themes.md). NO_COLOR and --no-color disable all colors.
#theme = \"terminal\"
";

/// The example: every key, as a comment with its default.
pub fn example() -> String {
    let mut text = format!("{FIRST_KEYS}\n[thresholds]\n");
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

/// The file that packages install as /etc/stalltop/config.toml: it sets nothing.
pub fn packaged() -> String {
    format!("{PACKAGED_HEADER}\n{}", example())
}

const PACKAGED_HEADER: &str = "\
# Configuration of stalltop for all users of this machine. A user's own ~/.config/stalltop/config.toml takes precedence.
# Every key is here with its default, as a comment: remove the # to change it. 'stalltop doctor' says which files are read.
";

/// The whole page. A test fails when the file in docs/ is not this.
pub fn render() -> String {
    format!("{HEADER}\n```toml\n{}```\n\n{FOOTER}", example())
}

const HEADER: &str = "\
# Configuration

<!-- Made by src/app/config/docs.rs: change it there, then STALLTOP_BLESS=1 cargo test --test generated_files -->

No configuration is required. Settings are read from these places; the first one that sets a value takes precedence:

1. the command line: `check --threshold KIND=VALUE`, `nicstat -S`, and `--nic-speed eth0=1000fd` and `--probes off`, which every command accepts
   (the `--speed` of `replay` is the playback speed)
2. the environment: `STALLTOP_THRESHOLD=disk-latency=5,hung-task=10s`, `STALLTOP_SPEED=eth0=1000fd`
3. the user's file: `$XDG_CONFIG_HOME/stalltop/config.toml`, or `~/.config/stalltop/config.toml`
4. the system's file: `/etc/stalltop/config.toml`

`--config FILE` (or `STALLTOP_CONFIG=FILE`) replaces both files, `--no-config` disables them. `stalltop doctor` prints which
files are read. Under sudo the user's file is root's (`/root/.config/stalltop/config.toml`): root does not read a file in a
directory that does not belong to root.

The configuration applies to all commands that evaluate samples: the live screen and lines, `replay`, `demo`, `check`, `fleet`, `serve`,
`report`, `compare`, `table`, `export`, and `record` with `--armed` or `--on-finding`. `nicstat` uses the speeds (except with
`--compat`), `baseline show` the baselines, and `record` writes the baselines to the recording; all other contents of a recording are
as the kernel gave them. For a recording of another machine, the thresholds apply; speeds, baselines and ignored devices apply only
from a file named with `--config`, and from `--nic-speed`.

## Every key
";

const FOOTER: &str = "\
A threshold is a number in its unit, or text with one: `blocked-ratio = \"30%\"`, `hung-seconds = \"10s\"`,
`swapping-bytes-per-second = \"4M\"`. [findings.md](findings.md) says what each rule does with its thresholds.

## Errors

| error | result |
| --- | --- |
| no file | the defaults are used |
| an unknown key, an invalid value, a threshold that is set twice, invalid TOML, not UTF-8, larger than 1 MiB, not a regular file (a directory, a FIFO) | one line with the file, the line number and a suggestion; exit code 2 |
| others may write to the file, or it belongs to neither the user nor root | refused, one line, exit code 6 |
| the file cannot be read (permission, an I/O error, a dangling link) | a warning, and the file is not used; exit code 1 if it was named with `--config` |
| its file system does not answer for 3 s | a warning, and the file is not used |

`check` exits with 3 for all of these, as for every other reason for which it has no result. Links are followed, and the
permissions of their target are checked.
";
