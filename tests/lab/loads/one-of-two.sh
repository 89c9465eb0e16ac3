#!/bin/bash
# One thread that fills CPU 1, beside CPU 0 that another thread keeps PERCENT busy.
set -eu
. "$(dirname "$0")/../scenarios/lib.sh"
say "CPU 1 full, CPU 0 ${PERCENT:-55} % busy"
bg "$BIN/spin" "$T" pin 1
bg "$BIN/duty" "$T" "${PERCENT:-55}" 0
wait || true
