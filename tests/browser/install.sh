#!/bin/sh
# Installs Debian's Chromium where there is no browser yet and the machine lets us; never fails.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium for the tests of the page"
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null 2>&1
fi
command -v chromium >/dev/null || echo "no browser: the tests of the page will be skipped (apt-get install chromium)" >&2
exit 0
