#!/bin/sh
# Fuzzes the native reader under AddressSanitizer and UBSan: with clang's libFuzzer where clang is installed, else with
# g++ and driver.cpp. usage: tests/fuzz/run.sh [SECONDS] [SEED]   (from the repository's root; results in build/fuzz)
set -eu
seconds=${1:-60}
seed=${2:-1}
here=tests/fuzz
out=build/fuzz
mkdir -p "$out/found"
flags="-std=c++17 -O1 -g -fno-omit-frame-pointer -ffp-contract=off"
flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=all"
if command -v clang++ >/dev/null; then
    clang++ $flags -fsanitize=fuzzer native/*.cpp $here/harness.cpp -o "$out/fuzzer"
    exec "$out/fuzzer" -max_total_time="$seconds" -seed="$seed" -max_len=16384 -artifact_prefix="$out/" \
        -print_final_stats=1 "$out/found" $here/corpus
fi
for source in native/*.cpp $here/harness.cpp; do
    g++ $flags -fsanitize-coverage=trace-pc -c "$source" -o "$out/$(basename "$source" .cpp).o"
done
g++ $flags -c $here/driver.cpp -o "$out/driver.o"
g++ $flags "$out"/*.o -o "$out/fuzzer"
cd "$out"
exec ./fuzzer "../../$here/corpus" "$seconds" "$seed" found
