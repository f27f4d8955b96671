// The profile that PyTorch's profiler saved: what each marked call launched, and how long that ran.
#pragma once

#include <string>
#include <vector>

#include "plan.hpp"

namespace warplens {

// The range around each call that counts.
inline constexpr const char* call_range = "warplens.replay.call";

// One list per range, in their order; `median_ns` of each kernel is its own duration there.
std::vector<std::vector<Kernel>> read_profile(const std::string& path);

}  // namespace warplens
