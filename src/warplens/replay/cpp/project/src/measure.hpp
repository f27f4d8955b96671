// One unit: does it launch what the trace saw, how long does that take, what energy does it cost.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "bench.hpp"
#include "nvml.hpp"
#include "options.hpp"
#include "result.hpp"

namespace warplens {

struct Session {
  Options options;
  Place place;
  const Nvml* nvml = nullptr;
  std::optional<MeterFacts> meter;
  bool energy_only = false;  // the unit's time is known already
  std::string scratch;                             // a file that profiles may be saved to
  std::function<void(const std::string&)> alive;   // called with the part that begins
  std::function<void(const std::string&)> remark;  // for --describe
};

// Throws BadUnit, Refusal or whatever PyTorch throws.
Outcome measure(const Unit& unit, const Session& session);

}  // namespace warplens
