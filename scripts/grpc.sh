#!/usr/bin/env bash
# Calls by grpcio through the built gateway (scripts/grpc_calls.py). grpcio comes from PyPI, once, into a folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
venv=$target/grpc/venv
if ! "$venv/bin/python" -c 'import grpc' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'grpcio>=1.60,<2'
fi
exec "$venv/bin/python" scripts/grpc_calls.py "$target/release/tiergate"
