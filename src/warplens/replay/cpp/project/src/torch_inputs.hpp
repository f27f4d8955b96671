#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "bench.hpp"
#include "plan.hpp"

namespace warplens {

// `flats[i]` is storage i as bytes; rounded up to 8, so that it can also be seen as whole numbers.
class Inputs {
 public:
  Inputs(const Unit& unit, const at::Device& device);

  at::Tensor tensor(const TensorFacts& facts) const;
  void reset();
  // The same with storages of its own at those places.
  Inputs with_copies(const std::vector<std::size_t>& places) const;
  at::Tensor words(std::size_t place) const;  // the storage as int64
  std::int64_t bytes(std::size_t place) const { return flats_[place].numel(); }

 private:
  std::vector<at::Tensor> flats_;
  std::map<std::size_t, at::Tensor> pristine_;
};

at::ScalarType dtype_of(const std::string& name);

}  // namespace warplens
