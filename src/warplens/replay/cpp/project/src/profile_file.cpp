#include "profile_file.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace warplens {
namespace {

struct Range {
  double start = 0, end = 0;
};

struct Work {
  Kernel kernel;
  std::int64_t correlation = 0;
};

struct Launch {
  double start = 0;
  std::int64_t correlation = 0;
};

std::string text_of(const Json& event, const char* name) {
  const Json* found = event.find(name);
  return found != nullptr && found->is(Json::Kind::text) ? found->text : "";
}

double number_of(const Json& event, const char* name) {
  const Json* found = event.find(name);
  return found != nullptr && found->is_number() ? found->number() : 0;
}

std::vector<std::int64_t> sides_of(const Json& arguments, const char* name) {
  std::vector<std::int64_t> sides;
  if (const Json* found = arguments.find(name))
    for (const Json& side : found->items) sides.push_back(side.integer);
  return sides;
}

// Kineto calls a memset gpu_memset and a copy gpu_memcpy; empty: the event is not GPU work.
std::string work_kind(const std::string& category) {
  if (category == "kernel") return "kernel";
  if (category == "gpu_memcpy") return "memcpy";
  if (category == "gpu_memset") return "memset";
  return "";
}

Work work_of(const Json& event, const Json& arguments, const std::string& kind) {
  Work made;
  made.kernel.name = text_of(event, "name");
  made.kernel.kind = kind;
  made.kernel.median_ns = std::round(number_of(event, "dur") * 1000);
  made.kernel.grid = sides_of(arguments, "grid");
  made.kernel.block = sides_of(arguments, "block");
  if (const Json* bytes = arguments.find("bytes"); bytes != nullptr && bytes->is_number())
    made.kernel.bytes = static_cast<std::int64_t>(bytes->number());
  made.correlation = static_cast<std::int64_t>(number_of(arguments, "correlation"));
  return made;
}

}  // namespace

std::vector<std::vector<Kernel>> read_profile(const std::string& path) {
  const Json document = read_json_file(path);
  const Json* events = document.find("traceEvents");
  if (events == nullptr) throw FormatError("the profiler wrote no events");
  static const Json no_arguments = Json::object();
  std::vector<Range> ranges;
  std::vector<Launch> launches;
  std::unordered_map<std::int64_t, std::vector<Kernel>> works;
  for (const Json& event : events->items) {
    if (text_of(event, "ph") != "X") continue;
    const std::string category = text_of(event, "cat");
    const double start = number_of(event, "ts");
    const Json* found = event.find("args");
    const Json& arguments = found != nullptr ? *found : no_arguments;
    if (category == "cuda_runtime" || category == "cuda_driver") {
      launches.push_back({start, static_cast<std::int64_t>(number_of(arguments, "correlation"))});
    } else if (const std::string kind = work_kind(category); !kind.empty()) {
      Work work = work_of(event, arguments, kind);
      works[work.correlation].push_back(std::move(work.kernel));
    } else if ((category == "user_annotation" || category == "cpu_op") && text_of(event, "name") == call_range) {
      ranges.push_back({start, start + number_of(event, "dur")});
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  std::sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) { return a.start < b.start; });
  std::vector<std::vector<Kernel>> calls(ranges.size());
  std::size_t range = 0;
  for (const Launch& launch : launches) {
    while (range < ranges.size() && launch.start > ranges[range].end) ++range;
    if (range == ranges.size()) break;
    if (launch.start < ranges[range].start) continue;
    const auto work = works.find(launch.correlation);
    if (work == works.end()) continue;
    // Taken out, so that a driver call inside a runtime call with the same number does not count it twice.
    for (Kernel& kernel : work->second) calls[range].push_back(std::move(kernel));
    works.erase(work);
  }
  return calls;
}

}  // namespace warplens
