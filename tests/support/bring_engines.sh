#!/bin/sh
# Brings the engines that the tests run on, as far as this machine lets it: as root on Debian through apt, elsewhere it
# prints what to install. Tests whose engine is missing are skipped, with the reason.
set -u

packages=""
missing() { packages="$packages $1"; }
command -v redis-server >/dev/null || missing redis-server
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing postgresql
command -v caddy >/dev/null || missing caddy
command -v java >/dev/null || missing openjdk-17-jre-headless
command -v mvn >/dev/null || missing maven
command -v node >/dev/null || missing nodejs
command -v npm >/dev/null || missing npm
command -v chromium >/dev/null || missing chromium
command -v go >/dev/null || missing golang-go
test -x /usr/sbin/sshd || missing openssh-server
# Shells whose completions are tested.
command -v fish >/dev/null || missing fish
command -v zsh >/dev/null || missing zsh

if [ -n "$packages" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing$packages"
    # shellcheck disable=SC2086 (a list of names)
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends $packages >/dev/null || echo "apt-get could not install all of$packages"
  else
    echo "Not on this machine:$packages. Their tests are left out; on Debian: sudo apt-get install$packages"
  fi
fi
# The exporter's schema, which the OpenTelemetry tables are compared with.
command -v go >/dev/null && { "$1" -m tests.support.otel_clickhouse_exporter || echo "The exporter's schema cannot be brought; its tests are left out."; }
# Kafka's jars, before a test waits for them.
if command -v java >/dev/null && command -v mvn >/dev/null; then
  "$1" -m tests.support.kafka_broker jars || echo "Kafka's jars cannot be brought; its tests are left out."
fi
if command -v node >/dev/null && command -v npm >/dev/null; then
  "$1" -m tests.support.otel_javascript || echo "OpenTelemetry's SDK for JavaScript cannot be brought; its test is left out."
  "$1" -m tests.support.javascript_client || echo "What the JavaScript client is built and tested with cannot be brought; its tests are left out."
  "$1" -m tests.support.sentry_javascript || echo "Sentry's SDKs for JavaScript cannot be brought; their tests are left out."
  "$1" -m tests.support.tracker_build || echo "What builds the tracker cannot be brought; the test of its build is left out."
  "$1" -m tests.support.axe_core || echo "axe-core cannot be brought; the tests of pages are left out."
  test -f .engines/countries.mmdb || make --silent country-database || echo "No database of countries can be brought; its tests are left out."
fi
if command -v go >/dev/null; then
  "$1" -m tests.support.scrape || echo "Prometheus' parser cannot be built; its tests are left out."
fi
exit 0
