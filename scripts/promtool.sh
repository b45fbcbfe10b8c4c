#!/usr/bin/env bash
# Fetches promtool, of Debian's package prometheus, into target/tools without installing the package, which brings a server and its pages.
# Prints its path. Run again, it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v promtool >/dev/null; then
  command -v promtool
  exit 0
fi
tools=${CARGO_TARGET_DIR:-target}/tools
if [ ! -x "$tools/promtool" ]; then
  mkdir -p "$tools"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  # The package lists of a fresh machine are missing or old.
  apt-get download -qq prometheus >log 2>&1 || { apt-get update -qq >log 2>&1 && apt-get download -qq prometheus >log 2>&1; } ||
    { cat log >&2; echo "promtool: apt-get failed; install promtool by hand" >&2; exit 1; }
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
  cd "$OLDPWD"
  mv "$folder/usr/bin/promtool" "$tools/promtool"
fi
echo "$tools/promtool"
