# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_stalltop_global_optspecs
    string join \n root= config= no-config nic-speed= i/interval= history= ascii unicode no-color h/help V/version
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
complete -c stalltop -n "__fish_stalltop_needs_command" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_needs_command" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -s i -l interval -d 'Time between samples: 100ms to 1h' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -l history -d 'Keep so much in memory: to go back in, to write (w), to record from (R); at most 16 MiB' -r
complete -c stalltop -n "__fish_stalltop_needs_command" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_needs_command" -l ascii -d 'Draw with ASCII characters only (as with LC_ALL=C)'
complete -c stalltop -n "__fish_stalltop_needs_command" -l unicode -d 'Draw with all characters, whatever the locale and TERM say'
complete -c stalltop -n "__fish_stalltop_needs_command" -l no-color -l mono -d 'Draw without colours (as with NO_COLOR set)'
complete -c stalltop -n "__fish_stalltop_needs_command" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_needs_command" -s V -l version -d 'Print version'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "record" -d 'Record without a screen, until stopped'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "replay" -d 'The same screens on a recording, with time travel'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "check" -d 'Say what is wrong and exit: 0 nothing, 1 a warning, 2 something critical, 3 cannot tell'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "info" -d 'What a recording holds'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "report" -d 'A recording as one page that needs nothing else: to attach to a ticket'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "cut" -d 'A part of a recording as a recording of its own'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "cat" -d 'Several recordings of one run of a machine as one, with the gaps between them'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "compare" -d 'Recordings beside a base: each figure\'s median and p95, what became worse and how sure that is, cost per operation'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "mark" -d 'Put a word into every recording and live session of this user'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "doctor" -d 'What this user on this kernel can and cannot see, and what would change it'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "nicstat" -d 'A drop-in nicstat: the same options, columns and arithmetic'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "baseline" -d 'The learned latencies of disks: show, set, learn, forget'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "table" -d 'Figures as lines: text, CSV, JSON; live, of a recording, or of a command'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "export" -d 'Every figure of every interval of a recording, as CSV, JSON lines or Parquet'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "completions" -d 'Completions for a shell, to standard output'
complete -c stalltop -n "__fish_stalltop_needs_command" -f -a "man" -d 'The manual page of the program or of a command, to standard output'
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -s i -l interval -d 'Time between samples: 100ms to 1h' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l for -d 'Stop after this time, such as 10m' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l max-size -d 'Stop before the file grows larger, such as 1G; with --rotate, begin the next one' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l rotate -d 'FILE is a directory: begin a new recording in it after this time, such as 1d. Replay the directory as one' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l keep -d 'Delete our own ended recordings in the directory that are older, such as 7d' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l ops -d 'Run `sh -c CMD` at most once a second, with your own rights, and record the running total that it prints as its first word: `compare` then tells what an operation costs. Killed after 5 s; the recording never waits for it' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l redact -d 'Keep command names and leave their arguments out'
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand record" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l at -d 'Begin here: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l from -d 'Leave out what was before: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l to -d 'Leave out what was after' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l speed -d 'Play so many times as fast' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l ascii -d 'Draw with ASCII characters only (as with LC_ALL=C)'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l unicode -d 'Draw with all characters, whatever the locale and TERM say'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l no-color -l mono -d 'Draw without colours (as with NO_COLOR set)'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand replay" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l at -d 'Judge the recording from here on: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l for -d 'Watch the machine for this time [default: 5s, with --watch for ever]; of a recording, judge so much of its end [default: all], or with --at so much from there on [default: 5s]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -s i -l interval -d 'Time between samples [default: 1s, less for a short look]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l only -d 'Findings of these kinds alone' -r -f -a "idle-but-blocked\t''
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
udp-overflow\t''
network-latency\t''
load-not-cpu\t''
memory-pressure\t''
swapping\t''
oom-kill\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l ignore -d 'No findings of these kinds' -r -f -a "idle-but-blocked\t''
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
udp-overflow\t''
network-latency\t''
load-not-cpu\t''
memory-pressure\t''
swapping\t''
oom-kill\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l threshold -d 'Judge by another limit: of a kind (disk-latency=5), or one by its name (latency-critical-multiple=20)' -r -f -a "idle-but-blocked=\t''
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
udp-overflow=\t''
network-latency=\t''
load-not-cpu=\t''
memory-pressure=\t''
swapping=\t''
blocked-ratio=\t''
blocked-cpus=\t''
blocked-threads=\t''
blocked-critical-ratio=\t''
blocked-critical-threads-per-cpu=\t''
core-busy-ratio=\t''
thread-busy-ratio=\t''
box-idle-below-ratio=\t''
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
udp-overflow-per-second=\t''
udp-overflow-ratio=\t''
round-trip-multiple=\t''
round-trip-ms=\t''
round-trip-unpressed-ms=\t''
load-per-cpu=\t''
memory-pressure-ratio=\t''
memory-pressure-critical-ratio=\t''
refaults-per-second=\t''
memory-limit-ratio=\t''
memory-waiting-threads=\t''
memory-fault-share=\t''
swapping-bytes-per-second=\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l fail-on -d 'Exit with 0 unless something is at least so bad' -r -f -a "warning\t''
critical\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l format -d 'Sentences, one JSON object, or one line with figures for Nagios and Icinga' -r -f -a "text\t''
json\t''
nagios\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l save -d 'Keep the samples that were judged in this new file' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l json -d 'The same as --format json'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l watch -d 'Go on, and say in a line each when a finding begins, gets worse or better, and ends'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand check" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l repair -d 'Check every frame, and copy all that is sound into this new file' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l verify -d 'Check every frame'
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand info" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -s o -l output -d 'The new file, `-` for standard output' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l from -d 'Leave out what was before: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l to -d 'Leave out what was after' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l format -d 'In which form [default: as the new file\'s name ends, html without an ending]' -r -f -a "html\t'One page that needs nothing else: charts, findings on a time line, commands'
md\t'Text for a ticket'
json\t'One JSON object'"
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l from -d 'Leave out what was before: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l to -d 'Leave out what was after' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -s o -l output -d 'The new recording' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand cut" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -s o -l output -d 'The new recording' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand cat" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l ops -d 'How many operations each recording saw: BASE=N,NEW=N, or a number for each in their order; else marks of the form \'ops N\' say it, else what was counted with record --ops' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l disk -d 'Count the requests of these devices per operation [default: all that stand on no other]' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l all -d 'Show the figures that did not move too'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l json -d 'One JSON object instead of tables'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand compare" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand mark" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s i -d 'These interfaces only' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s S -d 'The speed of an interface: eth0:1000, eth0:100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s v -d 'Print the version'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s n -d 'Leave the loopback interface out'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s s -d 'Summary: KB read and written only'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s x -d 'Extended: errors, collisions, packets not taken'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s p -d 'For programs: figures with colons between them'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s z -d 'Leave interfaces with nothing but zeros out'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s t -d 'TCP'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s u -d 'UDP'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s a -d 'All: the same as -tux'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s l -d 'List the interfaces with their speed, duplex and state'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s M -d 'Megabits of 2^20 bits instead of KB'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s U -d '%rUtil and %wUtil apart'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l compat -d 'The arithmetic of nicstat 1.95, bit for bit'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand nicstat" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "show" -d 'What each device needs alone, from how many intervals, since when'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "set" -d 'Set one by hand: it holds until it is forgotten'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "learn" -d 'Measure it now: at most 10 s of single reads past the cache, 20 a second; never writes'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and not __fish_seen_subcommand_from show set learn forget" -f -a "forget" -d 'Forget what is known of a device, or of all'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l json -d 'A JSON object a line'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l size -d 'Mean size of the requests: up to 16 KiB, up to 128 KiB, more [default: all three]' -r -f -a "16K\t''
128K\t''
more\t''"
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from learn" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l all -d 'All devices'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand baseline; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l from -d 'Of a recording; with INTERVAL in steps of at least so long' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l at -d 'Of the recording, begin here: 12:03, RFC 3339, -5m before the end, +90s after the start' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l for -d 'Stop after this time; of a recording without --at, so much of its end' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l format -d 'How lines are written' -r -f -a "text\t'For people'
csv\t'For spreadsheets'
json\t'An object a line'
parseable\t'Figures with colons between them'"
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l columns -d 'Columns by their headings, with commas; a set of them (pt, vmstat, states), or all' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l sort -d 'The largest of this column first' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l top -d 'The first so many rows, by --sort or by what matters most' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -s p -l pid -d 'These processes only' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l name -d 'Rows whose name matches this regular expression' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l busy -d 'Without idle rows'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l total -d 'At the end, exact totals of the whole run (as CSV, instead of lines)'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l since-boot -d 'First a line of the time since boot, as vmstat and iostat have it; it counts as one'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l of-box -d 'Shares of all CPUs instead of one CPU'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l safe-formulas -d 'In CSV, a quote before text that a spreadsheet would take for a formula'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand table" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -s o -l output -d 'The new file, `-` for standard output' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l format -d 'In which form [default: as the new file\'s name ends]' -r -f -a "csv\t'One wide table; what a row does not have is empty'
jsonl\t'An object a line, as `table --format json` has it'
parquet\t'The wide table in columns; where it was built with it'"
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l tables -d 'These tables only' -r -f -a "cpu\t''
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
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l idle -d 'With the tasks and threads that did nothing in an interval'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l safe-formulas -d 'In CSV, a quote before text that a spreadsheet would take for a formula'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand completions" -s h -l help -d 'Print help'
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l root -d 'Read /proc and /sys below this directory' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l config -d 'Read this configuration instead of the user\'s and the system\'s' -r -F
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l nic-speed -d 'The speed of an interface, before what its driver says: eth0=1000fd, eth1=100hd' -r
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -l no-config -d 'Read no configuration'
complete -c stalltop -n "__fish_stalltop_using_subcommand man" -s h -l help -d 'Print help'
