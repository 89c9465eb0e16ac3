#!/usr/bin/env bash
# tests/fuzz/run.sh MINUTES [TARGET...]: fuzzes each target until it has used so many minutes of CPU, one after the other, on
# idle CPU time (SCHED_IDLE), and prints what each did. Needs a nightly toolchain and cargo-fuzz. What is found grows in $STALLTOP_FUZZ
# (default: tests/fuzz/target); a crash is left in artifacts/ there.
set -u
minutes=${1:?minutes for each target}
shift
here=$(cd "$(dirname "$0")" && pwd)
work=${STALLTOP_FUZZ:-$here/target}
mkdir -p "$work"
export CARGO_TARGET_DIR=$work/build
chrt --idle 0 cargo +nightly fuzz build --fuzz-dir "$here" >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }

# The files of captured kernels are what the parsers of /proc begin with.
seeds_of() {
  case $1 in
    proc_cpu) echo proc/stat proc/loadavg proc/pressure/cpu proc/pressure/io ;;
    proc_memory) echo proc/meminfo proc/vmstat ;;
    proc_disk) echo proc/diskstats proc/self/mountinfo ;;
    proc_network) echo proc/net/dev proc/net/snmp proc/net/netstat proc/net/softnet_stat ;;
    proc_host) echo proc/self/status etc/passwd sys/devices/system/cpu/online ;;
  esac
}

TIMEFORMAT='%U %S'
[ $# = 0 ] && set -- $(cd "$here/fuzz_targets" && ls | sed 's/\.rs$//')
for target; do
  corpus=$work/corpus/$target
  mkdir -p "$corpus" "$work/artifacts/$target"
  for file in $(seeds_of "$target"); do
    for tree in "$here"/../kernel/trees/*; do
      [ -f "$tree/$file" ] && cp "$tree/$file" "$corpus/seed-$(echo "${tree##*/}-$file" | tr / _)"
    done
  done
  spent=0 runs=0
  while [ "$spent" -lt $((minutes * 60)) ]; do
    cpu=$( { time chrt --idle 0 "$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/release/$target" \
      -max_total_time=120 -timeout=20 -rss_limit_mb=1500 -max_len=40000 -print_final_stats=1 \
      -artifact_prefix="$work/artifacts/$target/" "$corpus" "$here/corpus/$target" >"$work/$target.log" 2>&1; } 2>&1)
    ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log")
    runs=$((runs + ${ran:-0}))
    spent=$(awk -v before="$spent" '{ printf "%d", before + $1 + $2 }' <<<"$cpu")
    [ -n "$(find "$work/artifacts/$target" -type f)" ] && break
  done
  crashes=$(find "$work/artifacts/$target" -type f | wc -l)
  inputs=$(find "$corpus" -type f | wc -l)
  echo "$target: $runs executions, $spent CPU seconds, $inputs inputs kept, $crashes crashes" | tee -a "$work/figures"
done
