#include "worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "faults.hpp"
#include "gpu.hpp"
#include "measure.hpp"
#include "readable.hpp"
#include "safe_values.hpp"

namespace warplens {
namespace {

constexpr double idle_seconds = 5;  // measured once, and in every figure of active energy

void send(const Json& message) {
  const std::string line = write_json(message, false) + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = write(report_descriptor, line.data() + at, line.size() - at);
    if (written <= 0) std::_Exit(1);  // the supervisor is gone
    at += static_cast<std::size_t>(written);
  }
}

Json notes_json(const std::vector<std::string>& notes) {
  Json made = Json::list();
  for (const std::string& note : notes) made.add(note);
  return made;
}

// Opens the GPU and its meter, and reports what it finds.
struct Opened {
  std::unique_ptr<Nvml> nvml;
  bool can_meter = false;
  Session session;
};

// Idle power as an earlier worker of the same run measured it.
std::optional<MeterFacts> known_meter(const std::string& line) {
  const Json known = parse_json(line);
  if (!known.is(Json::Kind::object)) return std::nullopt;
  const auto number = [&](const char* name) { return known.find(name)->number(); };
  return MeterFacts{known.find("name")->text, number("tick_s"), number("idle_watts"), number("idle_interval_watts")};
}

Opened open_session(const Options& options, const Plan& plan, const std::string& meter) {
  Opened opened;
  Session& session = opened.session;
  session.options = options;
  session.scratch = options.scratch + "/profile.json";
  Json hello = Json::object();
  std::vector<std::string> notes;
  std::string device = "cpu";
  if (options.device != "cpu") {
    session.place.gpu = std::atoi(options.device.c_str() + std::string("cuda:").size());
    const GpuFacts facts = gpu_open(session.place.gpu);
    session.place.cache_bytes = facts.cache_bytes;
    device = facts.name;
    std::string why_not;
    opened.nvml = Nvml::open(facts.pci, why_not);
    session.nvml = opened.nvml.get();
    if (opened.nvml != nullptr && !opened.nvml->joules()) why_not = "no energy: this GPU has no counter of it";
    if (options.energy.value_or(true)) {
      if (!why_not.empty()) notes.push_back(why_not);
      else session.meter = known_meter(meter);
      opened.can_meter = why_not.empty();
    }
  } else if (options.energy.value_or(false)) {
    notes.emplace_back("no energy: a CPU run has no meter");
  }
  for (const std::string& library : options.libraries) load_library(library);
  for (const std::string& note : restore_settings(plan.settings)) notes.push_back(note);
  hello.set("hello", device).set("torch", torch_version()).set("notes", notes_json(notes));
  if (session.nvml != nullptr) hello.set("state", state_json(session.nvml->state()));
  send(hello);
  return opened;
}

// Idle power is that of a GPU that has worked: after the times of all units, before the first energy.
void know_idle(Opened& opened, const Options& options) {
  opened.session.alive("idle");
  opened.session.meter = measure_idle(*opened.nvml, std::max(options.energy_seconds, idle_seconds));
  send(Json::object().set("meter", meter_json(*opened.session.meter)));
}

Outcome attempt(const Unit& unit, const Session& session) {
  Outcome failed;
  try {
    return measure(unit, session);
  } catch (const Refusal& error) {
    failed.status = "refused";
    failed.reason = one_line(error.what());
  } catch (const std::bad_alloc&) {
    failed.status = "failed";
    failed.reason = "out of memory";
  } catch (const std::exception& error) {
    failed.status = "failed";
    failed.reason = one_line(error.what());
  }
  return failed;
}

void note_throttle(const State& state, Outcome& outcome) {
  if (state.throttle.empty() || outcome.status != "done") return;
  std::string words;
  for (const std::string& each : state.throttle) words += (words.empty() ? "" : ", ") + each;
  outcome.notes.push_back("the GPU was throttled: " + words);
}

}  // namespace

int run_worker(const Options& options) {
  const Plan plan = load_plan(options.plan);
  try {
    if (options.readable && readable_plan_id() != plan.id)
      throw BadUnit(readable_units().empty() ? "--readable: the project was exported without it"
                                             : "--readable: readable/units.cpp was written from another plan");
    std::string meter;
    std::getline(std::cin, meter);
    Opened opened = open_session(options, plan, meter);
    std::string names;
    std::getline(std::cin, names);
    for (const Json& task : parse_json(names).items) {
      const std::string& id = task.find("unit")->text;
      opened.session.energy_only = task.find("energy")->boolean;
      if (opened.session.energy_only && !opened.can_meter) continue;
      const auto is_it = [&](const Unit& each) { return each.id == id; };
      const auto unit = std::find_if(plan.units.begin(), plan.units.end(), is_it);
      if (unit == plan.units.end()) throw BadUnit("the plan changed during the run");
      opened.session.alive = [&](const std::string& part) { send(Json::object().set("alive", part)); };
      opened.session.remark = [&](const std::string& line) {
        send(Json::object().set("remark", id + " gives " + line));
      };
      send(Json::object().set("start", id).set("energy", opened.session.energy_only));
      if (opened.session.energy_only && !opened.session.meter) know_idle(opened, options);
      const std::optional<Unit> safe = task.find("safe")->boolean ? with_safe_values(*unit) : std::nullopt;
      Outcome outcome = attempt(safe ? *safe : *unit, opened.session);
      const std::string broken = options.device == "cpu" ? "" : gpu_is_broken();
      Json answer = Json::object();
      if (opened.session.nvml != nullptr) {
        const State state = opened.session.nvml->state();
        note_throttle(state, outcome);
        answer.set("state", state_json(state));
      }
      answer.set("unit", id).set("result", unit_json(*unit, outcome)).set("broken", !broken.empty());
      send(answer);
      // What such a context says of the next units would be false.
      if (!broken.empty()) std::_Exit(0);
    }
  } catch (const std::exception& error) {
    send(Json::object().set("fault", one_line(error.what())));
    return 1;
  }
  // Without the usual clean-up: the order in which CUDA unloads libraries must not fail a run whose result is sent.
  std::cerr.flush();
  std::_Exit(0);
}

}  // namespace warplens
