#pragma once

#include "options.hpp"

namespace warplens {

// Starts workers, as many as it takes, and writes the result. It never touches a GPU itself.
int supervise(const Options& options);

}  // namespace warplens
