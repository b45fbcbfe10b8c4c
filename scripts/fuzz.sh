#!/bin/sh
# Fuzzes every parser for a bounded time: scripts/fuzz.sh [SECONDS [TARGET...]]
#
# SECONDS (default 20) is spent on each target, after building. Needs a nightly toolchain; installs
# cargo-fuzz if it is missing. What is found stays in fuzz/artifacts; the exit status says so.
set -eu

cd "$(dirname "$0")/.."
seconds=${1:-20}
[ $# -eq 0 ] || shift
toolchain=${FUZZ_TOOLCHAIN:-nightly}

# One input may take so long and so much memory, then it counts as found.
timeout_seconds=10
memory_mib_max=1024
# No head that the targets' limits let through is longer; all bounds lie below it.
input_len_max=4608

if ! cargo "+$toolchain" fuzz --version >/dev/null 2>&1; then
    cargo install --locked cargo-fuzz
fi

[ $# -gt 0 ] || set -- $(cargo "+$toolchain" fuzz list)
host=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')

# Debug assertions stay on: an overflow in a parser is a finding.
cargo "+$toolchain" fuzz build --target "$host"

for target in "$@"; do
    mkdir -p "fuzz/corpus/$target" fuzz/artifacts
    log="fuzz/artifacts/$target.log"
    if ! cargo "+$toolchain" fuzz run --target "$host" "$target" \
        "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout="$timeout_seconds" \
        -rss_limit_mb="$memory_mib_max" -max_len="$input_len_max" -print_final_stats=1 \
        >"$log" 2>&1; then
        # The cause, then the input; the fuzzer's own stack says nothing.
        grep -A 6 -e panicked -e ERROR: "$log" || true
        grep -A 1 -e '^Base64:' "$log" || true
        echo "$target: found something, see $log" >&2
        exit 1
    fi
    echo "$target: nothing found in $seconds s," \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
done
