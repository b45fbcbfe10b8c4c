#!/bin/sh
# Fuzzes every parser for a bounded time: scripts/fuzz.sh [SECONDS [TARGET...]]
#
# SECONDS (default 20) is spent on each target, after building. Needs a nightly toolchain; installs
# cargo-fuzz if it is missing. FUZZ_IN=fuzz/wire leaves out those that need the whole gateway. What is found stays in fuzz/artifacts; the exit status says so.
set -eu

cd "$(dirname "$0")/.."
seconds=${1:-20}
[ $# -eq 0 ] || shift
toolchain=${FUZZ_TOOLCHAIN:-nightly}

# One input may take so long and so much memory, then it counts as found.
timeout_seconds=10
memory_mib_max=2048
# Freed memory is watched for misuse; as much as it likes of it would look like a leak.
export ASAN_OPTIONS="quarantine_size_mb=64${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
# No head that the targets' limits let through is longer; all bounds lie below it.
input_len_max=4608

if ! cargo "+$toolchain" fuzz --version >/dev/null 2>&1; then
    cargo install --locked cargo-fuzz
fi

host=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')
wanted=" $* "

# Debug assertions stay on: an overflow in a parser is a finding.
run() {
    command=$1
    shift
    cargo "+$toolchain" fuzz "$command" --fuzz-dir "$dir" --target "$host" "$@"
}

# Fuzzes $target, one of those in $dir.
fuzz() {
    mkdir -p "fuzz/corpus/$target" fuzz/artifacts
    log="fuzz/artifacts/$target.log"
    if ! run run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout="$timeout_seconds" \
        -rss_limit_mb="$memory_mib_max" -max_len="$input_len_max" -print_final_stats=1 \
        -artifact_prefix="fuzz/artifacts/$target-" >"$log" 2>&1; then
        # The cause, then the input; the fuzzer's own stack says nothing.
        grep -A 6 -e panicked -e ERROR: "$log" || true
        grep -A 1 -e '^Base64:' "$log" || true
        echo "$target: found something, see $log" >&2
        exit 1
    fi
    echo "$target: nothing found in $seconds s," \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
}

found=
# Parsers first: they are built in seconds.
for dir in ${FUZZ_IN:-fuzz/wire fuzz/gateway}; do
    targets=
    for target in $(cargo "+$toolchain" fuzz list --fuzz-dir "$dir"); do
        case "$wanted" in
        "  " | *" $target "*) targets="$targets $target" ;;
        esac
    done
    [ -n "$targets" ] || continue
    found=yes
    # One that is named is built alone.
    if [ "$wanted" = "  " ]; then run build; fi
    for target in $targets; do fuzz; done
done

[ -n "$found" ] || { echo "no such fuzzer:$wanted" >&2; exit 2; }
