#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "plan.hpp"
#include "torch_inputs.hpp"

namespace warplens {

// An argument of a plan as the value that the schema's type asks for. A boxed call checks nothing by itself: a list of
// the wrong element type would be read as what it is not.
c10::IValue value_of(const Argument& argument, const c10::Argument& wanted, const Inputs& inputs,
                     const at::Device& device);

}  // namespace warplens
