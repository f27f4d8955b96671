#include "safe_values.hpp"

namespace warplens {
namespace {

bool is_whole(const std::string& dtype) {
  return dtype == "bool" || dtype.rfind("int", 0) == 0 || dtype.rfind("uint", 0) == 0;
}

}  // namespace

// Offsets, lengths and constants stay: they obey their invariants already.
std::optional<Unit> with_safe_values(const Unit& unit) {
  Unit made = unit;
  bool any = false;
  for (Storage& storage : made.storages) {
    Fill& fill = storage.fill;
    const bool is_index = fill.kind == "integers" || fill.kind == "permutation";
    const bool is_random = fill.kind == "normal" || fill.kind == "rectified" || fill.kind == "masked";
    if (!is_index && !is_random) continue;
    any = true;
    if (is_index || is_whole(storage.dtype)) fill = {"constant", is_index ? fill.low : 0, 1, 1, {}};
    else fill = {"uniform", 0.01, 0.99, 1, {}};
  }
  return any ? std::optional<Unit>(std::move(made)) : std::nullopt;
}

}  // namespace warplens
