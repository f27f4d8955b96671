#include "torch_inputs.hpp"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>

#include "faults.hpp"
#include "gpu.hpp"

namespace warplens {
namespace {

// Elements generated at a time, so that a storage of many GB needs little extra memory.
constexpr std::int64_t chunk_elements = std::int64_t{1} << 26;

const std::map<std::string, at::ScalarType>& dtype_names() {
  static const std::map<std::string, at::ScalarType> names = {
      {"bool", at::kBool},
      {"uint8", at::kByte},
      {"int8", at::kChar},
      {"int16", at::kShort},
      {"int32", at::kInt},
      {"int64", at::kLong},
      {"uint16", at::ScalarType::UInt16},
      {"uint32", at::ScalarType::UInt32},
      {"uint64", at::ScalarType::UInt64},
      {"float16", at::kHalf},
      {"bfloat16", at::kBFloat16},
      {"float32", at::kFloat},
      {"float64", at::kDouble},
      {"complex32", at::kComplexHalf},
      {"complex64", at::kComplexFloat},
      {"complex128", at::kComplexDouble},
      {"float8_e4m3fn", at::ScalarType::Float8_e4m3fn},
      {"float8_e5m2", at::ScalarType::Float8_e5m2},
      {"float8_e4m3fnuz", at::ScalarType::Float8_e4m3fnuz},
      {"float8_e5m2fnuz", at::ScalarType::Float8_e5m2fnuz},
      {"float8_e8m0fnu", at::ScalarType::Float8_e8m0fnu},
      {"float4_e2m1fn_x2", at::ScalarType::Float4_e2m1fn_x2},
  };
  return names;
}

at::Tensor as_row(const at::Tensor& flat, at::ScalarType dtype) {
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  return flat.narrow(0, 0, flat.numel() / size * size).view(dtype);
}

// FNV-1a, as the Python runner seeds, so that both draw the same numbers.
std::uint64_t seed_of(const std::string& unit, std::size_t place) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const unsigned char byte : "0/" + unit + "/" + std::to_string(place)) value = (value ^ byte) * 0x100000001B3;
  return value >> 8;
}

at::Tensor chunk(const Fill& how, std::int64_t start, std::int64_t count, at::ScalarType dtype,
                 at::Generator& generator) {
  const at::TensorOptions there = at::TensorOptions().device(generator.device());
  const bool whole = !at::isFloatingType(dtype);
  const at::ScalarType exact = whole ? at::kLong : at::kDouble;
  const auto scalar = [&](double value) {
    return whole ? at::Scalar(static_cast<std::int64_t>(value)) : at::Scalar(value);
  };
  if (how.kind == "constant") return at::full({count}, scalar(how.low), there.dtype(exact));
  if (how.kind == "ramp") {
    at::Tensor steps = at::arange(start, start + count, there.dtype(exact));
    return steps.mul_(scalar(how.step)).add_(scalar(how.low)).clamp_(std::nullopt, scalar(how.high));
  }
  if (how.kind == "shares") {
    const auto total = static_cast<std::int64_t>(how.low), pieces = static_cast<std::int64_t>(how.step);
    at::Tensor turns = at::arange(start, start + count, there.dtype(at::kLong)).remainder_(pieces);
    return turns.neg_().add_(total + pieces - 1).div_(pieces, "floor");
  }
  if (how.kind == "digits") {
    const at::Tensor places = at::arange(start, start + count, there.dtype(at::kLong));
    at::Tensor sum = at::zeros({count}, there.dtype(at::kLong));
    for (std::size_t at = 0; at + 2 < how.digits.size(); at += 3) {
      const at::Tensor digit = places.div(how.digits[at], "floor").remainder_(how.digits[at + 1]);
      sum.add_(digit, how.digits[at + 2]);
    }
    return sum;
  }
  if (how.kind == "normal" || how.kind == "rectified" || how.kind == "masked") {
    at::Tensor numbers = at::randn({count}, generator, there);
    if (how.kind == "rectified") numbers.clamp_(0);
    if (how.kind == "masked") numbers.mul_(at::rand({count}, generator, there).lt(0.5));
    if (dtype == at::kBool) return numbers.gt(0);
    // An unsigned type has no place for what is below zero.
    return whole ? numbers.round_().abs_() : numbers;
  }
  if (how.kind == "uniform" && !whole)
    return at::rand({count}, generator, there).mul_(how.high - how.low).add_(how.low);
  const auto low = static_cast<std::int64_t>(how.low), high = static_cast<std::int64_t>(how.high);
  if (low >= high)
    throw BadUnit("no integer is at least " + std::to_string(low) + " and below " +
                  std::to_string(high));
  if (how.kind == "permutation")
    return at::randperm(count, generator, there.dtype(at::kLong)).remainder_(high - low).add_(low);
  return at::randint(low, high, {count}, generator, there.dtype(at::kLong));
}

void fill(at::Tensor& flat, const Storage& storage, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(flat.device()).clone();
  generator.set_current_seed(seed);
  at::Tensor row = as_row(flat.narrow(0, 0, storage.bytes), c10::toRealValueType(dtype_of(storage.dtype)));
  try {
    for (std::int64_t start = 0; start < row.numel(); start += chunk_elements) {
      const std::int64_t count = std::min(chunk_elements, row.numel() - start);
      row.narrow(0, start, count).copy_(chunk(storage.fill, start, count, row.scalar_type(), generator));
    }
  } catch (const c10::Error& error) {
    if (std::string(error.what()).find("not implemented") == std::string::npos) throw;
    // Packed and other odd types have no cast: any bytes will do.
    flat.random_(0, 256, generator);
  }
}

at::Tensor allocate(const Storage& storage, const at::Device& device) {
  const std::int64_t size = (storage.bytes + 7) / 8 * 8;
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte);
  if (!storage.on_cpu || device.is_cpu()) return at::empty({size}, options.device(device));
  return at::empty({size}, options.device(at::kCPU).pinned_memory(storage.pinned));
}

}  // namespace

at::ScalarType dtype_of(const std::string& name) {
  const auto found = dtype_names().find(name);
  if (found == dtype_names().end()) throw BadUnit("no dtype: " + name);
  return found->second;
}

Inputs::Inputs(const Unit& unit, const at::Device& device) {
  // In the Python runner's order, so that tensors have the same addresses.
  for (const Storage& storage : unit.storages) flats_.push_back(allocate(storage, device));
  for (std::size_t place = 0; place < flats_.size(); ++place)
    fill(flats_[place], unit.storages[place], seed_of(unit.id, place));
  for (std::size_t place = 0; place < flats_.size(); ++place)
    if (unit.storages[place].written) pristine_[place] = flats_[place].clone();
  if (device.is_cuda()) gpu_give_back_memory();  // what filling them left over
}

at::Tensor Inputs::tensor(const TensorFacts& facts) const {
  return as_row(flats_[facts.storage], dtype_of(facts.dtype)).as_strided(facts.shape, facts.stride, facts.offset);
}

void Inputs::reset() {
  for (auto& [place, kept] : pristine_) flats_[place].copy_(kept);
}

Inputs Inputs::with_copies(const std::vector<std::size_t>& places) const {
  Inputs made(*this);
  for (const std::size_t place : places) made.flats_[place] = flats_[place].clone();
  return made;
}

at::Tensor Inputs::words(std::size_t place) const { return flats_[place].view(at::kLong); }

}  // namespace warplens
