#!/usr/bin/env bash
# Installs what tests and benchmarks use and this machine lacks (Debian or a relative of it).
# Run again, it does nothing. No installed server is started: tests start their own.
# More can be asked for: setup.sh "ip iproute2" "/usr/lib/x/y.so libx" (program or file, package).
set -euo pipefail

# program to look for -> Debian package that has it
needed=(
  "cc gcc"
  "curl curl"
  "haproxy haproxy"
  "nginx nginx"
  "apache2 apache2"
  "wrk wrk"
  "h2load nghttp2-client"
  "httperf httperf"
  "dnsmasq dnsmasq-base"
  "ip iproute2"
  "tc iproute2"
  "nft nftables"
  "openssl openssl"
  "python3 python3"
  "$(python3 -c 'import ensurepip; print(ensurepip.__file__)' 2>/dev/null || echo /missing) python3-venv"
  "node nodejs"
  "taskset util-linux"
  "nsenter util-linux"
  "bpftool bpftool"
  "clang clang"
  "make make"
  "pkg-config pkg-config"
  "/usr/include/libelf.h libelf-dev"
  "/usr/include/zlib.h zlib1g-dev"
)

PATH="$PATH:/usr/sbin:/usr/local/sbin"
packages=()
for entry in "${needed[@]}" "$@"; do
  read -r program package <<<"$entry"
  case $program in
    /*) [ -e "$program" ] || packages+=("$package") ;;
    *) command -v "$program" >/dev/null || packages+=("$package") ;;
  esac
done

if ! command -v cargo >/dev/null; then
  echo "setup: Rust is missing; install it from https://rustup.rs" >&2
  exit 1
fi
[ ${#packages[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "setup: please run: sudo apt-get install ${packages[*]}" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null; then
  echo "setup: not Debian; please install: ${packages[*]}" >&2
  exit 1
fi

# Debian starts a server as soon as it is installed. Its own switch against that is a policy-rc.d
# that answers 101; ours goes away again, and one that is there already stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi

log=$(mktemp)
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >>"$log" 2>&1
}
echo "setup: installing ${packages[*]}"
# The package lists of a fresh machine are missing or old.
if ! install; then
  "${as_root[@]}" apt-get update -qq >>"$log" 2>&1 || true
  if ! install; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed; the whole log is $log" >&2
    exit 1
  fi
fi
rm -f "$log"

# Nor should they start with the machine, where something starts services at all.
if [ -d /run/systemd/system ]; then
  for server in haproxy nginx apache2 postgresql; do
    for package in "${packages[@]}"; do
      [ "$package" = "$server" ] && "${as_root[@]}" systemctl disable --quiet "$server" || true
    done
  done
fi
