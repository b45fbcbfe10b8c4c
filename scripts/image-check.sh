#!/usr/bin/env bash
# The container image: built of packaging/Containerfile by buildah and run by runc as its user, without rights and with a read-only root: it serves, and
# drains on SIGTERM. Where the base images cannot be fetched (or BASES=here), bases like them are made of Debian's packages and of this machine's Rust, under
# the same names. PROGRAM=file is put into the image instead of one that the first stage builds, which takes minutes: that stage is left out. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh "buildah buildah" "runc runc" "mmdebstrap mmdebstrap" "umoci umoci" "skopeo skopeo"
fail() { echo "image-check: $*" >&2; [ ! -s "${folder:-}/log" ] || tail -n 20 "$folder/log" >&2; exit 1; }
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }

folder=$(mktemp -d /tmp/tiergate-image-XXXXXX)
container=tiergate-image-$$
cleanup() {
  runc delete --force "$container" >/dev/null 2>&1 || true
  [ -z "${origin_id:-}" ] || kill "$origin_id" 2>/dev/null || true
  rm -rf --one-file-system "$folder"
}
trap cleanup EXIT
chmod 755 "$folder"
# Images of this check only, in a store of its own.
store=(--root "$folder/store" --runroot "$folder/run" --storage-driver vfs)
bud=(buildah "${store[@]}")

bases=$(sed -n 's/^FROM \([^ ]*\).*/\1/p' packaging/Containerfile)
build_base=$(head -n 1 <<<"$bases") run_base=$(tail -n 1 <<<"$bases")
volumes=()
pull() { timeout 600 "${bud[@]}" pull --quiet "$1" >/dev/null 2>&1; }
if [ "${BASES:-}" = here ] || ! pull "$run_base" || { [ -z "${PROGRAM:-}" ] && ! pull "$build_base"; }; then
  step "no registry of images: bases of Debian's packages, in place of $build_base and $run_base"
  suite=bookworm
  # As distroless/cc: files of packages, no scripts, no shell; the user nonroot.
  mmdebstrap --quiet --variant=extract --include=base-files,libc6,libgcc-s1,libstdc++6,libgomp1,ca-certificates,tzdata,netbase "$suite" "$folder/cc"
  for unused in bin/sh bin/bash; do rm -f "$folder/cc/$unused"; done
  mkdir -p "$folder/cc/etc/ssl/certs" "$folder/cc/home/nonroot"
  cat "$folder"/cc/usr/share/ca-certificates/mozilla/*.crt >"$folder/cc/etc/ssl/certs/ca-certificates.crt"
  printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' >"$folder/cc/etc/passwd"
  printf 'root:x:0:\nnonroot:x:65532:\n' >"$folder/cc/etc/group"
  if [ -z "${PROGRAM:-}" ]; then
    # As rust: a compiler and a linker; cargo and Rust are this machine's.
    mmdebstrap --quiet --variant=apt --include=gcc,libc6-dev,ca-certificates "$suite" "$folder/rust"
  fi
  from_folder() {
    local made
    made=$("${bud[@]}" from scratch)
    "${bud[@]}" copy --quiet "$made" "$1" / >/dev/null
    shift
    "${bud[@]}" config "${@:2}" "$made"
    "${bud[@]}" commit --quiet --rm "$made" "$1" >/dev/null
  }
  from_folder "$folder/cc" "$run_base" --user 65532:65532 --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
  if [ -z "${PROGRAM:-}" ]; then
    rust=$(rustc --print sysroot)
    from_folder "$folder/rust" "$build_base" --env "PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin" --env CARGO_HOME=/opt/cargo
    volumes=(--volume "$rust:/opt/rust:ro" --volume "${CARGO_HOME:-$HOME/.cargo}:/opt/cargo")
  fi
  rm -rf "$folder/cc" "$folder/rust"
fi

file=packaging/Containerfile context=.
if [ -n "${PROGRAM:-}" ]; then
  step "the first stage is left out: $PROGRAM"
  file=$folder/Containerfile context=$folder/context
  mkdir -p "$context/packaging"
  cp "$PROGRAM" "$context/tiergate"
  cp LICENSE-* "$context/"
  cp packaging/container.toml "$context/packaging/"
  sed '1,/^$/d' packaging/Containerfile | sed -n '/^FROM gcr/,$p' | sed 's#^COPY --from=build .* /usr#COPY tiergate /usr#' >"$file"
fi

step "buildah builds $file"
# What the build leaves is kept for the next check; the profile is that of this shell's CARGO_PROFILE_….
mkdir -p "${CARGO_TARGET_DIR:-target}/image"
arguments=()
while read -r name; do arguments+=(--env "$name"); done < <(env | grep -E '^CARGO_PROFILE_RELEASE_|^CARGO_BUILD_JOBS' || true)
"${bud[@]}" build --isolation chroot --pull-never "${arguments[@]}" "${volumes[@]}" \
  --volume "$(realpath "${CARGO_TARGET_DIR:-target}")/image:/src/target" -f "$file" -t tiergate "$context" >"$folder/log" 2>&1 || fail "the build"

step "its content"
"${bud[@]}" push --quiet tiergate "oci:$folder/oci:tiergate" >/dev/null
umoci unpack --image "$folder/oci:tiergate" "$folder/bundle" >/dev/null 2>&1
rootfs=$folder/bundle/rootfs
[ ! -e "$rootfs/bin/sh" ] && [ ! -e "$rootfs/bin/bash" ] || fail "there is a shell"
[ -x "$rootfs/usr/bin/tiergate" ] || fail "no program"
missing=$(chroot "$rootfs" /lib64/ld-linux-x86-64.so.2 --list /usr/bin/tiergate | grep 'not found' || true)
[ -z "$missing" ] || fail "libraries are missing: $missing"

step "run: user 65532, no capabilities, read-only root"
read -r origin listen admin < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for it in sockets: it.bind(("127.0.0.1", 0))
print(*(it.getsockname()[1] for it in sockets))')
cat >"$folder/origin.py" <<'PYTHON'
import http.server, sys, time
class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(2 if self.path == "/slow" else 0)
        body = b"hello from the origin\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Slow).serve_forever()
PYTHON
python3 "$folder/origin.py" "$origin" &
origin_id=$!
# Ports of this machine are in use by others: a policy is mounted over the image's, as an operator does, with other ones.
sed "s/0.0.0.0:8080/127.0.0.1:$listen/; s/0.0.0.0:8434/127.0.0.1:$admin/; s/lame_duck = \"5s\"/lame_duck = \"1s\"/" packaging/container.toml >"$folder/policy.toml"
python3 - "$folder/bundle/config.json" "$folder/policy.toml" "$origin" <<'PYTHON'
import json, sys
path, policy, origin = sys.argv[1:]
spec = json.load(open(path))
process = spec["process"]
assert (process["user"]["uid"], process["user"]["gid"]) == (65532, 65532), process["user"]
assert process["args"] == ["/usr/bin/tiergate", "run", "/etc/tiergate/policy.toml"], process["args"]
process |= {"terminal": False, "noNewPrivileges": True, "capabilities": {}}
process["env"].append(f"ORIGIN=127.0.0.1:{origin}")
spec["root"]["readonly"] = True
spec["mounts"].append({"destination": "/etc/tiergate/policy.toml", "type": "bind", "source": policy, "options": ["bind", "ro"]})
# The loopback is this machine's, so that curl reaches it.
spec["linux"]["namespaces"] = [it for it in spec["linux"]["namespaces"] if it["type"] not in ("network", "cgroup", "user")]
spec["linux"].pop("resources", None)
json.dump(spec, open(path, "w"))
PYTHON
runc run --bundle "$folder/bundle" "$container" >"$folder/out" 2>"$folder/log" &
gateway=$!
for _ in $(seq 100); do
  curl -sf "http://127.0.0.1:$admin/readyz" >/dev/null && break
  kill -0 "$gateway" 2>/dev/null || fail "it has ended"
  sleep 0.1
done
program=$(runc state "$container" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
grep -qE '^Uid:\s65532\s65532\s65532\s65532' "/proc/$program/status" || fail "it runs as another user"
grep -qE '^CapEff:\s0+$' "/proc/$program/status" || fail "it has capabilities"
grep -E ' / / ' "/proc/$program/mountinfo" | grep -q ' ro' || grep -E '^[0-9]+ [0-9]+ [0-9:]+ [^ ]+ / ro' "/proc/$program/mountinfo" >/dev/null || fail "its root can be written"
step "traffic"
for _ in $(seq 50); do
  [ "$(curl -sf "http://127.0.0.1:$listen/")" = "hello from the origin" ] || fail "no answer from the origin"
done
step "SIGTERM while a request is in progress: not ready, answered, ended"
curl -s -o "$folder/slow" -w '%{http_code}' "http://127.0.0.1:$listen/slow" >"$folder/slow.status" &
slow=$!
sleep 0.5
runc kill "$container" TERM
sleep 0.3
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$admin/readyz")" = 503 ] || fail "it is ready although it ends"
wait "$slow" || fail "the request in progress was lost"
[ "$(cat "$folder/slow.status")" = 200 ] || fail "the request in progress got $(cat "$folder/slow.status")"
wait "$gateway" || fail "it did not end well"
grep -q '"status":200' "$folder/out" || fail "no access log"
printf 'image-check: it runs; the program has %d bytes, the image %d\n' "$(stat -c %s "$rootfs/usr/bin/tiergate")" "$(du -sb "$rootfs" | cut -f 1)"
