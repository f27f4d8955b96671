#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "compare.hpp"
#include "faults.hpp"
#include "gpu.hpp"
#include "profiled_calls.hpp"
#include "statistics.hpp"
#include "widen.hpp"

namespace warplens {
namespace {

constexpr int warm_ups = 3;
constexpr int least_repeats = 20;
constexpr double replay_ns_wanted = 5e6;
constexpr double long_call_ns = 1e5;
constexpr int fewest_calls = 50, most_calls = 2000, few_long_calls = 2;
constexpr int look_repeats = 10;    // under the profiler if it only shows which kernels run
constexpr int first_repeats = 50;   // starting the profiler costs more than so many short calls
constexpr double short_call_ns = 1e6;
constexpr int most_rounds = 6;
constexpr double rounds_seconds = 30;  // no new round begins later

std::int64_t cpu_free_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::int64_t kilobytes = 0;
    if (name == "MemAvailable:" && file >> kilobytes) return kilobytes << 10;
    std::getline(file, name);
  }
  return std::int64_t{1} << 60;  // the machine does not report it
}

void check_memory(const Unit& unit, const Place& place) {
  std::int64_t needed = 0;
  for (const Storage& storage : unit.storages)
    if (!storage.on_cpu || !place.on_gpu()) needed += storage.bytes * (storage.written ? 2 : 1);
  if (place.on_gpu()) gpu_give_back_memory();
  const std::int64_t free = place.on_gpu() ? gpu_free_bytes() : cpu_free_bytes();
  if (needed <= free) return;
  char text[96];
  constexpr double gib = 1 << 30;
  std::snprintf(text, sizeof text, "needs %.1f GiB, %.1f GiB are free", static_cast<double>(needed) / gib,
                static_cast<double>(free) / gib);
  throw Refusal(text);
}

// Ready and called once. A few ops refuse inference tensors; those are called without gradients instead.
std::unique_ptr<Bench> prepare(const Unit& unit, const Session& session, std::vector<std::string>& notes) {
  const auto made = [&](bool inference) {
    auto bench = std::make_unique<Bench>(unit, session.place, inference, session.options.readable);
    // A choice may hold what the op does not take: each is tried in its turn.
    if (bench->combinations() == 1) bench->call();
    return bench;
  };
  try {
    return made(true);
  } catch (const BadUnit&) {
    throw;
  } catch (const Refusal&) {
    throw;
  } catch (const std::exception& error) {
    if (std::string(error.what()).find("nference") == std::string::npos) throw;
    auto bench = made(false);
    notes.emplace_back("called without inference mode, which the op refuses");
    return bench;
  }
}

// The first of the unit's choices that runs; on the CPU there are no kernels to compare.
void choose_first(Bench& bench) {
  for (std::size_t way = 0;; ++way) {
    try {
      bench.choose(way);
      bench.call();
      return;
    } catch (const std::exception&) {
      if (way + 1 == bench.combinations()) throw;
    }
  }
}

std::unique_ptr<Bench> prepare_on_cpu(const Unit& unit, const Session& session, std::vector<std::string>& notes) {
  try {
    auto bench = prepare(unit, session, notes);
    choose_first(*bench);
    return bench;
  } catch (const BadUnit&) {
    throw;
  } catch (const Refusal&) {
    throw;
  } catch (const std::exception& error) {
    const std::string first = error.what();
    try {
      const std::optional<Unit> wide = widened(unit);
      if (!wide) throw;
      check_memory(*wide, session.place);
      auto bench = prepare(*wide, session, notes);
      choose_first(*bench);
      notes.push_back(narrow_dtypes(unit) + " widened to float32: " + one_line(first));
      return bench;
    } catch (const std::exception&) {
      throw std::runtime_error(first);  // it was not the dtype: what it said first is the reason
    }
  }
}

void tell_of(Bench& bench, const Session& session, Outcome& outcome) {
  if (session.options.readable && !bench.is_readable())
    outcome.notes.emplace_back("called by name: it is not written out");
  if (!session.options.describe) return;
  for (const std::string& line : bench.describe()) session.remark(line);
}

Time time_of(const std::vector<double>& samples, const std::string& timer) {
  const Spread spread = spread_of(samples);
  return {spread.median, spread.p10, spread.p90, spread.mean, spread.min, static_cast<int>(samples.size()),
          spread.relative_error, timer};
}

// Takes samples, a round at a time, until the median is known well enough.
template <typename Round>
std::vector<double> sampled(const Options& options, int first, const Round& round) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(rounds_seconds);
  std::vector<double> samples = round(std::min(first, options.max_repeats));
  for (int rounds = 0; rounds < most_rounds && std::chrono::steady_clock::now() < end; ++rounds) {
    const int wanted = samples.empty() ? 0 : more_repeats(samples, options.precision, options.max_repeats);
    if (wanted == 0) break;
    const std::vector<double> found = round(wanted);
    samples.insert(samples.end(), found.begin(), found.end());
  }
  return samples;
}

Outcome measure_on_cpu(const Unit& unit, const Session& session) {
  using Clock = std::chrono::steady_clock;
  Outcome outcome;
  const auto bench = prepare_on_cpu(unit, session, outcome.notes);
  tell_of(*bench, session, outcome);
  const auto once = [&] {
    bench->reset();
    const auto start = Clock::now();
    bench->call();
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  for (int time = 0; time < warm_ups; ++time) once();
  const auto end = Clock::now() + std::chrono::duration<double>(rounds_seconds);
  const auto samples = sampled(session.options, least_repeats, [&](int wanted) {
    std::vector<double> found;
    // Fewer than asked for where one takes seconds.
    while (static_cast<int>(found.size()) < wanted && (found.empty() || Clock::now() < end)) found.push_back(once());
    return found;
  });
  outcome.time = time_of(samples, "host");
  return outcome;
}

// Decides the unit's choices: the first that launches what the plan says, else the first that runs.
void choose(Bench& bench, const Unit& unit, const Session& session) {
  if (bench.combinations() == 1) return;
  std::optional<std::size_t> runs;
  std::string first_error;
  for (std::size_t way = 0; way < bench.combinations(); ++way) {
    try {
      bench.choose(way);
      bench.call();
      gpu_synchronize();
      const auto calls = profiled(bench, session.scratch, 1, Cache::hot);
      if (!runs) runs = way;
      if (!calls.empty() && difference(unit.kernels, calls.front()).empty()) return;
    } catch (const std::exception& error) {
      if (!gpu_is_broken().empty()) throw;
      if (first_error.empty()) first_error = error.what();
    }
  }
  if (!runs) throw BadUnit(one_line(first_error));
  bench.choose(*runs);
}

std::unique_ptr<TimedLoop> loop_of(Bench& bench, const Session& session, double call_ns,
                                   std::vector<std::string>& notes) {
  session.alive("loop");
  gpu_give_back_memory();
  const std::size_t sets = bench.rotate(session.options.cache, gpu_free_bytes());
  double wanted = std::ceil(replay_ns_wanted / std::max(call_ns, 1.0));
  wanted = call_ns <= long_call_ns ? std::clamp(wanted, double{fewest_calls}, double{most_calls})
                                   : std::max(wanted, double{few_long_calls});
  const std::size_t count = (static_cast<std::size_t>(wanted) + sets - 1) / sets * sets;
  std::vector<std::function<void()>> calls;
  for (std::size_t call = 0; call < count; ++call) calls.emplace_back([&bench, set = call % sets] { bench.call(set); });
  std::string why_not;
  auto loop = make_loop([&bench] { bench.reset(); }, std::move(calls), call_ns, why_not);
  if (!why_not.empty()) notes.push_back("looped without a CUDA graph: " + why_not);
  loop->is_graph = why_not.empty();
  return loop;
}

Time time_by_graph(TimedLoop& loop, const Session& session) {
  for (int time = 0; time < warm_ups; ++time) loop.replay_ns();
  const auto samples = sampled(session.options, least_repeats, [&](int wanted) {
    std::vector<double> found;
    while (static_cast<int>(found.size()) < wanted) found.push_back(loop.replay_ns() / loop.calls());
    return found;
  });
  return time_of(samples, "graph");
}

// What goes wrong here takes nothing from the time that is already known.
void add_energy(Bench& bench, const Session& session, double busy_ns, Outcome& outcome) {
  try {
    const auto loop = loop_of(bench, session, busy_ns, outcome.notes);
    session.alive("energy");
    outcome.energy = measure_loop(*loop, *session.nvml, *session.meter, busy_ns, session.options.energy_seconds);
  } catch (const std::exception& error) {
    outcome.notes.push_back("no energy: " + one_line(error.what()));
  }
}

Outcome measure_on_gpu(const Unit& unit, const Session& session) {
  const Options& options = session.options;
  Outcome outcome;
  const auto bench = prepare(unit, session, outcome.notes);
  gpu_synchronize();
  choose(*bench, unit, session);
  tell_of(*bench, session, outcome);
  session.alive("time");
  for (int time = 0; time < warm_ups; ++time) {
    bench->reset();
    bench->settle(options.cache);
    bench->call();
  }
  gpu_synchronize();
  ProfiledCalls calls(*bench, session.scratch, options.cache);
  std::unique_ptr<TimedLoop> loop;
  std::vector<double> samples;
  if (session.energy_only || options.timer == Timer::graph) {
    samples = calls.sample(std::min(look_repeats, options.max_repeats));
    if (samples.empty()) throw BadUnit("it launched nothing on the GPU");
    if (session.energy_only) {
      add_energy(*bench, session, median_of(samples), outcome);
      return outcome;
    }
    loop = loop_of(*bench, session, median_of(samples), outcome.notes);
  }
  if (loop != nullptr && loop->is_graph) {
    outcome.time = time_by_graph(*loop, session);
  } else {
    // A loop of plain calls has gaps between them: only the profiler can measure the time without them.
    const int first = unit.traced.median_ns < short_call_ns ? first_repeats : least_repeats;
    samples = sampled(options, first, [&](int wanted) { return calls.sample(wanted); });
    if (samples.empty()) throw BadUnit("it launched nothing on the GPU");
    outcome.time = time_of(samples, "profiler");
  }
  outcome.kernels = calls.work();
  outcome.difference = difference(unit.kernels, outcome.kernels);
  outcome.same = outcome.difference.empty();
  if (calls.unusual() != 0)
    outcome.notes.push_back(std::to_string(calls.unusual()) + (calls.unusual() == 1 ? " call" : " calls") +
                            " launched something else and are not counted");
  return outcome;
}

}  // namespace

Outcome measure(const Unit& unit, const Session& session) {
  check_memory(unit, session.place);
  return session.place.on_gpu() ? measure_on_gpu(unit, session) : measure_on_cpu(unit, session);
}

}  // namespace warplens
