# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_stalltop_global_optspecs
    string join \n root= config= no-config nic-speed= i/interval= history= allow-signals ascii unicode no-color slow theme= h/help V/version
end

function __fish_stalltop_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_stalltop_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_stalltop_using_subcommand
    set -l cmd (__fish_stalltop_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c stalltop -n "__fish_stalltop_needs_command" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_needs_command" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_needs_command" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -s i -l interval -d 'Time between samples: 100ms to 1h' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -l history -d 'How long samples are kept in memory, to go back ([), to save (w) and to record from (R); at most 16 MiB' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -l theme -d 'Colors: terminal, mono, dark, light, high-contrast, color-blind, or a theme of the user (docs/themes.md)' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_needs_command" -l allow-signals -d 'Let the key K send a signal to the selected process, after a question'
complete -c stalltop -n "__fish_stalltop_needs_command" -l ascii -d 'Draw with ASCII characters only (as with LC_ALL=C)'
complete -c stalltop -n "__fish_stalltop_needs_command" -l unicode -d 'Draw with all characters, whatever the locale and TERM'
complete -c stalltop -n "__fish_stalltop_needs_command" -l no-color -l mono -d 'Draw without colors (as with NO_COLOR set)'
complete -c stalltop -n "__fish_stalltop_needs_command" -l slow -d 'For a slow line, such as 9600 baud: a frame every 2 seconds, and no graphs. Detected on a serial line of at most 19,200 baud, and where the terminal accepts frames too slowly'
complete -c stalltop -n "__fish_stalltop_needs_command" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_needs_command" -s V -l version -d 'Print version'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "record" -d 'Record without a screen, until stopped'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "replay" -d 'Show a recording on the same screens, and move in time'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "demo" -d 'Show recordings of six loads, each with a note that says what to notice'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "check" -d 'Print the findings and exit: 0 none, 1 a warning, 2 a critical one, 3 unknown'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "info" -d 'Print what a recording contains'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "report" -d 'Write a recording as one self-contained page, to attach to a ticket'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "cut" -d 'Copy a part of a recording to a new recording'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "cat" -d 'Join recordings of one boot of a machine, with the gaps between them'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "compare" -d 'Compare recordings: median and p95 of each figure, what became worse and how certain that is, cost per operation'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "mark" -d 'Add a mark with a text to every recording and live session of this user'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "doctor" -d 'Print what this user can and cannot read on this kernel, and what would change it'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "nicstat" -d 'A replacement for nicstat: the same options, columns and arithmetic'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "baseline" -d 'Show, set, learn or forget the learned latencies of disks'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "table" -d 'Print figures as lines: text, CSV or JSON; live, of a recording, or of a command'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "export" -d 'Write every figure of every interval of a recording as CSV, JSON lines or Parquet'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "completions" -d 'Print the completions for a shell'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "man" -d 'Print the manual page of the program or of a command'
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -s i -l interval -d 'Time between samples: 100ms to 1h' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l for -d 'Stop after this time, such as 10m' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l max-size -d 'Stop before the file grows larger, such as 1G; with --rotate, begin the next file' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l rotate -d 'FILE is a directory: begin a new recording in it after this time, such as 1d. `replay` reads the directory as one' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l keep -d 'Delete recordings of this machine and user in the directory that ended longer ago, such as 7d' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l ops -d 'Run `sh -c CMD` at most once a second, as the user who records, and record the running total that it prints as its first word: `compare` then shows the cost of an operation. Killed after 5 s; the recording does not wait for it' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l redact -d 'Record command names without their arguments, and no names of containers'
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l at -d 'Start at this time: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l from -d 'Start of the part: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l to -d 'End of the part, in the same forms' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l speed -d 'Playback speed as a multiple of real time' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l theme -d 'Colors: terminal, mono, dark, light, high-contrast, color-blind, or a theme of the user (docs/themes.md)' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l ascii -d 'Draw with ASCII characters only (as with LC_ALL=C)'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l unicode -d 'Draw with all characters, whatever the locale and TERM'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l no-color -l mono -d 'Draw without colors (as with NO_COLOR set)'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l slow -d 'For a slow line, such as 9600 baud: a frame every 2 seconds, and no graphs. Detected on a serial line of at most 19,200 baud, and where the terminal accepts frames too slowly'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l theme -d 'Colors: terminal, mono, dark, light, high-contrast, color-blind, or a theme of the user (docs/themes.md)' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l list -d 'Print the list of recordings'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l ascii -d 'Draw with ASCII characters only (as with LC_ALL=C)'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l unicode -d 'Draw with all characters, whatever the locale and TERM'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l no-color -l mono -d 'Draw without colors (as with NO_COLOR set)'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l slow -d 'For a slow line, such as 9600 baud: a frame every 2 seconds, and no graphs. Detected on a serial line of at most 19,200 baud, and where the terminal accepts frames too slowly'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand demo" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l at -d 'Evaluate the recording from this time on: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l for -d 'Evaluate the machine for this time [default: 5s, with --watch no limit]; of a recording, this much of its end [default: all], or with --at this much from there on [default: 5s]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -s i -l interval -d 'Time between samples [default: 1s, or a quarter of --for if that is less]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l only -d 'Only findings of these kinds' -r -f -a "idle-but-blocked\t''
kernel-lock-contention\t''
stuck-server\t''
file-lock-queue\t''
mutex-queue\t''
saturated-core\t''
saturated-thread\t''
cpu-saturated\t''
cpu-throttled\t''
cpu-stolen\t''
hidden-cpu\t''
short-lived-processes\t''
disk-latency\t''
disk-busy-not-saturated\t''
disk-stalled\t''
disk-drift\t''
io-throttled\t''
hung-task\t''
nic-saturated\t''
tcp-retransmits\t''
listen-overflow\t''
syn-queue-overflow\t''
udp-overflow\t''
network-latency\t''
send-blocked\t''
connect-blocked\t''
load-not-cpu\t''
memory-pressure\t''
swapping\t''
oom-kill\t''
limit-reached\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l ignore -d 'Ignore findings of these kinds' -r -f -a "idle-but-blocked\t''
kernel-lock-contention\t''
stuck-server\t''
file-lock-queue\t''
mutex-queue\t''
saturated-core\t''
saturated-thread\t''
cpu-saturated\t''
cpu-throttled\t''
cpu-stolen\t''
hidden-cpu\t''
short-lived-processes\t''
disk-latency\t''
disk-busy-not-saturated\t''
disk-stalled\t''
disk-drift\t''
io-throttled\t''
hung-task\t''
nic-saturated\t''
tcp-retransmits\t''
listen-overflow\t''
syn-queue-overflow\t''
udp-overflow\t''
network-latency\t''
send-blocked\t''
connect-blocked\t''
load-not-cpu\t''
memory-pressure\t''
swapping\t''
oom-kill\t''
limit-reached\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l threshold -d 'Use another threshold: the main one of a kind (disk-latency=5), or one by its name (latency-critical-multiple=20)' -r -f -a "idle-but-blocked=\t''
kernel-lock-contention=\t''
file-lock-queue=\t''
mutex-queue=\t''
saturated-core=\t''
saturated-thread=\t''
cpu-saturated=\t''
cpu-throttled=\t''
cpu-stolen=\t''
hidden-cpu=\t''
short-lived-processes=\t''
disk-latency=\t''
disk-busy-not-saturated=\t''
disk-stalled=\t''
disk-drift=\t''
io-throttled=\t''
hung-task=\t''
nic-saturated=\t''
tcp-retransmits=\t''
syn-queue-overflow=\t''
udp-overflow=\t''
network-latency=\t''
send-blocked=\t''
connect-blocked=\t''
load-not-cpu=\t''
memory-pressure=\t''
swapping=\t''
limit-reached=\t''
blocked-ratio=\t''
blocked-cpus=\t''
blocked-threads=\t''
blocked-critical-ratio=\t''
blocked-critical-threads-per-cpu=\t''
kernel-lock-threads=\t''
kernel-lock-cpus=\t''
kernel-lock-warning-ratio=\t''
file-lock-threads=\t''
file-lock-warning-threads=\t''
mutex-queue-threads=\t''
core-busy-ratio=\t''
thread-busy-ratio=\t''
box-idle-below-ratio=\t''
free-cpus=\t''
cpu-waiting-per-cpu=\t''
limit-seconds=\t''
cpu-busy-ratio=\t''
cpu-waiting-critical-per-cpu=\t''
throttled-ratio=\t''
stolen-ratio=\t''
stolen-critical-ratio=\t''
hidden-cpus=\t''
hidden-intervals=\t''
short-lived-forks-per-second=\t''
short-lived-seen-ratio=\t''
short-lived-busy-ratio=\t''
short-lived-cpus=\t''
short-lived-warning-ratio=\t''
latency-multiple=\t''
latency-critical-multiple=\t''
latency-provisional-multiple=\t''
latency-felt=\t''
latency-waiting-threads=\t''
disk-busy-ratio=\t''
disk-well-multiple=\t''
drift-multiple=\t''
drift-warning-multiple=\t''
stalled-seconds=\t''
io-throttled-threads=\t''
io-throttled-device-share=\t''
io-limit-used-ratio=\t''
hung-seconds=\t''
hung-critical-seconds=\t''
nic-busy-ratio=\t''
nic-saturation-per-second=\t''
nic-saturation-ratio=\t''
nic-intervals=\t''
retransmitted-ratio=\t''
retransmitted-per-second=\t''
syn-queue-full-per-second=\t''
syn-flood-per-second=\t''
udp-overflow-per-second=\t''
udp-overflow-ratio=\t''
round-trip-multiple=\t''
round-trip-ms=\t''
round-trip-unpressed-ms=\t''
send-blocked-seconds=\t''
unix-send-blocked-seconds=\t''
send-blocked-threads=\t''
connect-blocked-seconds=\t''
connect-blocked-threads=\t''
load-per-cpu=\t''
memory-pressure-ratio=\t''
memory-pressure-critical-ratio=\t''
refaults-per-second=\t''
memory-limit-ratio=\t''
memory-waiting-threads=\t''
memory-fault-share=\t''
swapping-bytes-per-second=\t''
limit-used-ratio=\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l fail-on -d 'Exit with 0 if all findings are less severe' -r -f -a "warning\t''
critical\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l format -d 'Output: sentences, one JSON object, or one line with performance data for Nagios and Icinga' -r -f -a "text\t''
json\t''
nagios\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l save -d 'Save the evaluated samples to this new file' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l json -d 'The same as --format json'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l watch -d 'Run until stopped, and print a line when a finding begins, changes its severity, or ends'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l repair -d 'Check every frame, and copy the intact ones to this new file' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l verify -d 'Check every frame'
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -s o -l output -d 'The new file, `-` for standard output' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l from -d 'Start of the part: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l to -d 'End of the part, in the same forms' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l format -d 'Format [default: by the extension of the new file, html without one]' -r -f -a "html\t'One self-contained page: charts, findings on a timeline, top tasks'
md\t'Text for a ticket'
json\t'One JSON object'"
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l from -d 'Start of the part: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l to -d 'End of the part, in the same forms' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -s o -l output -d 'The new recording' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -s o -l output -d 'The new recording' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l ops -d 'Number of operations during each recording: BASE=N,NEW=N, or one number per recording in their order [default: from marks of the form \'ops N\', or from record --ops]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l disk -d 'Count the requests of these devices per operation [default: all that are not stacked on others]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l all -d 'Also show figures that did not change'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l json -d 'One JSON object instead of tables'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s i -d 'Only these interfaces' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s S -d 'The speed of an interface: eth0:1000, eth0:100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s v -d 'Print the version'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s n -d 'Leave out the loopback interface'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s s -d 'Summary: KB read and written only'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s x -d 'Extended: errors, collisions, drops'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s p -d 'Parseable: fields separated by colons'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s z -d 'Leave out interfaces with only zeros'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s t -d 'TCP statistics'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s u -d 'UDP statistics'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s a -d 'All: the same as -tux'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s l -d 'List the interfaces with their speed, duplex and state'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s M -d 'Mbit/s (of 2^20 bits) instead of KB/s'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s U -d 'Separate columns %rUtil and %wUtil'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l compat -d 'The arithmetic of nicstat 1.95, bit for bit'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "show" -d 'Show the baselines: latency, number of intervals, dates, confidence'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "set" -d 'Set a baseline by hand; it is used until it is forgotten'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "learn" -d 'Measure reads now: single reads past the page cache, 20 per second, for at most 10 s; writes nothing to the device'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "forget" -d 'Forget the baselines of a device, or of all devices'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l json -d 'One JSON object per line'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l size -d 'Mean size of the requests: up to 16 KiB, up to 128 KiB, or more [default: all three]' -r -f -a "16K\t''
128K\t''
more\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l all -d 'All devices'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l from -d 'Read a recording; with INTERVAL, each line covers at least this time' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l at -d 'Start at this time of the recording: 12:03, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l for -d 'Stop after this time; of a recording without --at, this much of its end' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l format -d 'Output format' -r -f -a "text\t'Aligned columns'
csv\t'Comma-separated values'
json\t'One object per line'
parseable\t'Fields separated by colons'"
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l columns -d 'Columns by their headings, a set of columns (pt, vmstat, states), or all' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l sort -d 'Sort by this column, largest first' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l top -d 'Only the first N rows, by --sort or by activity' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -s p -l pid -d 'Only these processes' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l name -d 'Only rows whose name matches this regular expression' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l busy -d 'Leave out idle rows'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l total -d 'At the end, print exact totals of the whole run (with CSV, instead of lines)'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l since-boot -d 'First print a line of the time since boot, as vmstat and iostat do; COUNT includes it'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l of-box -d 'Shares of all CPUs instead of one CPU'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l safe-formulas -d 'In CSV, put a quote before text that a spreadsheet would read as a formula'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -s o -l output -d 'The new file, `-` for standard output' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l format -d 'Format [default: by the extension of the new file]' -r -f -a "csv\t'One wide table; columns of other tables are empty'
jsonl\t'One object per line, as `table --format json` prints it'
parquet\t'The wide table; only if this program was built with it'"
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l tables -d 'Only these tables' -r -f -a "cpu\t''
core\t''
disk\t''
nic\t''
tcp\t''
udp\t''
task\t''
thread\t''
load\t''
pressure\t''
memory\t''
cgroup\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l idle -d 'Include tasks and threads that were idle in an interval'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l safe-formulas -d 'In CSV, put a quote before text that a spreadsheet would read as a formula'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l config -d 'Read this configuration file instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l nic-speed -d 'Speed and duplex of interfaces, instead of what the drivers report: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l no-config -d 'Read no configuration file'
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -s h -l help -d 'Print help'
