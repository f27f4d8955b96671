#!/bin/sh
# soak.sh [RUNS] [BUSY]: whole runs of the tests beside processes that keep the machine busy; ends with the first failure.
# No test may depend on how fast the machine is, and this shows it.
set -eu
cd "$(dirname "$0")/.."
runs=${1:-5} busy=${2:-4} pids=
trap 'kill $pids 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for _ in $(seq "$busy"); do
  sh -c 'while :; do :; done' &
  pids="$pids $!"
done
for run in $(seq "$runs"); do
  began=$(date +%s)
  make --no-print-directory test || { echo "run $run of $runs failed"; exit 1; }
  echo "run $run of $runs passed in $(($(date +%s) - began)) s beside $busy busy processes"
done
