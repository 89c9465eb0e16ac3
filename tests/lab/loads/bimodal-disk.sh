#!/bin/bash
# A disk whose reads take 1 ms, but each twentieth 40 ms; four random reads at a time, until ended.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
simdisk_up 512 read=1000 slowread=40000 slowevery=20 chan=8
echo "$DEVT" > "$RUN/device"
touch "$RUN/ready"
fio --name=bimodal --filename="$DEV" --ioengine=libaio --iodepth=4 --direct=1 --rw=randread --bs=4k --time_based --runtime="$T" --output-format=json --output="$RUN/fio.json" 9>&- &
PIDS+=($!)
wait $!
if [ -n "${KEEP:-}" ]; then cp "$RUN/fio.json" "$KEEP.new"; mv "$KEEP.new" "$KEEP"; fi
