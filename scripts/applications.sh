#!/usr/bin/env bash
# Installs the applications that stand behind the contenders in the lab's experiments `app-*`, and oha, a load generator
# that is not ours. Run again, it does nothing and says nothing. What cannot be had is told, and the lab leaves its
# experiment out; nothing else stops. No installed server is started (see setup.sh): the lab starts its own.
set -uo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/lab-peers
mkdir -p "$out"
PATH="$PATH:/usr/sbin:/usr/local/sbin:/usr/local/go/bin"

left_out() { echo "applications: $1 will be left out: $2" >&2; }
# Each by itself, so that one that a release lacks leaves the others.
wanted() { scripts/setup.sh "$@" || left_out "$1" "see above"; }

wanted "gunicorn gunicorn"
wanted "go golang-go"
wanted "javac default-jdk-headless" "/usr/share/java/jetty9-server.jar libjetty9-java"
# Their programs are in folders or have names of their version.
compgen -G "/usr/sbin/php-fpm*" >/dev/null || wanted "php-fpm php-fpm"
compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || wanted "initdb postgresql"
wanted "/usr/lib/python3/dist-packages/psycopg2 python3-psycopg2"
# Nor should they start with the machine, where something starts services at all.
if [ -d /run/systemd/system ] && [ "$(id -u)" -eq 0 ]; then
  for unit in /lib/systemd/system/php*-fpm.service; do
    [ -e "$unit" ] && systemctl disable --quiet "$(basename "$unit")"
  done
fi

# oha: built from crates.io at this version, with the dependencies that it was released with.
oha_version=1.16.0
oha=$out/oha
install_oha() {
  timeout 1800 cargo install oha --version "$oha_version" --locked --quiet \
    --root "$out/oha.build" 2>&1 || return 1
  # Moved when it is whole, so that an interrupted run leaves no half of it.
  mv "$out/oha.build/bin/oha" "$oha" && rm -rf "$out/oha.build"
}
if [ "$("$oha" --version 2>/dev/null)" != "oha $oha_version" ]; then
  echo "applications: building oha $oha_version"
  said=$(install_oha) || left_out oha "$(tail -n 3 <<<"$said")"
fi
exit 0
