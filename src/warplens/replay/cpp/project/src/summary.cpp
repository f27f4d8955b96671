#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace warplens {
namespace {

// A replayed median this near to the traced one counts as equal.
constexpr double near = 0.10;
constexpr std::size_t most_reasons = 20;

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string units_text(std::size_t count) { return std::to_string(count) + (count == 1 ? " unit" : " units"); }

const std::string& status_of(const Json& unit) { return unit.find("status")->text; }

double traced(const Json& unit, const char* name) { return unit.find("traced")->find(name)->number(); }

double count_of(const Json& unit) { return unit.find("count")->number(); }

double median(const Json& unit) { return unit.find("time")->find("median_ns")->number(); }

template <typename Wanted>
double traced_ns(const std::vector<const Json*>& units, Wanted is_wanted) {
  double sum = 0;
  for (const Json* unit : units)
    if (is_wanted(*unit)) sum += traced(*unit, "total_ns");
  return sum;
}

bool is_near(const Json& unit) {
  const double replayed = median(unit), usual = traced(unit, "median_ns");
  return (traced(unit, "p10_ns") <= replayed && replayed <= traced(unit, "p90_ns")) ||
         std::abs(replayed - usual) <= near * usual;
}

std::string counts(const std::vector<Json>& units) {
  std::string parts;
  for (const char* status : {"done", "failed", "refused", "not run"}) {
    const auto has_it = [&](const Json& unit) { return status_of(unit) == status; };
    const auto count = std::count_if(units.begin(), units.end(), has_it);
    if (count > 0) parts += (parts.empty() ? ": " : ", ") + std::to_string(count) + " " + status;
  }
  return units_text(units.size()) + parts + "\n";
}

std::string times(const std::vector<const Json*>& done, double covered) {
  const auto is_judged = [](const Json& unit) { return unit.find("same") != nullptr; };
  const auto is_same = [&](const Json& unit) { return is_judged(unit) && unit.find("same")->boolean; };
  std::string lines;
  if (const double judged = traced_ns(done, is_judged); judged > 0)
    lines += format("same kernels and grids as the trace: %.1f%% by time\n", 100 * traced_ns(done, is_same) / judged);
  double replayed = 0;
  for (const Json* unit : done) replayed += count_of(*unit) * median(*unit);
  lines += format("Σ count × replayed %.3f ms, traced %.3f ms (%+.1f%%)\n", replayed / 1e6, covered / 1e6,
                  100 * (replayed / covered - 1));
  return lines + format("inside the trace's own p10–p90, or within %.0f%% of its median: %.1f%% by time\n", 100 * near,
                        100 * traced_ns(done, is_near) / covered);
}

std::string energy(const Json& result) {
  double joules = 0;
  std::size_t measured = 0, doubtful = 0;
  for (const Json& unit : result.find("units")->items) {
    const Json* own = unit.find("energy");
    if (own == nullptr) continue;
    ++measured;
    joules += count_of(unit) * own->find("active_j")->number();
    const Json* doubt = own->find("doubtful");
    doubtful += doubt != nullptr && doubt->boolean ? 1 : 0;
  }
  if (measured == 0) return "";
  std::string idle;
  if (const Json* meter = result.find("meter"))
    idle = format(", idle %.1f W (%s)", meter->find("idle_watts")->number(), meter->find("name")->text.c_str());
  return "energy of " + units_text(measured) + format(": Σ count × active %.3g J", joules) + idle + "; " +
         std::to_string(doubtful) + " doubtful (?)\n";
}

struct Reason {
  double ns = 0;
  std::size_t units = 0;  // 0: work outside units
  std::string text;
};

// Why work was not run, the reason that costs most time first.
std::string reasons(const Json& result) {
  std::vector<Reason> found;
  for (const Json& unit : result.find("units")->items) {
    if (status_of(unit) == "done") continue;
    const Json* reason = unit.find("reason");
    const std::string text = reason == nullptr ? "" : reason->text;
    auto known = std::find_if(found.begin(), found.end(), [&](const Reason& each) { return each.text == text; });
    if (known == found.end()) known = found.insert(found.end(), {0, 0, text});
    known->ns += traced(unit, "total_ns");
    ++known->units;
  }
  if (const Json* rest = result.find("rest"))
    for (const auto& [text, ns] : rest->members)
      if (ns.number() > 0) found.push_back({ns.number(), 0, text});
  std::stable_sort(found.begin(), found.end(), [](const Reason& a, const Reason& b) { return a.ns > b.ns; });
  std::string lines;
  double others = 0;
  for (std::size_t place = 0; place < found.size(); ++place) {
    const Reason& reason = found[place];
    if (place >= most_reasons) others += reason.ns;
    else
      lines += "not replayed: " + (reason.units > 0 ? units_text(reason.units) : "work outside units") +
               format(", %.3f ms: ", reason.ns / 1e6) + reason.text + "\n";
  }
  if (found.size() > most_reasons)
    lines += format("not replayed: %.3f ms for ", others / 1e6) + std::to_string(found.size() - most_reasons) +
             " other reasons\n";
  return lines;
}

}  // namespace

std::string summary(const Json& result) {
  const std::vector<Json>& units = result.find("units")->items;
  std::vector<const Json*> done;
  for (const Json& unit : units)
    if (status_of(unit) == "done" && unit.find("time") != nullptr) done.push_back(&unit);
  const double covered = traced_ns(done, [](const Json&) { return true; });
  const std::string& device = result.find("device")->text;
  std::string lines = counts(units);
  if (const double whole = result.find("gpu_ns")->number(); whole > 0)
    lines += format("%.1f%% of the trace's GPU time replayed, on ", 100 * covered / whole) + device + ", cache " +
             result.find("cache")->text + "\n";
  // A host's times have nothing to do with the trace's.
  if (covered > 0 && device != "cpu") lines += times(done, covered);
  lines += energy(result) + reasons(result);
  if (const Json* notes = result.find("notes"))
    for (const Json& note : notes->items) lines += "note: " + note.text + "\n";
  return lines;
}

}  // namespace warplens
