#pragma once

#include <string>

#include "json.hpp"

namespace warplens {

// What a result adds up to, as the Python runner prints it: one line each.
std::string summary(const Json& result);

}  // namespace warplens
