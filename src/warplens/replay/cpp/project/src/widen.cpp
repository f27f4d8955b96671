#include "widen.hpp"

#include <set>

#include "faults.hpp"

namespace warplens {
namespace {

const std::set<std::string> narrow = {"float16",         "bfloat16",        "float8_e4m3fn", "float8_e5m2",
                                      "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"};
constexpr const char* wide = "float32";

// Shapes, strides and offsets count elements, so they stay.
void widen(Argument& argument, const std::vector<Storage>& before) {
  if (argument.kind == "dtype" && narrow.contains(argument.value.text)) argument.value = Json(wide);
  if (argument.tensor) {
    const std::string& stored = before[argument.tensor->storage].dtype;
    std::string& seen = argument.tensor->dtype;
    if (narrow.contains(stored) || narrow.contains(seen)) {
      if (!narrow.contains(seen) || dtype_bytes(seen) != dtype_bytes(stored))
        throw BadUnit("a storage of " + stored + " that is read as " + seen + " cannot be widened");
      seen = wide;
    }
  }
  for (Argument& item : argument.items) widen(item, before);
}

}  // namespace

std::string narrow_dtypes(const Unit& unit) {
  std::set<std::string> found;
  for (const Storage& storage : unit.storages)
    if (narrow.contains(storage.dtype)) found.insert(storage.dtype);
  std::string words;
  for (const std::string& dtype : found) words += (words.empty() ? "" : ", ") + dtype;
  return words;
}

std::optional<Unit> widened(const Unit& unit) {
  Unit made = unit;
  bool any = false;
  for (Storage& storage : made.storages) {
    if (!narrow.contains(storage.dtype)) continue;
    any = true;
    storage.bytes = storage.bytes / dtype_bytes(storage.dtype) * dtype_bytes(wide);
    storage.dtype = wide;
  }
  if (!any) return std::nullopt;
  for (Argument& argument : made.arguments) widen(argument, unit.storages);
  return made;
}

}  // namespace warplens
