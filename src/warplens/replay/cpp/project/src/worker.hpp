#pragma once

#include "options.hpp"

namespace warplens {

// The descriptor to which the worker reports: one JSON object a line.
inline constexpr int report_descriptor = 3;

// Standard input says, as JSON in one line each, what is known of the meter and which units to run. It may
// die of any of them.
int run_worker(const Options& options);

}  // namespace warplens
