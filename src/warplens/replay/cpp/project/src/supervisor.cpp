#include "supervisor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "child.hpp"
#include "faults.hpp"
#include "result.hpp"
#include "safe_values.hpp"
#include "summary.hpp"

namespace warplens {
namespace {

// Longer than any part of a unit takes; a unit that says nothing for that long hangs.
constexpr double silence_seconds = 120;
constexpr const char* left_out_reason = "left out of the plan";
constexpr const char* triton_reason = "needs Triton to compile its source; the C++ replay carries no compiler";

// A folder that only this user can write to, removed at the end of the run.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "warplens-replay-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The longest units that together take that share of the replayable time: each costs seconds.
std::set<std::string> metered_units(const Plan& plan, double cover) {
  std::vector<const Unit*> ready;
  double whole = 0, before = 0;
  for (const Unit& unit : plan.units) {
    if (unit.status != "ready") continue;
    ready.push_back(&unit);
    whole += static_cast<double>(unit.traced.total_ns);
  }
  sort_by_time(ready);
  std::set<std::string> found;
  for (const Unit* unit : ready) {
    if (before >= cover * whole) break;
    found.insert(unit->id);
    before += static_cast<double>(unit->traced.total_ns);
  }
  return found;
}

// First the times of all units, then energy: the loops of the one heat the GPU, which would slow the other down.
struct Task {
  const Unit* unit;
  bool energy;
};

class Run {
 public:
  Run(const Options& options, Plan plan) : options_(options), plan_(std::move(plan)) {
    for (const std::string& id : options.units)
      if (std::none_of(plan_.units.begin(), plan_.units.end(), [&](const Unit& unit) { return unit.id == id; }))
        throw UsageError("--units: the plan has no unit '" + id + "'");
    std::vector<const Unit*> units;
    for (const Unit& unit : plan_.units)
      if (is_to_run(unit)) units.push_back(&unit);
    sort_by_time(units);
    for (const Unit* unit : units) todo_.push_back({unit, false});
    if (options.device == "cpu" || !options.energy.value_or(true)) return;
    const std::set<std::string> metered = metered_units(plan_, options.energy_cover);
    for (const Unit* unit : units)
      if (metered.contains(unit->id)) todo_.push_back({unit, true});
  }

  int go() {
    while (!todo_.empty() && !is_interrupted()) {
      const std::string fault = one_worker();
      if (fault.empty()) continue;
      std::cerr << "replay: " << fault << "\n";
      return 1;
    }
    for (const Task& task : todo_)
      if (!task.energy) settle(*task.unit, "not run", "the run was interrupted");
    save();
    // What goes to standard output is the result alone, where it goes there.
    if (options_.output.empty()) std::cout << result();
    (options_.output.empty() ? std::cerr : std::cout) << summary(result_json());
    std::cout.flush();
    return is_interrupted() ? 130 : exit_status();
  }

 private:
  // A run in which units failed is not a success, though all the others are in its result.
  int exit_status() const {
    std::vector<std::string> failed;
    bool any_done = false;
    for (const Unit& unit : plan_.units) {
      const auto result = results_.find(unit.id);
      const std::string status = result == results_.end() ? "not run" : result->second.find("status")->text;
      if (status == "failed") failed.push_back(unit.id);
      any_done = any_done || status == "done";
    }
    if (!failed.empty()) {
      std::string names = failed.front();
      for (std::size_t index = 1; index < std::min<std::size_t>(failed.size(), 3); ++index) names += ", " + failed[index];
      if (failed.size() > 3) names += " and " + std::to_string(failed.size() - 3) + " more";
      std::cerr << "replay: " << failed.size() << (failed.size() == 1 ? " unit" : " units") << " failed: " << names << "\n";
      return 1;
    }
    if (!plan_.units.empty() && !any_done) {
      std::cerr << "replay: no unit of the plan ran\n";
      return 1;
    }
    return 0;
  }

  void settle(const Unit& unit, const std::string& status, const std::string& reason) {
    Outcome outcome;
    outcome.status = status;
    outcome.reason = reason;
    results_[unit.id] = unit_json(unit, outcome);
  }

  // Whether it is to be run; what comes of it is settled where not.
  bool is_to_run(const Unit& unit) {
    const auto& wanted = options_.units;
    const bool is_requested = wanted.empty() || std::find(wanted.begin(), wanted.end(), unit.id) != wanted.end();
    if (unit.status == "refused") settle(unit, "refused", unit.reason);
    else if (unit.status == "left out") settle(unit, "not run", unit.reason.empty() ? left_out_reason : unit.reason);
    else if (unit.triton) settle(unit, "refused", triton_reason);
    else if (!is_requested) settle(unit, "not run", "not requested");
    else return true;
    return false;
  }

  // Runs what is left until the worker ends; a line where no worker could be of use.
  std::string one_worker() {
    std::vector<std::string> words = {"replay"};
    for (std::string& word : worker_words(options_)) words.push_back(std::move(word));
    Json names = Json::list();
    for (const Task& task : todo_) names.add(Json::object()
                                                     .set("unit", task.unit->id)
                                                     .set("energy", task.energy)
                                                     .set("safe", asserted_.contains(task.unit->id)));
    Child child(words, write_json(meter_, false) + "\n" + write_json(names, false) + "\n");
    running_.reset();
    greeted_ = is_broken_ = false;
    const double patience = silence_seconds + 4 * options_.energy_seconds;
    while (true) {
      std::string line;
      switch (child.read(line, patience)) {
        case Child::Read::line: {
          const std::string fault = take(parse_json(line));
          if (!fault.empty()) return fault;
          break;
        }
        case Child::Read::interrupted: return "";
        case Child::Read::silence:
          child.kill();
          child.wait();
          if (!running_) return "the units cannot be run: its process took too long to start";
          finish_running("it took longer than " + std::to_string(static_cast<int>(patience)) + " s");
          return "";
        case Child::Read::end: {
          const std::string end = child.wait();
          if (running_) {
            const std::string reason = "its process " + end;
            // What ran out of memory would do so again.
            if (end == killed || !try_safe_values(reason)) finish_running(reason);
          }
          else if (!greeted_) return "the units cannot be run: its process " + end;
          // Without a meter it passes over what is left; what left the GPU useless ends it too.
          else if (!is_broken_) std::erase_if(todo_, [](const Task& task) { return task.energy; });
          return "";
        }
      }
    }
  }

  std::string take(const Json& message) {
    if (const Json* state = message.find("state")) after_ = *state;
    if (const Json* fault = message.find("fault")) return fault->text;
    if (const Json* remark = message.find("remark")) std::cerr << remark->text << "\n";
    if (const Json* device = message.find("hello")) {
      greeted_ = true;
      if (device_.empty()) greet(*device, message);
    } else if (const Json* id = message.find("start")) {
      const bool energy = message.find("energy")->boolean;
      const auto is_it = [&](const Task& each) { return each.unit->id == id->text && each.energy == energy; };
      const auto task = std::find_if(todo_.begin(), todo_.end(), is_it);
      if (task != todo_.end()) running_ = *task;
    } else if (const Json* meter = message.find("meter")) {
      meter_ = *meter;
    } else if (message.find("unit") != nullptr && running_) {
      const Json& found = *message.find("result");
      const bool has_failed = found.find("status")->text == "failed";
      is_broken_ = message.find("broken")->boolean;
      if (has_failed && is_broken_ && try_safe_values(found.find("reason")->text)) return "";
      if (running_->energy) add_energy(found);
      else results_[running_->unit->id] = safe_result(found);
      done_with(*running_);
    }
    return "";
  }

  // Whether the unit that ended its process, or asserted on the GPU, is to run again with other values.
  bool try_safe_values(const std::string& reason) {
    const Unit& unit = *running_->unit;
    if (running_->energy || asserted_.contains(unit.id) || !with_safe_values(unit)) return false;
    asserted_[unit.id] = reason;
    running_.reset();
    return true;
  }

  // What came of a unit, with the mark of one that ran with safe values; where these do not help, of its first run.
  Json safe_result(const Json& found) const {
    const auto first = asserted_.find(running_->unit->id);
    if (first == asserted_.end()) return found;
    Outcome outcome;
    outcome.status = "failed";
    outcome.reason = first->second;
    if (found.find("status")->text != "done") return unit_json(*running_->unit, outcome);
    Json made = found, notes = Json::list();
    if (const Json* known = found.find("notes")) notes = *known;
    notes.add(safe_note + first->second);
    made.set("notes", std::move(notes));
    return made;
  }

  void greet(const Json& device, const Json& message) {
    device_ = device.text;
    versions_.set("torch", *message.find("torch"));
    notes_ = *message.find("notes");
    if (device_ == "cpu")
      notes_.add("it ran on the CPU: its times say nothing about a GPU");
    else if (!plan_.gpu.empty() && plan_.gpu != device_)
      notes_.add("the trace is of " + plan_.gpu + ", this run of " + device_);
    if (const Json* state = message.find("state")) before_ = *state;
  }

  // The unit's time stays as it was measured before.
  void add_energy(const Json& found) {
    Json& known = results_[running_->unit->id];
    if (const Json* energy = found.find("energy")) known.set("energy", *energy);
    Json notes = Json::list();
    if (const Json* old = known.find("notes")) notes = *old;
    if (const Json* more = found.find("notes"))
      for (const Json& note : more->items) {
        const auto is_it = [&](const Json& each) { return each.text == note.text; };
        if (std::none_of(notes.items.begin(), notes.items.end(), is_it)) notes.add(note);
      }
    if (const Json* reason = found.find("reason")) notes.add("no energy: " + reason->text);
    if (!notes.items.empty()) known.set("notes", std::move(notes));
  }

  void finish_running(const std::string& reason) {
    const auto first = asserted_.find(running_->unit->id);
    if (running_->energy) add_energy(Json::object().set("reason", reason));
    else settle(*running_->unit, "failed", first == asserted_.end() ? reason : first->second);
    done_with(*running_);
  }

  // A unit that failed has no energy to measure.
  void done_with(Task task) {
    const bool failed = results_.at(task.unit->id).find("status")->text != "done";
    std::erase_if(todo_, [&](const Task& each) { return each.unit == task.unit && (each.energy == task.energy || failed); });
    running_.reset();
    ++finished_;
    progress(task);
    save();
  }

  void progress(const Task& task) const {
    const Unit& unit = *task.unit;
    const Json& result = results_.at(unit.id);
    char time[64] = "";
    const Json* energy = task.energy ? result.find("energy") : nullptr;
    if (energy != nullptr)
      std::snprintf(time, sizeof time, "  %.4g mJ", energy->find("active_j")->number() * 1000);
    else if (const Json* found = result.find("time"))
      std::snprintf(time, sizeof time, "  %.2f µs", found->find("median_ns")->number() / 1000);
    std::string line = "[" + std::to_string(finished_) + "/" + std::to_string(finished_ + todo_.size()) + "] ";
    line += unit.id + "  " + unit.op + "  " + result.find("status")->text + time;
    for (const char* name : {"reason", "difference"})
      if (const Json* found = result.find(name)) line += "  (" + found->text + ")";
    std::cerr << line << "\n";
  }

  std::string result() const { return write_json(result_json()) + "\n"; }

  Json result_json() const {
    Json made = Json::object();
    made.set("format", "warplens-replay-result").set("version", 1).set("plan", plan_.id).set("trace", plan_.trace);
    made.set("gpu_ns", plan_.gpu_ns).set("wall_ns", plan_.wall_ns);
    made.set("device", device_.empty() ? options_.device : device_).set("runner", "c++");
    made.set("cache", cache_name(options_.cache));
    Json units = Json::list();
    for (const Unit& unit : plan_.units) {
      const auto found = results_.find(unit.id);
      if (found != results_.end()) {
        units.add(found->second);
      } else {
        Outcome waiting;
        waiting.status = "not run";
        units.add(unit_json(unit, waiting));
      }
    }
    made.set("units", std::move(units));
    if (!plan_.rest.empty()) {
      Json rest = Json::object();
      for (const auto& [reason, ns] : plan_.rest) rest.set(reason, ns);
      made.set("rest", std::move(rest));
    }
    Json options = Json::object();
    options.set("device", options_.device).set("cache", cache_name(options_.cache));
    options.set("timer", timer_name(options_.timer));
    options.set("precision", options_.precision).set("max_repeats", options_.max_repeats);
    options.set("energy", meter_.is(Json::Kind::object)).set("energy_seconds", options_.energy_seconds);
    options.set("energy_cover", options_.energy_cover);
    options.set("readable", options_.readable);
    made.set("options", std::move(options));
    if (!versions_.members.empty()) made.set("versions", versions_);
    if (before_.is(Json::Kind::object)) made.set("before", before_);
    if (after_.is(Json::Kind::object)) made.set("after", after_);
    if (meter_.is(Json::Kind::object)) made.set("meter", meter_);
    if (!notes_.items.empty()) made.set("notes", notes_);
    return made;
  }

  // After each unit, so that what is done is kept whatever happens.
  void save() const {
    if (!options_.output.empty()) save_text(options_.output, result());
  }

  const Options& options_;
  const Plan plan_;
  std::vector<Task> todo_;
  std::size_t finished_ = 0;
  std::optional<Task> running_;
  bool greeted_ = false, is_broken_ = false;
  std::map<std::string, Json> results_;
  std::map<std::string, std::string> asserted_;  // units that run with safe values, and why
  std::string device_;
  Json versions_ = Json::object(), before_, after_, meter_, notes_;
};

}  // namespace

int supervise(const Options& options) {
  if (!options.output.empty() && !options.force && access(options.output.c_str(), F_OK) == 0)
    throw UsageError(options.output + " exists (--force overwrites it)");
  watch_for_interrupts();
  const Folder folder;
  Options own = options;
  own.scratch = folder.path();
  return Run(own, load_plan(options.plan)).go();
}

}  // namespace warplens
