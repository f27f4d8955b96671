#include "compare.hpp"

#include <algorithm>

namespace warplens {
namespace {

constexpr std::size_t name_bytes = 90;

std::string sides(const std::vector<std::int64_t>& values) {
  std::string made;
  for (const std::int64_t value : values) made += (made.empty() ? "" : "x") + std::to_string(value);
  return made.empty() ? "unknown" : made;
}

std::string clip(const std::string& name) {
  if (name.size() <= name_bytes) return name;
  std::size_t end = name_bytes - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // not inside a letter
  return name.substr(0, end) + "…";
}

std::string difference_of(const Kernel& planned, const Kernel& ran) {
  if (planned.name != ran.name) return clip(ran.name) + " instead of " + clip(planned.name);
  if (planned.kind == "kernel") {
    if (planned.grid.empty() || planned.grid == ran.grid) return "";
    return "grid " + sides(ran.grid) + " instead of " + sides(planned.grid) + " of " + clip(planned.name);
  }
  if (!planned.bytes || planned.bytes == ran.bytes) return "";
  return (ran.bytes ? std::to_string(*ran.bytes) : "unknown") + " bytes instead of " + std::to_string(*planned.bytes) +
         " of " + clip(planned.name);
}

}  // namespace

std::string difference(const std::vector<Kernel>& planned, const std::vector<Kernel>& ran) {
  const std::size_t shared = std::min(planned.size(), ran.size());
  for (std::size_t place = 0; place < shared; ++place) {
    const std::string words = difference_of(planned[place], ran[place]);
    if (words.empty()) continue;
    if (planned.size() == 1 && ran.size() == 1) return words;
    return "launch " + std::to_string(place + 1) + ": " + words;
  }
  if (planned.size() > shared)
    return std::to_string(planned.size() - shared) + " missing: " + clip(planned[shared].name);
  if (ran.size() > shared)
    return std::to_string(ran.size() - shared) + " more than in the trace: " + clip(ran[shared].name);
  return "";
}

}  // namespace warplens
