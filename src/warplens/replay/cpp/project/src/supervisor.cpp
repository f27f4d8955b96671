#include "supervisor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "child.hpp"
#include "faults.hpp"
#include "result.hpp"

namespace warplens {
namespace {

// Longer than any part of a unit takes; a unit that says nothing for that long hangs.
constexpr double silence_seconds = 120;
constexpr const char* left_out_reason = "left out of the plan";
constexpr const char* triton_reason = "needs Triton to compile its source; the C++ replay carries no compiler";

// A folder that nobody else can write to, gone when the run is.
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

class Run {
 public:
  Run(const Options& options, Plan plan) : options_(options), plan_(std::move(plan)) {
    for (const std::string& id : options.units)
      if (std::none_of(plan_.units.begin(), plan_.units.end(), [&](const Unit& unit) { return unit.id == id; }))
        throw UsageError("--units: the plan has no unit '" + id + "'");
    for (const Unit& unit : plan_.units) sort_in(unit);
    sort_by_time(todo_);
    total_ = todo_.size();
  }

  int go() {
    while (!todo_.empty() && !is_interrupted()) {
      const std::string fault = one_worker();
      if (fault.empty()) continue;
      std::cerr << "replay: " << fault << "\n";
      return 1;
    }
    for (const Unit* unit : todo_) settle(*unit, "not run", "the run was interrupted");
    save();
    if (options_.output.empty()) std::cout << result();
    return is_interrupted() ? 130 : 0;
  }

 private:
  void settle(const Unit& unit, const std::string& status, const std::string& reason) {
    Outcome outcome;
    outcome.status = status;
    outcome.reason = reason;
    results_[unit.id] = unit_json(unit, outcome);
  }

  void sort_in(const Unit& unit) {
    const auto& wanted = options_.units;
    const bool asked = wanted.empty() || std::find(wanted.begin(), wanted.end(), unit.id) != wanted.end();
    if (unit.status == "refused") settle(unit, "refused", unit.reason);
    else if (unit.status == "left out") settle(unit, "not run", unit.reason.empty() ? left_out_reason : unit.reason);
    else if (unit.triton) settle(unit, "refused", triton_reason);
    else if (!asked) settle(unit, "not run", "not asked for");
    else todo_.push_back(&unit);
  }

  // Runs what is left until the worker ends; a line where no worker could be of use.
  std::string one_worker() {
    std::vector<std::string> words = {"replay"};
    for (std::string& word : worker_words(options_)) words.push_back(std::move(word));
    Json names = Json::list();
    for (const Unit* unit : todo_) names.add(unit->id);
    Child child(words, write_json(meter_, false) + "\n" + write_json(names, false) + "\n");
    running_ = nullptr;
    greeted_ = false;
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
          if (running_ == nullptr) return "the process that measures does not start";
          finish_running("it took longer than " + std::to_string(static_cast<int>(patience)) + " s");
          return "";
        case Child::Read::end: {
          const std::string end = child.wait();
          if (running_ != nullptr) finish_running("its process died (" + (end.empty() ? "without a word" : end) + ")");
          else if (!greeted_) return "the process that measures does not start: " + end;
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
      const auto is_it = [&](const Unit* each) { return each->id == id->text; };
      const auto unit = std::find_if(todo_.begin(), todo_.end(), is_it);
      running_ = unit == todo_.end() ? nullptr : *unit;
    } else if (message.find("unit") != nullptr && running_ != nullptr) {
      results_[running_->id] = *message.find("result");
      done_with(*running_);
    }
    return "";
  }

  void greet(const Json& device, const Json& message) {
    device_ = device.text;
    versions_.set("torch", *message.find("torch"));
    notes_ = *message.find("notes");
    if (device_ == "cpu")
      notes_.add("it ran on the CPU: its times are the host's and say nothing of a GPU");
    else if (!plan_.gpu.empty() && plan_.gpu != device_)
      notes_.add("the trace is of " + plan_.gpu + ", this run of " + device_);
    if (const Json* state = message.find("state")) before_ = *state;
    if (const Json* meter = message.find("meter")) meter_ = *meter;
  }

  void finish_running(const std::string& reason) {
    settle(*running_, "failed", reason);
    done_with(*running_);
  }

  void done_with(const Unit& unit) {
    todo_.erase(std::find(todo_.begin(), todo_.end(), &unit));
    running_ = nullptr;
    progress(unit);
    save();
  }

  void progress(const Unit& unit) const {
    const Json& result = results_.at(unit.id);
    char time[64] = "";
    if (const Json* found = result.find("time"))
      std::snprintf(time, sizeof time, "  %.2f µs", found->find("median_ns")->number() / 1000);
    std::string line = "[" + std::to_string(total_ - todo_.size()) + "/" + std::to_string(total_) + "] ";
    line += unit.id + "  " + unit.op + "  " + result.find("status")->text + time;
    for (const char* name : {"reason", "difference"})
      if (const Json* found = result.find(name)) line += "  (" + found->text + ")";
    std::cerr << line << "\n";
  }

  std::string result() const {
    Json made = Json::object();
    made.set("format", "warplens-replay-result").set("version", 1).set("plan", plan_.hash).set("trace", plan_.trace);
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
    return write_json(made) + "\n";
  }

  // After each unit, so that what is done is kept whatever happens.
  void save() const {
    if (!options_.output.empty()) save_text(options_.output, result());
  }

  const Options& options_;
  const Plan plan_;
  std::vector<const Unit*> todo_;
  std::size_t total_ = 0;
  const Unit* running_ = nullptr;
  bool greeted_ = false;
  std::map<std::string, Json> results_;
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
