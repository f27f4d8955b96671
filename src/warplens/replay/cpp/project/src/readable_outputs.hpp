// What a written-out call returns, as a boxed call would return it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <tuple>
#include <vector>

namespace warplens {

inline std::vector<c10::IValue> outputs(const at::Tensor& tensor) { return {tensor}; }
inline std::vector<c10::IValue> outputs(const std::vector<at::Tensor>& tensors) { return {tensors}; }

template <typename... Parts>
std::vector<c10::IValue> outputs(const std::tuple<Parts...>& parts) {
  return std::apply([](const auto&... part) { return std::vector<c10::IValue>{c10::IValue(part)...}; }, parts);
}

template <typename Number>
std::vector<c10::IValue> outputs(const Number& number) {
  return {c10::IValue(number)};
}

}  // namespace warplens
