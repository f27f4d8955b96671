#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "plan.hpp"

namespace warplens {

// The op of a unit; a BadUnit or a Refusal says why not.
c10::OperatorHandle find_op(const Unit& unit);

// Refuses a view by sizes and strides that does not fit into its storage, before the op sees it.
void check_view(const c10::FunctionSchema& schema, const torch::jit::Stack& stack);

}  // namespace warplens
