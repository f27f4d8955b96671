#include "plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>

namespace warplens {
namespace {

constexpr int newest_version = 1;
constexpr std::int64_t max_side = std::int64_t{1} << 40;
constexpr std::int64_t max_count = std::int64_t{1} << 53;
constexpr std::size_t max_choices = 32;
const std::map<std::string, int> dtypes = {
    {"bool", 1},          {"uint8", 1},           {"int8", 1},           {"int16", 2},         {"int32", 4},
    {"int64", 8},         {"uint16", 2},          {"uint32", 4},         {"uint64", 8},        {"float16", 2},
    {"bfloat16", 2},      {"float32", 4},         {"float64", 8},        {"complex32", 4},     {"complex64", 8},
    {"complex128", 16},   {"float8_e4m3fn", 1},   {"float8_e5m2", 1},    {"float8_e4m3fnuz", 1},
    {"float8_e5m2fnuz", 1}, {"float8_e8m0fnu", 1}, {"float4_e2m1fn_x2", 1}};
constexpr std::size_t most_digits = 8;
const std::set<std::string> fills = {"normal", "rectified", "masked", "uniform", "integers", "ramp", "constant",
                                    "shares", "digits", "permutation"};
const std::set<std::string> argument_kinds = {"tensor", "undefined", "none",   "int",    "float",         "bool", "str",
                                              "complex", "dtype",   "device", "layout", "memory_format", "list",
                                              "choice",  "function", "descriptor"};

// A value with the place it stands at, so that whatever is wrong can be named.
class Field {
 public:
  Field(const Json& value, std::string where) : value_(value), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(where_.empty() ? what : where_ + ": " + what);
  }
  const Json& json() const { return value_; }

  std::optional<Field> maybe(const std::string& name) const {
    if (!value_.is(Json::Kind::object)) fail("not an object");
    const Json* found = value_.find(name);
    if (found == nullptr || found->is(Json::Kind::null)) return std::nullopt;
    return Field(*found, where_.empty() ? name : where_ + "." + name);
  }

  // Refuses other members: a misspelt name would silently be a default.
  void only(std::initializer_list<std::string_view> names) const {
    if (!value_.is(Json::Kind::object)) fail("not an object");
    for (const auto& [name, member] : value_.members)
      if (std::find(names.begin(), names.end(), name) == names.end()) fail("unknown key '" + name + "'");
  }

  Field at(const std::string& name) const {
    auto found = maybe(name);
    if (!found) fail("'" + name + "' is missing");
    return *found;
  }

  std::vector<Field> items() const {
    if (!value_.is(Json::Kind::list)) fail("not a list");
    std::vector<Field> found;
    for (std::size_t place = 0; place < value_.items.size(); ++place)
      found.emplace_back(value_.items[place], where_ + "[" + std::to_string(place) + "]");
    return found;
  }

  std::string text() const {
    if (!value_.is(Json::Kind::text)) fail("not a text");
    return value_.text;
  }

  std::int64_t integer() const {
    if (!value_.is(Json::Kind::integer)) fail("not a whole number");
    // The reader gives the nearest representable number; its digits show whether that is the one written.
    if (std::to_string(value_.integer) != value_.text) fail("a number beyond 64 bits");
    return value_.integer;
  }

  std::int64_t not_negative() const {
    const std::int64_t found = integer();
    if (found < 0) fail("a number below zero");
    return found;
  }

  bool boolean() const {
    if (!value_.is(Json::Kind::boolean)) fail("not true or false");
    return value_.boolean;
  }

  double number() const {
    if (value_.is_number()) return value_.number();
    if (value_.is(Json::Kind::text)) {
      if (value_.text == "inf") return std::numeric_limits<double>::infinity();
      if (value_.text == "-inf") return -std::numeric_limits<double>::infinity();
      if (value_.text == "nan") return std::numeric_limits<double>::quiet_NaN();
    }
    fail("not a number");
  }

  std::string text(const std::string& name) const {
    const auto found = maybe(name);
    return found ? found->text() : "";
  }
  double number(const std::string& name, double otherwise) const {
    const auto found = maybe(name);
    return found ? found->number() : otherwise;
  }
  bool boolean(const std::string& name) const {
    const auto found = maybe(name);
    return found && found->boolean();
  }
  std::vector<std::int64_t> integers(const std::string& name) const {
    std::vector<std::int64_t> made;
    if (const auto found = maybe(name))
      for (const Field& item : found->items()) made.push_back(item.integer());
    return made;
  }

 private:
  const Json& value_;
  std::string where_;
};

std::string dtype_of(const Field& place) {
  const std::string name = place.at("dtype").text();
  if (dtype_bytes(name) == 0) place.at("dtype").fail("no dtype: '" + name + "'");
  return name;
}

void check_digits(const Field& place, const std::vector<std::int64_t>& digits) {
  if (digits.size() % 3 != 0 || digits.size() > 3 * most_digits) place.fail("not triples of stride, size and step");
  for (std::size_t at = 0; at < digits.size(); at += 3)
    if (digits[at] < 1 || digits[at + 1] < 1) place.fail("not triples of stride, size and step");
}

bool are_shares(const Fill& fill) {
  const auto most = static_cast<double>(max_side);
  return fill.low >= 0 && fill.low <= most && fill.step >= 1 && fill.step <= most;
}

Storage read_storage(const Field& place) {
  place.only({"bytes", "dtype", "fill", "device", "written", "pinned", "reuse_bytes"});
  Storage made;
  made.bytes = place.at("bytes").integer();
  if (made.bytes < 0 || made.bytes > max_side) place.at("bytes").fail("no size");
  made.dtype = dtype_of(place);
  if (const auto fill = place.maybe("fill")) {
    fill->only({"kind", "low", "high", "step", "digits"});
    if (const auto kind = fill->maybe("kind")) made.fill.kind = kind->text();
    made.fill.low = fill->number("low", 0);
    made.fill.high = fill->number("high", 1);
    made.fill.step = fill->number("step", 1);
    if (!fills.contains(made.fill.kind)) fill->fail("no way to fill: '" + made.fill.kind + "'");
    if (made.fill.kind == "shares" && !are_shares(made.fill)) fill->fail("not a total and a number of shares");
    if (const auto digits = fill->maybe("digits"))
      for (const Field& each : digits->items()) made.fill.digits.push_back(each.integer());
    check_digits(*fill, made.fill.digits);
  }
  const std::string device = place.maybe("device") ? place.text("device") : "cuda";
  if (device != "cuda" && device != "cpu") place.at("device").fail("neither cuda nor cpu");
  made.on_cpu = device == "cpu";
  made.written = place.boolean("written");
  made.pinned = place.boolean("pinned");
  if (const auto reuse = place.maybe("reuse_bytes")) made.reuse_bytes = reuse->integer();
  return made;
}

TensorFacts read_tensor(const Field& place, const std::vector<Storage>& storages) {
  place.only({"storage", "shape", "stride", "dtype", "offset"});
  TensorFacts made;
  const std::int64_t storage = place.at("storage").integer();
  if (storage < 0 || storage >= static_cast<std::int64_t>(storages.size())) place.fail("no such storage");
  made.storage = static_cast<std::size_t>(storage);
  made.shape = place.integers("shape");
  made.stride = place.integers("stride");
  made.dtype = dtype_of(place);
  if (const auto offset = place.maybe("offset")) made.offset = offset->integer();
  if (made.shape.size() != made.stride.size() || made.offset < 0 || made.offset > max_side)
    place.fail("shape, stride and offset do not fit together");
  __int128 last = made.offset;
  bool empty = false;
  for (std::size_t axis = 0; axis < made.shape.size(); ++axis) {
    const std::int64_t side = made.shape[axis], step = made.stride[axis];
    if (side < 0 || side > max_side || step < 0 || step > max_side) place.fail("not a valid size or stride");
    empty = empty || side == 0;
    last += static_cast<__int128>(side - 1) * step;
  }
  const __int128 extent = empty ? made.offset : last + 1;
  if (extent * dtype_bytes(made.dtype) > storages[made.storage].bytes) place.fail("the tensor extends beyond its storage");
  return made;
}

Argument read_argument(const Field& place, const std::vector<Storage>& storages) {
  place.only({"kind", "value", "tensor", "items"});
  Argument made;
  made.kind = place.at("kind").text();
  if (!argument_kinds.contains(made.kind)) place.fail("no kind of argument: '" + made.kind + "'");
  if (const auto value = place.maybe("value")) made.value = value->json();
  if (made.kind == "int") place.at("value").integer();
  if (made.kind == "tensor") made.tensor = read_tensor(place.at("tensor"), storages);
  if (const auto items = place.maybe("items"))
    for (const Field& item : items->items()) made.items.push_back(read_argument(item, storages));
  if (made.kind == "choice" && (made.items.empty() || made.items.size() > max_choices))
    place.fail("a choice with no items or too many");
  return made;
}

Field read_times(const Field& place) {
  const Field times = place.at("times");
  times.only({"total_ns", "median_ns", "p10_ns", "p90_ns", "min_ns", "max_ns"});
  return times;
}

Kernel read_kernel(const Field& place) {
  place.only({"name", "kind", "times", "category", "grid", "block", "bytes"});
  Kernel made;
  made.name = place.at("name").text();
  made.kind = place.at("kind").text();
  made.grid = place.integers("grid");
  made.block = place.integers("block");
  if (const auto bytes = place.maybe("bytes")) made.bytes = bytes->integer();
  const Field times = read_times(place);
  made.median_ns = times.at("median_ns").number();
  made.traced_total_ns = times.at("total_ns").integer();
  return made;
}

bool is_op_name(const std::string& name) {
  const auto word = [](const std::string& text) {
    const auto is_fit = [](unsigned char letter) { return std::isalnum(letter) || letter == '_'; };
    return !text.empty() && (text[0] < '0' || text[0] > '9') && std::all_of(text.begin(), text.end(), is_fit);
  };
  const std::size_t colons = name.find("::");
  return colons != std::string::npos && word(name.substr(0, colons)) && word("_" + name.substr(colons + 2)) &&
         name.size() > colons + 2;
}

Unit read_unit(const Field& place) {
  place.only({"id", "op", "kernels", "count", "times", "api", "overload", "schema", "arguments", "storages", "status",
              "reason", "family", "category", "notes", "triton"});
  Unit made;
  made.id = place.at("id").text();
  made.op = place.at("op").text();
  made.overload = place.text("overload");
  made.schema = place.text("schema");
  made.status = place.maybe("status") ? place.text("status") : "ready";
  made.reason = place.text("reason");
  made.category = place.text("category");
  made.count = place.at("count").integer();
  if (made.count < 1 || made.count > max_count) place.at("count").fail("not a count");
  if (const auto notes = place.maybe("notes"))
    for (const Field& note : notes->items()) made.notes.push_back(note.text());
  if (const auto triton = place.maybe("triton")) {
    triton->only({"source", "kernel", "config", "grid"});
    made.triton = true;
  }
  const Field times = read_times(place);
  made.traced = {times.at("total_ns").not_negative(), times.at("median_ns").number(), times.at("p10_ns").number(),
                 times.at("p90_ns").number()};
  for (const Field& kernel : place.at("kernels").items()) made.kernels.push_back(read_kernel(kernel));
  if (made.status != "ready" && made.status != "refused" && made.status != "left out")
    place.fail("no status: '" + made.status + "'");
  if (made.status != "ready") return made;
  if (!made.triton && !is_op_name(made.op)) place.fail("not the name of an op: '" + made.op + "'");
  if (const auto storages = place.maybe("storages"))
    for (const Field& storage : storages->items()) made.storages.push_back(read_storage(storage));
  if (const auto arguments = place.maybe("arguments"))
    for (const Field& argument : arguments->items()) made.arguments.push_back(read_argument(argument, made.storages));
  return made;
}

void check_version(const Json& value) {
  const Json* format = value.find("format");
  if (!value.is(Json::Kind::object) || format == nullptr || format->text != "warplens-replay-plan")
    throw FormatError("not a replay plan");
  const Json* version = value.find("version");
  if (version == nullptr || !version->is(Json::Kind::integer) || version->integer < 1)
    throw FormatError("a replay plan without a version");
  if (version->integer > newest_version)
    throw FormatError("a replay plan of version " + version->text + "; this program reads up to " +
                      std::to_string(newest_version));
}

void add_rest(Plan& plan, const std::string& reason, std::int64_t ns) {
  for (auto& [known, total] : plan.rest)
    if (known == reason) {
      total += ns;
      return;
    }
  plan.rest.emplace_back(reason, ns);
}

}  // namespace

void sort_by_time(std::vector<const Unit*>& units) {
  const auto is_longer = [](const Unit* a, const Unit* b) { return a->traced.total_ns > b->traced.total_ns; };
  std::stable_sort(units.begin(), units.end(), is_longer);
}

int dtype_bytes(const std::string& dtype) {
  const auto found = dtypes.find(dtype);
  return found == dtypes.end() ? 0 : found->second;
}

Plan load_plan(const std::string& path) {
  const Json value = read_json_file(path);
  try {
    check_version(value);
    const Field top(value, "");
    Plan plan;
    top.only({"trace", "content_hash", "gpu_ns", "wall_ns", "units", "rest", "gpus", "settings", "versions", "sources",
              "exact", "id", "format", "version"});
    plan.id = top.text("id");
    plan.trace = top.at("trace").text();
    plan.gpu_ns = top.at("gpu_ns").not_negative();
    plan.wall_ns = top.at("wall_ns").not_negative();
    if (const auto rest = top.maybe("rest"))
      for (const Field& each : rest->items()) {
        each.only({"kernel", "kind", "count", "total_ns", "reason"});
        add_rest(plan, each.text("reason"), each.at("total_ns").not_negative());
      }
    if (const auto gpus = top.maybe("gpus")) {
      for (const Field& gpu : gpus->items()) gpu.only({"name", "compute", "memory_bytes", "multiprocessors"});
      if (!gpus->items().empty()) plan.gpu = gpus->items().front().text("name");
    }
    if (const auto settings = top.maybe("settings")) plan.settings = settings->json().members;
    if (const auto versions = top.maybe("versions")) plan.versions = versions->json().members;
    std::set<std::string> seen;
    for (const Field& unit : top.at("units").items()) {
      plan.units.push_back(read_unit(unit));
      if (!seen.insert(plan.units.back().id).second) unit.fail("two units have the id '" + plan.units.back().id + "'");
    }
    return plan;
  } catch (const FormatError& error) {
    throw FormatError(path + ": " + error.what());
  }
}

}  // namespace warplens
