// What the program was asked to do.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace warplens {

enum class Cache { in_situ, hot, cold };
enum class Timer { profiler, graph };

struct Options {
  std::string plan;
  std::string output;  // empty: standard output
  std::string device;  // cpu or cuda:N
  Cache cache = Cache::in_situ;
  Timer timer = Timer::profiler;
  double precision = 0.02;
  int max_repeats = 200;
  std::optional<bool> energy;  // not given: where there is a meter
  double energy_seconds = 2.0;
  double energy_cover = 0.9;  // energy is measured of the longest units that together take this share of the time
  std::vector<std::string> units;  // empty: all
  std::vector<std::string> libraries;  // of custom ops, loaded first
  bool readable = false;
  bool describe = false;
  bool force = false;
  std::string scratch;  // a folder of the run's own, for the worker's profiles
  bool worker = false;  // this process measures and reports to the one that started it
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `help` is set where the options ask for it; then nothing else is.
Options parse_options(int count, char** words, bool& help);
// The same options as words, for the process that measures.
std::vector<std::string> worker_words(const Options& options);
std::string usage();
std::string cache_name(Cache cache);
std::string timer_name(Timer timer);

}  // namespace warplens
