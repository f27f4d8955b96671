#!/bin/sh
# Installs what the C++ replay is built with where it is missing and the machine lets us; never fails.
command -v cmake >/dev/null && command -v c++ >/dev/null && command -v make >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing cmake and g++ for the tests of the C++ replay"
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends cmake g++ make; } >/dev/null 2>&1
fi
command -v cmake >/dev/null || echo "no cmake: the C++ replay will not be tested (apt-get install cmake g++ make)" >&2
exit 0
