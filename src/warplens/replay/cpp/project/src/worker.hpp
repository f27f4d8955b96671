#pragma once

#include "options.hpp"

namespace warplens {

// The descriptor on which the worker tells what it does: one JSON object a line.
inline constexpr int report_descriptor = 3;

// Standard input says, as JSON in one line each, what is known of the meter and which units to run. It may
// die of any of them.
int run_worker(const Options& options);

}  // namespace warplens
