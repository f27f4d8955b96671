#pragma once

#include <optional>
#include <string>

#include "plan.hpp"

namespace warplens {

constexpr const char* safe_note = "run with safe values (indices 0, numbers between 0 and 1), because with others ";
// The unit with values that no op refuses, for one that ended in an assert; none where it has them already.
std::optional<Unit> with_safe_values(const Unit& unit);

}  // namespace warplens
