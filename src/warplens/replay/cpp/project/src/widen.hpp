#pragma once

#include <optional>
#include <string>

#include "plan.hpp"

namespace warplens {

// For a CPU that lacks a kernel for a small float: the same unit in float32. None where it has no such dtype.
std::optional<Unit> widened(const Unit& unit);
std::string narrow_dtypes(const Unit& unit);

}  // namespace warplens
