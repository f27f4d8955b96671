#!/bin/sh
# install.sh [firefox]: installs Debian's Chromium, or both, where they are missing and the machine lets us; never fails.
also=${1:-}
has() { for name in "$@"; do command -v "$name" >/dev/null && return 0; done; return 1; }
wanted=
has chromium chromium-browser google-chrome google-chrome-stable || wanted=chromium
[ -z "$also" ] || has firefox-esr firefox || wanted="$wanted firefox-esr"
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing for the tests of the page:" $wanted
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $wanted; } >/dev/null 2>&1
fi
has chromium chromium-browser google-chrome google-chrome-stable || echo "no Chromium: the tests of the page will be skipped (apt-get install chromium)" >&2
[ -z "$also" ] || has firefox-esr firefox || echo "no Firefox: the page will not be tested in it (apt-get install firefox-esr)" >&2
exit 0
