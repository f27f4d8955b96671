// Which ops a plan may call. Plans come from traces, which are not trusted: the rules are those of the Python runner.
#include "torch_ops.hpp"

#include <ATen/core/Tensor.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench.hpp"
#include "faults.hpp"

namespace warplens {
namespace {

// Besides those of libraries that --load names.
const std::set<std::string> allowed = {"aten", "prims"};

// Namespaces that no plan may call, whatever is loaded.
const std::map<std::string, std::string> no_units = {
    {"prim", "it is part of TorchScript's interpreter"},
    {"profiler", "it is part of the profiler"},
    {"export", "it is part of torch.export"},
    {"static_runtime", "it is part of TorchScript's interpreter"},
    {"debugprims", "it reads files"},
    {"c10d", "a collective needs the other processes"},
    {"_c10d_functional", "a collective needs the other processes"},
    {"_c10d_functional_autograd", "a collective needs the other processes"},
    {"symm_mem", "a collective needs the other processes"},
    {"_dtensor", "a collective needs the other processes"},
};

constexpr const char* unchecked = "it makes a tensor over memory whose bounds PyTorch does not check";
constexpr const char* unchecked_indices = "PyTorch does not check its indices";
const std::map<std::string, std::string> hazards = {
    {"aten::_print", "it prints a text of the plan"},
    {"aten::from_file", "it accesses files"},
    {"aten::set_data", "it replaces the memory of a tensor"},
    {"aten::set_", "it replaces the memory of a tensor"},
    {"aten::_reshape_alias", unchecked},
    {"aten::_reshape_alias_copy", unchecked},
    {"aten::_nested_view_from_buffer", unchecked},
    {"aten::_nested_view_from_buffer_copy", unchecked},
    {"aten::_nested_view_from_jagged", unchecked},
    {"aten::_nested_view_from_jagged_copy", unchecked},
    {"inductor::_reinterpret_tensor", unchecked},
    {"inductor::_alloc_from_pool", unchecked},
    {"inductor::resize_storage_bytes_", "it replaces the memory of a tensor"},
    {"aten::_unsafe_index", unchecked_indices},
    {"aten::_unsafe_index_put", unchecked_indices},
    {"aten::_unsafe_masked_index", unchecked_indices},
    {"aten::_unsafe_masked_index_put_accumulate", unchecked_indices},
    {"aten::_sparse_coo_tensor_unsafe", unchecked_indices},
    {"aten::_sparse_compressed_tensor_unsafe", unchecked_indices},
    {"aten::_sparse_csr_tensor_unsafe", unchecked_indices},
    {"aten::_sparse_csc_tensor_unsafe", unchecked_indices},
    {"aten::_sparse_bsr_tensor_unsafe", unchecked_indices},
    {"aten::_sparse_bsc_tensor_unsafe", unchecked_indices},
};

// Ops that are given sizes and strides by number.
const std::set<std::string> strided = {"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"};

// Namespaces and ops that libraries have added.
std::set<std::string>& loaded() {
  static std::set<std::string> names;
  return names;
}

std::string space_of(const std::string& op) { return op.substr(0, op.find("::")); }

std::set<std::string> registered() {
  std::set<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) names.insert(op.name);
  return names;
}

std::string why_not(const std::string& op) {
  if (const auto found = no_units.find(space_of(op)); found != no_units.end()) return found->second;
  if (const auto found = hazards.find(op); found != hazards.end()) return found->second;
  if (allowed.contains(space_of(op)) || loaded().contains(space_of(op)) || loaded().contains(op)) return "";
  return "its namespace is neither aten nor prims; --load the library that defines it";
}

bool has_tensor(const std::vector<c10::Argument>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const c10::Argument& part) {
    return part.type()->str().find("Tensor") != std::string::npos;
  });
}

// How many elements a storage must have for this view; -1 where sizes, strides or offset are not valid.
__int128 end_of(const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& stride, std::int64_t offset) {
  if (size.size() != stride.size() || offset < 0) return -1;
  __int128 last = offset;
  bool empty = false;
  for (std::size_t axis = 0; axis < size.size(); ++axis) {
    if (size[axis] < 0 || stride[axis] < 0) return -1;
    empty = empty || size[axis] == 0;
    last += static_cast<__int128>(size[axis] - 1) * stride[axis];
  }
  return empty ? 0 : last + 1;
}

}  // namespace

c10::OperatorHandle find_op(const Unit& unit) {
  const std::string overload = unit.overload == "default" ? "" : unit.overload;
  const std::string shown = overload.empty() ? unit.op : unit.op + "." + overload;
  const auto refuse = [&](const std::string& reason) { throw Refusal(shown + " is not replayed: " + reason); };
  if (const std::string reason = why_not(unit.op); !reason.empty()) refuse(reason);
  const auto found = c10::Dispatcher::singleton().findSchema({unit.op, overload});
  if (!found) throw BadUnit("this PyTorch has no " + shown);
  const c10::FunctionSchema& schema = found->schema();
  for (const c10::Argument& argument : schema.arguments())
    if (argument.name().find("file") != std::string::npos) refuse("it accesses files");
  if (!has_tensor(schema.arguments()) && !has_tensor(schema.returns()))
    refuse("it neither takes nor returns a tensor");
  return *found;
}

void check_view(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  if (!strided.contains(schema.name().substr(schema.name().find("::") + 2))) return;
  std::vector<std::int64_t> size, stride;
  const at::Tensor base = stack.at(0).toTensor();
  std::int64_t offset = base.storage_offset();
  for (std::size_t at = 0; at < stack.size(); ++at) {
    const std::string& name = schema.arguments()[at].name();
    if (name == "size") size = stack[at].toIntVector();
    if (name == "stride") stride = stack[at].toIntVector();
    if (name == "storage_offset" && !stack[at].isNone()) offset = stack[at].toInt();
  }
  const __int128 end = end_of(size, stride, offset);
  if (end < 0 || end * static_cast<__int128>(base.itemsize()) > static_cast<__int128>(base.storage().nbytes()))
    throw Refusal(schema.name() + " is not replayed: the view extends beyond its storage");
}

void load_library(const std::string& path) {
  const std::set<std::string> before = registered();
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) throw UsageError("--load: " + std::string(dlerror()));
  std::set<std::string> spaces;
  for (const std::string& op : before) spaces.insert(space_of(op));
  for (const std::string& op : registered())
    if (!before.contains(op)) loaded().insert(spaces.contains(space_of(op)) ? op : space_of(op));
}

}  // namespace warplens
