#!/usr/bin/env bash
# What is known of the versions that are linked: advisories (from the network), licences, bans, sources; and a bill of materials.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
command -v cargo-cyclonedx >/dev/null || cargo install cargo-cyclonedx --locked

mkdir -p target/sbom
cargo cyclonedx --quiet --manifest-path crates/tiergate/Cargo.toml --format json --target x86_64-unknown-linux-gnu --override-filename tiergate.cdx
find crates -name tiergate.cdx.json -exec mv {} target/sbom/ \;
echo "audit: target/sbom/tiergate.cdx.json: $(grep -c '"purl"' target/sbom/tiergate.cdx.json) components"
cargo deny --locked check bans licenses sources
cargo deny --locked check advisories
