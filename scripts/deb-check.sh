#!/usr/bin/env bash
# A fresh Debian that boots with systemd (in systemd-nspawn, with a loopback of its own): apt install ./tiergate.deb, one edit, systemctl start, traffic, page,
# metrics, reload, a crash, an upgrade, stop, purge. Needs root, and the network for Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=$PWD/target/package/tiergate.deb
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
scripts/setup.sh "mmdebstrap mmdebstrap" "systemd-nspawn systemd-container" "pgrep procps"

root=$(mktemp -d /tmp/tiergate-deb-XXXXXX)
cleanup() {
  if [ -n "${machine:-}" ] && kill -0 "$machine" 2>/dev/null; then
    kill -KILL "${leader:-$machine}" "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
fail() {
  echo "deb-check: $*" >&2
  [ -z "${leader:-}" ] || inside journalctl --no-pager -n 30 -u tiergate >&2 || true
  exit 1
}
clean=(/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive LC_ALL=C)
# Runs a command in the machine that has booted.
inside() { nsenter --target "$leader" --all --root --wd "${clean[@]}" "$@"; }
# Waits up to 10 s until a command in the machine succeeds.
until_inside() {
  local what=$1
  shift
  for _ in $(seq 100); do
    inside "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  fail "$what: $*"
}
pid() { inside systemctl show --property MainPID --value tiergate; }
apt() { inside apt-get -y -qq --no-install-recommends "$@" >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log" >&2; fail "apt-get $*"; }; }

step "a fresh Debian ($suite)"
mmdebstrap --quiet --variant=apt --skip=cleanup/apt/lists --include=systemd-sysv,dbus,curl,python3 "$suite" "$root"
cp "$deb" "$root/tmp/tiergate.deb"
# The machine has no network: what the package needs besides lies ready.
chroot "$root" "${clean[@]}" apt-get -y -qq --no-install-recommends --download-only install /tmp/tiergate.deb >/dev/null
mkdir "$root/root/site"
echo "hello from the origin" >"$root/root/site/index.html"
# Debian's machine empties /tmp when it boots.
mv "$root/tmp/tiergate.deb" "$root/root/"

step "boot"
systemd-nspawn --quiet --boot --register=no --keep-unit --private-network --machine=tiergate-deb --directory="$root" \
  </dev/null >"$root.log" 2>&1 &
machine=$!
for _ in $(seq 300); do
  leader=$(pgrep -P "$machine" -x systemd || true)
  if [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then break; fi
  kill -0 "$machine" 2>/dev/null || { cat "$root.log" >&2; leader=; fail "it does not boot"; }
  sleep 0.2
done
rm -f "$root.log"
[ -n "$leader" ] || fail "no systemd"

step "apt install ./tiergate.deb"
apt install /root/tiergate.deb
inside id tiergate >/dev/null || fail "no user"
inside test -s /usr/share/man/man1/tiergate.1.gz || fail "no manual page"
inside test -s /usr/share/bash-completion/completions/tiergate || fail "no completions"
[ "$(inside stat -c '%a %G' /etc/tiergate/policy.toml)" = "640 tiergate" ] || fail "anybody can read the policy"
inside dpkg-query --show --showformat='${Conffiles}' tiergate | grep -q /etc/tiergate/policy.toml || fail "the policy is no conffile"
inside systemctl is-enabled --quiet tiergate || fail "it does not start with the machine"
! inside systemctl is-active --quiet tiergate || fail "it runs before its policy has been edited"
inside systemd-analyze verify --man=no /lib/systemd/system/tiergate.service || fail "the unit"
step "$(inside systemd-analyze security --no-pager tiergate | tail -n 1 | sed 's/^[^A-Za-z]*//')"

step "a policy with the log file that the package's policy recommends is sound before the first start"
inside sh -c 'sed "s|^format = \"json\"|path = \"/var/log/tiergate/access.log\"|" /etc/tiergate/policy.toml >/root/logged.toml'
inside grep -q '^path = "/var/log/tiergate/access.log"' /root/logged.toml || fail "the policy is not the one that is meant"
inside tiergate check /root/logged.toml >/dev/null || fail "check refuses the log file"

step "one edit: the server"
inside systemd-run --quiet --unit origin --property WorkingDirectory=/root/site python3 -m http.server --bind 127.0.0.1 8000
until_inside "the origin" curl -sf http://127.0.0.1:8000/
inside sed -i 's/"127.0.0.1:80"/"127.0.0.1:8000"/' /etc/tiergate/policy.toml

step "systemctl start tiergate"
inside systemctl start tiergate || fail "it does not start"
[ "$(inside systemctl show --property ActiveState,SubState --value tiergate | xargs)" = "active running" ] || fail "it does not run"
[ "$(inside ps -o user= -p "$(pid)" 2>/dev/null || inside stat -c %U "/proc/$(pid)")" = tiergate ] || fail "it runs as another user"
until_inside "ready" curl -sf http://127.0.0.1:8434/readyz

step "traffic"
for _ in $(seq 50); do
  [ "$(inside curl -sf http://127.0.0.1:8080/)" = "hello from the origin" ] || fail "no answer from the origin"
done
[ "$(inside curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/missing)" = 404 ] || fail "the origin's 404"
step "page"
inside curl -sf http://127.0.0.1:8434/ | grep -qi "tiergate" || fail "no page"
step "metrics"
inside curl -sf http://127.0.0.1:8434/metrics >"$root/root/metrics"
grep -qE '^tiergate_[a-z_]*(requests|arrived)[a-z_]*\{.*class="pages".*\} 5[0-9]' "$root/root/metrics" || fail "the requests are not counted"
[ "$(inside systemctl show --property LogRateLimitBurst --value tiergate)" -ge 1000000 ] || fail "the journal leaves out lines under load"
# The journal takes them up a little later.
until_inside "the access log in the journal" sh -c 'test $(journalctl -u tiergate -o cat | grep -c "\"status\":") -ge 51'

step "systemctl reload tiergate"
inside sed -i 's/deadline = "2s"/deadline = "3s"/' /etc/tiergate/policy.toml
before=$(pid)
inside systemctl reload tiergate || fail "reload"
until_inside "reloaded" sh -c 'journalctl -u tiergate -o cat | grep -q "configuration reloaded"'
[ "$(pid)" = "$before" ] || fail "a reload is no restart"
step "a policy with errors is neither reloaded nor started; the message is in the journal"
inside cp -a /etc/tiergate/policy.toml /root/good.toml
inside sed -i 's/^deadline/deadlin/' /etc/tiergate/policy.toml
! inside systemctl reload tiergate 2>/dev/null || fail "a reload with errors says nothing"
inside systemctl is-active --quiet tiergate || fail "it ends by a policy that it does not load"
! inside systemctl restart tiergate 2>/dev/null || fail "it starts with errors"
# By a shell of its own, since `grep -q` leaves before the journal is at its end.
until_inside "a message with file and line" sh -c 'journalctl -u tiergate -o cat | grep -q "policy.toml:[0-9]*:[0-9]*: .*deadlin"'
step "it is tried again for longer than systemd's bound of 5 starts, and runs once the policy is mended"
until_inside "many starts" sh -c 'test "$(systemctl show -P NRestarts tiergate)" -ge 6'
inside cp -a /root/good.toml /etc/tiergate/policy.toml
until_inside "it runs again" curl -sf http://127.0.0.1:8434/readyz
step "a crash: it is started again"
before=$(pid)
inside sh -c "kill -KILL $before"
until_inside "started again" sh -c "test \$(systemctl show -P MainPID tiergate) -ne 0 && test \$(systemctl show -P MainPID tiergate) -ne $before"
until_inside "ready again" curl -sf http://127.0.0.1:8080/
# Before the upgrade: with control groups of version 1 in a container, systemd does not wait for a process that it has not started, and kills it.
step "systemctl stop tiergate: drained"
inside systemctl stop tiergate
[ "$(inside systemctl show --property Result --value tiergate)" = success ] || fail "it did not end well"
inside systemctl start tiergate || fail "it does not start again"
step "an upgrade in place (SIGUSR2): systemd follows the successor"
before=$(pid)
inside systemctl kill --signal=SIGUSR2 --kill-who=main tiergate
until_inside "the successor" sh -c "test \$(systemctl show -P MainPID tiergate) -ne $before"
until_inside "the successor answers" curl -sf http://127.0.0.1:8080/
inside systemctl is-active --quiet tiergate || fail "it does not run after the upgrade"
step "a new version of the package keeps the edited policy, and the gateway that runs; purge leaves nothing"
before=$(pid)
apt install --reinstall /root/tiergate.deb
[ "$(pid)" = "$before" ] || fail "the package restarts the gateway"
inside grep -q "127.0.0.1:8000" /etc/tiergate/policy.toml || fail "the edit is gone"
apt purge tiergate
! inside test -e /etc/tiergate || fail "/etc/tiergate is left"
! inside systemctl cat tiergate >/dev/null 2>&1 || fail "the unit is left"
step "all steps passed"
