// What readable/units.cpp offers: the same calls, written out.
#pragma once

#include <vector>

// Only named, since PyTorch's headers take seconds to read.
namespace at {
class Tensor;
}
namespace c10 {
struct IValue;
struct Device;
}  // namespace c10

namespace warplens {

// A unit's tensors in the order in which its arguments name them, and the device it runs on.
using ReadableCall = std::vector<c10::IValue> (*)(std::vector<at::Tensor>& tensors, const c10::Device& device);

struct ReadableUnit {
  const char* id;
  ReadableCall call;
};

// Those that were written out and that this PyTorch can compile. Empty without readable/units.cpp.
const std::vector<ReadableUnit>& readable_units();
// The plan they were written from; of another plan they would be other calls under the same names.
const char* readable_plan_id();

}  // namespace warplens
