#pragma once

#include <string>
#include <vector>

#include "plan.hpp"

namespace warplens {

// What is not as the plan says, in one line; empty where names and grids (of copies and memsets: bytes) are the same.
std::string difference(const std::vector<Kernel>& planned, const std::vector<Kernel>& ran);

}  // namespace warplens
