#!/usr/bin/env bash
# Makes target/package/tiergate.deb of the built gateway: stripped, with manual pages and completions of its own command line.
set -euo pipefail
cd "$(dirname "$0")/.."
built="${CARGO_TARGET_DIR:-target}/release/tiergate"
package=target/package

command -v cargo-deb >/dev/null || cargo install cargo-deb --locked --version 3.8.0

rm -rf "$package"
mkdir -p "$package/man"
"$built" man "$package/man"
"$built" completions bash >"$package/tiergate.bash"
"$built" completions zsh >"$package/_tiergate"
"$built" completions fish >"$package/tiergate.fish"
cargo deb --quiet --locked --no-build -p tiergate --output "$package/tiergate.deb"

# What a reader of the changelog wants to know.
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
dpkg-deb --extract "$package/tiergate.deb" "$unpacked"
printf 'deb: %s, %d bytes; the program is %d bytes, stripped\n' "$package/tiergate.deb" \
  "$(stat -c %s "$package/tiergate.deb")" "$(stat -c %s "$unpacked/usr/bin/tiergate")"
