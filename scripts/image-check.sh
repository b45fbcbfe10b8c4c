#!/usr/bin/env bash
# The container image: built and run where there is a builder; else its second stage is unpacked by hand (the program, the libraries that it asks for, the
# policy, no shell) and run there as a user without rights.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "image-check: $*" >&2; exit 1; }
for builder in podman buildah docker; do
  if command -v "$builder" >/dev/null && "$builder" info >/dev/null 2>&1; then
    "$builder" build -f packaging/Containerfile -t tiergate .
    exit
  fi
done
echo "image-check: no builder runs here; the image's content is checked in a folder"
built="${CARGO_TARGET_DIR:-target}/release/tiergate"
root=$(mktemp -d /tmp/tiergate-image-XXXXXX)
trap 'kill "${gateway:-}" "${origin_id:-}" 2>/dev/null || true; rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root/usr/bin" "$root/etc/tiergate"
strip -o "$root/usr/bin/tiergate" "$built"
cp packaging/container.toml "$root/etc/tiergate/policy.toml"
# What distroless/cc has: glibc and libgcc. Anything else would be missing in the image.
ldd "$built" | grep -oE '/[^ ]+' | while read -r library; do
  case $library in
    */libc.so.* | */libm.so.* | */libgcc_s.so.* | */ld-linux* | */libpthread.so.* | */libdl.so.*) ;;
    *) fail "distroless/cc does not have $library" ;;
  esac
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
read -r origin listen admin < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for it in sockets: it.bind(("127.0.0.1", 0))
print(*(it.getsockname()[1] for it in sockets))')
sed -i "s/0.0.0.0:8080/127.0.0.1:$listen/; s/0.0.0.0:8434/127.0.0.1:$admin/" "$root/etc/tiergate/policy.toml"
python3 -m http.server --bind 127.0.0.1 --directory "$root/etc/tiergate" "$origin" >/dev/null 2>&1 &
origin_id=$!
# 65532 is the user nonroot of distroless.
ORIGIN="127.0.0.1:$origin" chroot --userspec=65532:65532 "$root" /usr/bin/tiergate run /etc/tiergate/policy.toml >/dev/null 2>"$root/log" &
gateway=$!
for _ in $(seq 100); do
  curl -sf "http://127.0.0.1:$admin/readyz" >/dev/null && break
  sleep 0.1
done
curl -sf "http://127.0.0.1:$listen/policy.toml" | grep -q lame_duck || { cat "$root/log"; fail "no answer"; }
kill -TERM "$gateway"
wait "$gateway" || fail "it did not end well"
printf 'image-check: it runs; %d bytes besides the base image\n' "$(stat -c %s "$root/usr/bin/tiergate")"
