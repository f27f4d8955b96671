#include "ticks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <thread>

namespace warplens {
namespace {

constexpr std::chrono::milliseconds poll(1);
constexpr double no_tick_seconds = 1.0;
// A tick is between two reads. If launching work kept these further apart than this, the next tick is better.
constexpr double clean_seconds = 0.005;
constexpr int most_unclean = 3;
// Watching begins this much before a window is full, so that a tick due at that moment is not missed for the next.
constexpr double early_seconds = 0.05;
constexpr double settle_window_seconds = 0.2;
// Two windows in a row that differ by less: power no longer rises or falls.
constexpr double settled = 0.02;

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double mean_watts(const Tick& first, const Tick& last) {
  return (last.joules - first.joules) / (last.seconds - first.seconds);
}

double Ticks::joules() const {
  const auto found = nvml_.joules();
  if (!found) throw std::runtime_error("NVML no longer reports the energy");
  return *found;
}

void Ticks::wait() {
  between_();
  std::this_thread::sleep_for(poll);
}

Tick Ticks::next(double after) {
  while (now_seconds() < after) wait();
  double before_joules = joules();
  double before_seconds = now_seconds();
  const double end = before_seconds + no_tick_seconds;
  for (int unclean = 0; now_seconds() < end;) {
    wait();
    const double found = joules();
    const double now = now_seconds();
    if (found != before_joules && (now - before_seconds <= clean_seconds || unclean++ >= most_unclean))
      return {(before_seconds + now) / 2, found};
    before_joules = found;
    before_seconds = now;
  }
  return {before_seconds, before_joules, false};
}

Tick Ticks::window_end(const Tick& start, double seconds) { return next(start.seconds + seconds - early_seconds); }

Tick Ticks::settle(double most_seconds) {
  Tick tick = next();
  const double end = now_seconds() + most_seconds;
  std::optional<double> before;
  while (true) {
    const Tick later = window_end(tick, settle_window_seconds);
    const double watts = mean_watts(tick, later);
    tick = later;
    const bool agrees = before && std::abs(*before - watts) <= settled * std::max(std::abs(*before), std::abs(watts));
    if (agrees || now_seconds() >= end) return tick;
    before = watts;
  }
}

}  // namespace warplens
