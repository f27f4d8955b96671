// Windows that begin and end where the energy counter moves. It is updated at a fixed period (every 100 ms on
// an H200); a window of 1 s that begins and ends anywhere can be 10 % off, one from tick to tick is not.
#pragma once

#include <functional>

#include "nvml.hpp"

namespace warplens {

struct Tick {
  double seconds = 0, joules = 0;
  bool is_tick = true;  // false: the counter did not move, and this is where the waiting ended
};

double now_seconds();
double mean_watts(const Tick& first, const Tick& last);

// `between` is called before each look at the counter.
class Ticks {
 public:
  Ticks(const Nvml& nvml, std::function<void()> between) : nvml_(nvml), between_(std::move(between)) {}

  Tick next(double after = 0);
  Tick window_end(const Tick& start, double seconds);
  // Lets power settle, for a bounded time.
  Tick settle(double most_seconds);

 private:
  double joules() const;
  void wait();
  const Nvml& nvml_;
  std::function<void()> between_;
};

}  // namespace warplens
