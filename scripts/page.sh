#!/usr/bin/env bash
# Looks at the admin listener's page in a real browser: installs Chromium and what drives it, runs page.mjs; with LAB=tiergate-lab,
# page-demo.mjs, beside `tiergate-lab demo`. usage: page.sh GATEWAY
set -euo pipefail
cd "$(dirname "$0")/.."
gateway=$(realpath "$1")
scripts/setup.sh "chromium chromium" "npm npm"
folder=${CARGO_TARGET_DIR:-target}/page
mkdir -p "$folder"
folder=$(realpath "$folder")
[ -d "$folder/node_modules/playwright-core" ] ||
  npm install --prefix "$folder" --no-audit --no-fund --silent --ignore-scripts playwright-core@1.49.1
[ -z "${LAB:-}" ] || exec node scripts/page-demo.mjs "$(realpath "$LAB")" "$folder"
exec node scripts/page.mjs "$gateway" "$folder"
