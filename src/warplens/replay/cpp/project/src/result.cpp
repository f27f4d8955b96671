#include "result.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace warplens {
namespace {

Json texts(const std::vector<std::string>& values) {
  Json made = Json::list();
  for (const std::string& value : values) made.add(value);
  return made;
}

void set_text(Json& object, const char* name, const std::string& value) {
  if (!value.empty()) object.set(name, value);
}

void set_number(Json& object, const char* name, const std::optional<double>& value) {
  if (value) object.set(name, *value);
}

void set_sides(Json& object, const char* name, const std::vector<std::int64_t>& sides) {
  if (sides.empty()) return;
  Json made = Json::list();
  for (const std::int64_t side : sides) made.add(side);
  object.set(name, std::move(made));
}

Json kernel_json(const Kernel& kernel) {
  Json made = Json::object();
  made.set("name", kernel.name).set("kind", kernel.kind).set("median_ns", kernel.median_ns);
  set_sides(made, "grid", kernel.grid);
  set_sides(made, "block", kernel.block);
  return made;
}

Json time_json(const Time& time) {
  Json made = Json::object();
  made.set("median_ns", time.median_ns).set("p10_ns", time.p10_ns).set("p90_ns", time.p90_ns);
  made.set("mean_ns", time.mean_ns).set("min_ns", time.min_ns).set("repeats", time.repeats);
  made.set("relative_error", time.relative_error);
  if (time.timer != "profiler") made.set("timer", time.timer);
  return made;
}

Json energy_json(const Energy& energy) {
  Json made = Json::object();
  made.set("active_j", energy.active_j).set("total_j", energy.total_j).set("watts", energy.watts);
  made.set("idle_watts", energy.idle_watts).set("seconds", energy.seconds).set("launches", energy.launches);
  made.set("call_ns", energy.call_ns).set("busy_fraction", energy.busy_fraction).set("repeats", energy.repeats);
  made.set("interval", energy.interval).set("total_interval", energy.total_interval);
  set_number(made, "instant_watts", energy.instant_watts);
  if (energy.doubtful) made.set("doubtful", true);
  set_text(made, "why", energy.why);
  return made;
}

std::string longest_kernel(const Unit& unit) {
  const auto is_shorter = [](const Kernel& a, const Kernel& b) { return a.traced_total_ns < b.traced_total_ns; };
  const auto longest = std::max_element(unit.kernels.begin(), unit.kernels.end(), is_shorter);
  return longest == unit.kernels.end() ? "" : longest->name;
}

}  // namespace

Json unit_json(const Unit& unit, const Outcome& outcome) {
  Json made = Json::object();
  Json traced = Json::object();
  traced.set("total_ns", unit.traced.total_ns).set("median_ns", unit.traced.median_ns);
  traced.set("p10_ns", unit.traced.p10_ns).set("p90_ns", unit.traced.p90_ns);
  made.set("id", unit.id).set("op", unit.overload.empty() ? unit.op : unit.op + "." + unit.overload);
  made.set("count", unit.count).set("traced", std::move(traced));
  made.set("status", outcome.status);
  set_text(made, "reason", outcome.reason);
  set_text(made, "category", unit.category);
  set_text(made, "kernel", longest_kernel(unit));
  if (!outcome.kernels.empty()) {
    Json kernels = Json::list();
    for (const Kernel& kernel : outcome.kernels) kernels.add(kernel_json(kernel));
    made.set("kernels", std::move(kernels));
  }
  if (outcome.same) made.set("same", *outcome.same);
  set_text(made, "difference", outcome.difference);
  if (outcome.time) made.set("time", time_json(*outcome.time));
  if (outcome.energy) made.set("energy", energy_json(*outcome.energy));
  std::vector<std::string> notes = unit.notes;
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  if (!notes.empty()) made.set("notes", texts(notes));
  return made;
}

Json state_json(const State& state) {
  Json made = Json::object();
  set_number(made, "sm_mhz", state.sm_mhz);
  set_number(made, "memory_mhz", state.memory_mhz);
  set_number(made, "temperature_c", state.temperature_c);
  set_number(made, "watts", state.watts);
  set_number(made, "power_limit_w", state.power_limit_w);
  if (!state.throttle.empty()) made.set("throttle", texts(state.throttle));
  return made;
}

Json meter_json(const MeterFacts& meter) {
  Json made = Json::object();
  made.set("name", meter.name).set("tick_s", meter.tick_s).set("idle_watts", meter.idle_watts);
  made.set("idle_interval_watts", meter.idle_interval_watts);
  return made;
}

void save_text(const std::string& path, const std::string& text) {
  const std::string partial = path + "." + std::to_string(getpid()) + ".partial";
  {
    std::ofstream file(partial, std::ios::binary);
    file << text;
    if (!file.flush()) {
      std::remove(partial.c_str());
      throw FormatError(path + ": cannot be written");
    }
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    std::remove(partial.c_str());
    throw FormatError(path + ": cannot be written");
  }
}

}  // namespace warplens
