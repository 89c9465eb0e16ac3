# Sourced after root.sh: the commands of the pages, run as printed in a root that has stalltop and nothing else of ours, and README.md's
# first one, timed. The test that runs them on this machine (tests/commands/docs) runs them there by a program that enters the root.

# The test: the one that .ci/run has found, since cargo waits for a build that runs beside it.
commands_test() {
  local made
  if [ -z "${STALLTOP_COMMANDS_TEST-}" ]; then
    made=$(cd "$here" && env -u RUSTFLAGS -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 \
      cargo test --locked --no-run --test commands 2>&1) || fail "the test of the pages' commands: $made"
    STALLTOP_COMMANDS_TEST=$here/$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' <<<"$made")
  fi
}

# pages NAME ENTER: ENTER runs its arguments in the root.
pages() {
  local name=$1 out=$place/pages took
  commands_test
  if ! STALLTOP_ENTER=$2 "$STALLTOP_COMMANDS_TEST" --nocapture docs::commands::the_ >"$out" 2>&1; then
    cat "$out"
    fail "$name: the commands of the pages"
  fi
  # Those that are not installed are named, those that the pages mark are not.
  grep --only-matching 'skipped: .*\( is not installed\| is that of busybox\| needs root\)$' "$out" || true
  took=$(sed -n 's/.*the first verdict after \([0-9]*\) ms$/\1/p' "$out")
  [ "$took" -le 10000 ] || fail "$name: stalltop took $took ms"
  ok "$name: stalltop, on a terminal: the first verdict after $took ms"
  ok "$name: $(grep --only-matching '[0-9]* of [0-9]* commands of the pages run as printed$' "$out")"
}
