#include "energy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "statistics.hpp"
#include "ticks.hpp"

namespace warplens {
namespace {

constexpr int repeats_wanted = 5;
constexpr double idle_settle_seconds = 3.0;  // power falls for a second or two after work
constexpr double loop_settle_seconds = 2.0;
constexpr double longest = 4.0;  // how many times longer than asked, until the energy is sure enough
constexpr double shortest_window_seconds = 0.2;
constexpr double sample_seconds = 0.01;  // between two readings of instant power
constexpr int most_in_flight = 64;
constexpr double widest_interval = 0.05;
constexpr double least_busy = 0.5;
constexpr double powers_differ = 0.05, powers_differ_watts = 5.0;

std::string words(const char* format, double first, double second = 0) {
  char text[160];
  std::snprintf(text, sizeof text, format, first, second);
  return text;
}

// Keeps work in flight, and notes what is finished and what power is drawn.
class Feeder {
 public:
  Feeder(Loop& loop, const Nvml& nvml) : loop_(loop), nvml_(nvml) {}

  void feed() {
    const std::int64_t done = loop_.completed();
    const double now = now_seconds();
    if (done != done_) {
      done_ = done;
      finished_.emplace_back(now, done);
    }
    // It ran dry: replays are shorter than a look.
    if (launched_ != 0 && done >= launched_) depth_ = std::min(2 * depth_, most_in_flight);
    for (; launched_ - done < depth_; ++launched_) loop_.launch();
    if (now < next_sample_) return;
    next_sample_ = now + sample_seconds;
    if (const auto watts = nvml_.watts()) samples_.emplace_back(now, *watts);
  }

  // Replays between two moments, and seconds for each, from one end of a replay to another.
  std::pair<std::int64_t, double> rate(const Tick& first, const Tick& last) const {
    const auto inside = [&](const auto& each) { return each.first >= first.seconds && each.first <= last.seconds; };
    const auto start = std::find_if(finished_.begin(), finished_.end(), inside);
    const auto end = std::find_if(finished_.rbegin(), finished_.rend(), inside);
    if (start == finished_.end() || end->second == start->second) return {0, std::numeric_limits<double>::quiet_NaN()};
    const std::int64_t replays = end->second - start->second;
    return {replays, (end->first - start->first) / static_cast<double>(replays)};
  }

  std::optional<double> instant_watts(const Tick& first, const Tick& last) const {
    std::vector<double> inside;
    for (const auto& [at, watts] : samples_)
      if (at >= first.seconds && at <= last.seconds) inside.push_back(watts);
    if (inside.empty()) return std::nullopt;
    return mean_of(inside).value;
  }

 private:
  Loop& loop_;
  const Nvml& nvml_;
  int depth_ = 3;
  std::int64_t launched_ = 0, done_ = 0;
  double next_sample_ = 0;
  std::vector<std::pair<double, std::int64_t>> finished_;
  std::vector<std::pair<double, double>> samples_;
};

std::vector<double> powers_of(const std::vector<Tick>& ticks) {
  std::vector<double> powers;
  for (std::size_t at = 1; at < ticks.size(); ++at) powers.push_back(mean_watts(ticks[at - 1], ticks[at]));
  return powers;
}

bool is_enough(const std::vector<Tick>& ticks, const MeterFacts& meter, double seconds) {
  const double measured = ticks.back().seconds - ticks.front().seconds;
  if (measured >= longest * seconds) return true;
  if (ticks.size() <= repeats_wanted || measured < 0.9 * seconds) return false;
  const Mean watts = mean_of(powers_of(ticks));
  // More of the loop cannot make up for what is not known of idle power.
  return watts.half_width <=
         std::max(widest_interval * (watts.value - meter.idle_watts), meter.idle_interval_watts / 2);
}

std::vector<std::string> doubts(const Energy& energy, const MeterFacts& meter) {
  std::vector<std::string> found;
  const double active = energy.watts - meter.idle_watts;
  if (energy.launches == 0) found.emplace_back("fewer than two replays ended during the measurement");
  if (energy.repeats < repeats_wanted) found.push_back("only " + std::to_string(energy.repeats) + " repeats");
  if (active <= meter.idle_interval_watts)
    found.push_back(words("%.1f W above idle power, whose interval is ± %.1f W", active, meter.idle_interval_watts));
  else if (energy.interval > widest_interval)
    found.push_back(words("known to ± %.0f %% only", 100 * energy.interval));
  if (energy.launches != 0 && energy.busy_fraction < least_busy)
    found.push_back(words("its kernels ran for %.0f %% of the loop", 100 * energy.busy_fraction));
  if (energy.instant_watts) {
    const double apart = std::abs(*energy.instant_watts - energy.watts);
    if (apart > std::max(powers_differ_watts, powers_differ * energy.watts))
      found.push_back(words("the counter says %.0f W, instant power %.0f W", energy.watts, *energy.instant_watts));
  }
  return found;
}

Energy energy_of(const std::vector<Tick>& ticks, const Feeder& feeder, int calls, const MeterFacts& meter,
                 double busy_ns) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> powers = powers_of(ticks);
  const Mean watts = mean_of(powers);
  const auto [replays, replay_s] = feeder.rate(ticks.front(), ticks.back());
  const double call_s = replay_s / calls;
  const double active = watts.value - meter.idle_watts;
  Energy made;
  made.active_j = active * call_s;
  made.total_j = watts.value * call_s;
  made.watts = watts.value;
  made.idle_watts = meter.idle_watts;
  made.seconds = ticks.back().seconds - ticks.front().seconds;
  made.launches = replays * calls;
  made.call_ns = call_s * 1e9;
  made.busy_fraction = replays != 0 ? std::min(1.0, busy_ns / made.call_ns) : 0;
  made.repeats = static_cast<int>(powers.size());
  made.interval = active > 0 ? std::hypot(watts.half_width, meter.idle_interval_watts) / active : infinity;
  made.total_interval = watts.value > 0 ? watts.half_width / watts.value : infinity;
  made.instant_watts = feeder.instant_watts(ticks.front(), ticks.back());
  std::vector<std::string> remarks = doubts(made, meter);
  made.doubtful = !remarks.empty();
  if (!made.instant_watts) remarks.emplace_back("not checked against instant power, which this GPU does not report");
  for (const std::string& remark : remarks) made.why += (made.why.empty() ? "" : "; ") + remark;
  return made;
}

}  // namespace

MeterFacts measure_idle(const Nvml& nvml, double seconds) {
  Ticks ticks(nvml, [] {});
  std::vector<Tick> found = {ticks.settle(idle_settle_seconds)};
  for (int window = 0; window < repeats_wanted; ++window)
    found.push_back(ticks.window_end(found.back(), seconds / repeats_wanted));
  const Mean watts = mean_of(powers_of(found));
  Tick first = ticks.next(), last = first;
  for (int tick = 0; tick < repeats_wanted; ++tick) last = ticks.next();
  MeterFacts made;
  made.name = "NVML total energy, " + nvml.gpu();
  made.tick_s = last.is_tick ? (last.seconds - first.seconds) / repeats_wanted : 0;
  made.idle_watts = watts.value;
  made.idle_interval_watts = watts.half_width;
  return made;
}

Energy measure_loop(Loop& loop, const Nvml& nvml, const MeterFacts& meter, double busy_ns, double seconds) {
  Feeder feeder(loop, nvml);
  Ticks ticks(nvml, [&] { feeder.feed(); });
  const double window = std::max(shortest_window_seconds, seconds / repeats_wanted);
  std::vector<Tick> found = {ticks.settle(loop_settle_seconds)};
  while (!is_enough(found, meter, seconds)) found.push_back(ticks.window_end(found.back(), window));
  loop.synchronize();
  return energy_of(found, feeder, loop.calls(), meter, busy_ns);
}

}  // namespace warplens
