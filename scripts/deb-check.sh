#!/usr/bin/env bash
# A fresh Debian: apt install ./tiergate.deb, one edit, a start, traffic, page, metrics; then remove and purge. Needs root and mmdebstrap.
# Without systemd as the first process, the unit's ExecStartPre and ExecStart are run as the unit's user.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=$PWD/target/package/tiergate.deb
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
scripts/setup.sh "mmdebstrap mmdebstrap" "python3 python3" "curl curl"

root=$(mktemp -d /tmp/tiergate-deb-XXXXXX)
children=()
cleanup() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for mounted in proc dev/null dev/urandom; do
    ! mountpoint -q "$root/$mounted" || umount "$root/$mounted"
  done
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
fail() { echo "deb-check: $*" >&2; exit 1; }

step "a fresh Debian ($suite)"
mmdebstrap --quiet --variant=apt --include=adduser "$suite" "$root"
mount -t proc proc "$root/proc"
for device in null urandom; do
  [ -e "$root/dev/$device" ] || touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

step "apt install ./tiergate.deb"
cp "$deb" "$root/tmp/tiergate.deb"
in_root apt-get install -y -qq --no-install-recommends /tmp/tiergate.deb >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log"; fail "apt install"; }
in_root id tiergate >/dev/null || fail "no user"
in_root test -s /usr/share/man/man1/tiergate.1.gz || fail "no manual page"
in_root test -s /usr/share/bash-completion/completions/tiergate || fail "no completions"
[ "$(in_root stat -c '%a %G' /etc/tiergate/policy.toml)" = "640 tiergate" ] || fail "anybody can read the policy"
in_root dpkg-query --show --showformat='${Conffiles}' tiergate | grep -q /etc/tiergate/policy.toml || fail "the policy is no conffile"

step "one edit: the server"
read -r origin listen admin < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for it in sockets: it.bind(("127.0.0.1", 0))
print(*(it.getsockname()[1] for it in sockets))')
mkdir "$root/tmp/site"
echo "hello from the origin" >"$root/tmp/site/index.html"
python3 -m http.server --bind 127.0.0.1 --directory "$root/tmp/site" "$origin" >/dev/null 2>&1 &
children+=($!)
# Ports of this machine are in use by others: those of the listener and the admin page are moved as well.
sed -i "s/127.0.0.1:80\"/127.0.0.1:$origin\"/; s/0.0.0.0:8080/127.0.0.1:$listen/; s/127.0.0.1:8434\"/127.0.0.1:$admin\"/" "$root/etc/tiergate/policy.toml"

unit="$root/usr/lib/systemd/system/tiergate.service"
[ -e "$unit" ] || unit="$root/lib/systemd/system/tiergate.service"
value() { sed -n "s/^$1=//p" "$unit" | head -n 1; }
as_user() { chroot --userspec="$(value User):$(value User)" "$root" /usr/bin/env -i PATH=/usr/bin:/bin "$@"; }
if [ -d /run/systemd/system ] && command -v systemd-nspawn >/dev/null; then
  step "systemd runs here: systemd-analyze verify of the unit"
  systemd-analyze verify "$unit" || fail "the unit"
fi
step "start: $(value ExecStart) as $(value User)"
# shellcheck disable=SC2046
as_user $(value ExecStartPre) >"$root/tmp/check.log" || fail "ExecStartPre"
# shellcheck disable=SC2046
chroot --userspec="$(value User):$(value User)" "$root" $(value ExecStart) >"$root/tmp/out.log" 2>"$root/tmp/err.log" &
gateway=$!
children+=("$gateway")
for _ in $(seq 100); do
  curl -sf "http://127.0.0.1:$admin/readyz" >/dev/null && break
  kill -0 "$gateway" 2>/dev/null || { cat "$root/tmp/err.log"; fail "it has ended"; }
  sleep 0.1
done

step "traffic"
for _ in $(seq 50); do
  [ "$(curl -sf "http://127.0.0.1:$listen/")" = "hello from the origin" ] || fail "no answer from the origin"
done
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$listen/missing")" = 404 ] || fail "the origin's 404"
step "page"
curl -sf "http://127.0.0.1:$admin/" | grep -qi "tiergate" || fail "no page"
step "metrics"
curl -sf "http://127.0.0.1:$admin/metrics" >"$root/tmp/metrics"
grep -q '^tiergate_' "$root/tmp/metrics" || fail "no metrics"
grep -qE '^tiergate_[a-z_]*(requests|arrived)[a-z_]*\{.*class="pages".*\} 5[0-9]' "$root/tmp/metrics" || fail "the requests are not counted"
step "reload"
sed -i 's/deadline = "2s"/deadline = "3s"/' "$root/etc/tiergate/policy.toml"
kill -HUP "$gateway"
for _ in $(seq 50); do
  grep -q "configuration reloaded" "$root/tmp/err.log" && break
  sleep 0.1
done
grep -q "configuration reloaded" "$root/tmp/err.log" || fail "no reload"
step "stop"
kill -TERM "$gateway"
wait "$gateway" || fail "it did not end well"
[ "$(wc -l <"$root/tmp/out.log")" -ge 51 ] || fail "no access log"
step "an upgrade keeps the edited policy; purge leaves nothing"
in_root apt-get install -y -qq --reinstall /tmp/tiergate.deb >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log"; fail "reinstall"; }
grep -q "127.0.0.1:$origin" "$root/etc/tiergate/policy.toml" || fail "the edit is gone"
in_root apt-get purge -y -qq tiergate >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log"; fail "purge"; }
[ ! -e "$root/etc/tiergate" ] || fail "/etc/tiergate is left"
step "all steps passed"
