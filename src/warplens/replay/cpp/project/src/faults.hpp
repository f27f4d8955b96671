// Why a unit does not run, said in one line.
#pragma once

#include <stdexcept>
#include <string>

namespace warplens {

// The unit cannot run as the plan says it: an unknown op, arguments that do not fit.
struct BadUnit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The unit could run, but not here or not under these options.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The first line that says something; PyTorch's errors go on with a stack.
std::string one_line(const std::string& text);

}  // namespace warplens
