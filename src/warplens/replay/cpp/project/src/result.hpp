// What came of a plan, as the Python runner writes it too: a field that has its default is left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json.hpp"
#include "plan.hpp"

namespace warplens {

struct Time {
  double median_ns = 0, p10_ns = 0, p90_ns = 0, mean_ns = 0, min_ns = 0;
  int repeats = 0;
  double relative_error = 0;
  std::string timer = "profiler";
};

struct Energy {
  double active_j = 0, total_j = 0, watts = 0, idle_watts = 0, seconds = 0;
  std::int64_t launches = 0;
  double call_ns = 0, busy_fraction = 0;
  int repeats = 0;
  double interval = 0, total_interval = 0;
  std::optional<double> instant_watts;
  bool doubtful = false;
  std::string why;
};

struct Outcome {
  std::string status = "done", reason;
  std::vector<Kernel> kernels;
  std::optional<bool> same;
  std::string difference;
  std::optional<Time> time;
  std::optional<Energy> energy;
  std::vector<std::string> notes;
};

// The GPU as it was found; nothing of it is ever set.
struct State {
  std::optional<double> sm_mhz, memory_mhz, temperature_c, watts, power_limit_w;
  std::vector<std::string> throttle;
};

struct MeterFacts {
  std::string name;
  double tick_s = 0, idle_watts = 0, idle_interval_watts = 0;
};

Json unit_json(const Unit& unit, const Outcome& outcome);
Json state_json(const State& state);
Json meter_json(const MeterFacts& meter);
// Written whole or not at all.
void save_text(const std::string& path, const std::string& text);

}  // namespace warplens
