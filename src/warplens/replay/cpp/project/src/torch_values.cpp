#include "torch_values.hpp"

#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>

#include "faults.hpp"

namespace warplens {
namespace {

using c10::TypeKind;

struct Context {
  const Inputs& inputs;
  const at::Device& device;
};

[[noreturn]] void misfit(const Argument& argument, const std::string& wanted) {
  throw BadUnit("a " + argument.kind + " where the op takes " + wanted);
}

std::int64_t integer_of(const Argument& argument) {
  if (!argument.value.is(Json::Kind::integer)) throw BadUnit("not a whole number");
  return argument.value.integer;
}

double number_of(const Json& value) {
  if (value.is_number()) return value.number();
  if (value.text == "inf") return std::numeric_limits<double>::infinity();
  if (value.text == "-inf") return -std::numeric_limits<double>::infinity();
  if (value.text == "nan") return std::numeric_limits<double>::quiet_NaN();
  throw BadUnit("not a number");
}

bool boolean_of(const Argument& argument) {
  if (!argument.value.is(Json::Kind::boolean)) throw BadUnit("not true or false");
  return argument.value.boolean;
}

std::string word_of(const Argument& argument) {
  if (!argument.value.is(Json::Kind::text)) throw BadUnit("not a text");
  const std::string prefix = "torch.";
  const std::string& word = argument.value.text;
  return argument.kind != "str" && word.rfind(prefix, 0) == 0 ? word.substr(prefix.size()) : word;
}

template <typename Value>
std::int64_t named(const Argument& argument, const char* what,
                   std::initializer_list<std::pair<const char*, Value>> table) {
  const std::string word = word_of(argument);
  for (const auto& [name, value] : table)
    if (word == name) return static_cast<std::int64_t>(value);
  throw BadUnit(std::string("no ") + what + ": " + word);
}

// What schemas call int: whole numbers, and the words that PyTorch passes as such.
std::int64_t integer_like(const Argument& argument) {
  if (argument.kind == "int") return integer_of(argument);
  if (argument.kind == "bool") return boolean_of(argument) ? 1 : 0;
  if (argument.kind == "dtype") return static_cast<std::int64_t>(dtype_of(word_of(argument)));
  if (argument.kind == "layout")
    return named<at::Layout>(argument, "layout",
                             {{"strided", at::Layout::Strided}, {"sparse_coo", at::Layout::Sparse},
                              {"sparse_csr", at::Layout::SparseCsr}, {"sparse_csc", at::Layout::SparseCsc},
                              {"sparse_bsr", at::Layout::SparseBsr}, {"sparse_bsc", at::Layout::SparseBsc},
                              {"jagged", at::Layout::Jagged}});
  if (argument.kind == "memory_format")
    return named<at::MemoryFormat>(argument, "memory format",
                                   {{"contiguous_format", at::MemoryFormat::Contiguous},
                                    {"preserve_format", at::MemoryFormat::Preserve},
                                    {"channels_last", at::MemoryFormat::ChannelsLast},
                                    {"channels_last_3d", at::MemoryFormat::ChannelsLast3d}});
  misfit(argument, "a whole number");
}

at::Scalar scalar_of(const Argument& argument) {
  if (argument.kind == "int") return integer_of(argument);
  if (argument.kind == "float") return number_of(argument.value);
  if (argument.kind == "bool") return boolean_of(argument);
  if (argument.kind == "complex") {
    if (argument.value.items.size() != 2) throw BadUnit("not a complex number");
    return c10::complex<double>(number_of(argument.value.items[0]), number_of(argument.value.items[1]));
  }
  misfit(argument, "a number");
}

at::Tensor tensor_of(const Argument& argument, const Context& context) {
  if (argument.kind == "tensor") return context.inputs.tensor(*argument.tensor);
  if (argument.kind == "undefined" || argument.kind == "none") return {};
  if (argument.kind == "int" || argument.kind == "float" || argument.kind == "bool" || argument.kind == "complex") {
    // A number among tensors takes part in type promotion as a number, as it does in Python.
    at::Tensor made = at::scalar_tensor(scalar_of(argument), at::TensorOptions().dtype(scalar_of(argument).type()));
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
    return made;
  }
  misfit(argument, "a tensor");
}

at::Device device_of(const Argument& argument, const Context& context) {
  if (argument.kind != "device") misfit(argument, "a device");
  const std::string word = word_of(argument);
  const std::string type = word.substr(0, word.find(':'));
  if (type == "cuda") return context.device;  // which GPU is the runner's choice
  if (type == "cpu") return at::Device(at::kCPU);
  if (type == "meta") return at::Device(at::kMeta);
  throw BadUnit("no device: " + word);
}

double float_of(const Argument& argument) {
  if (argument.kind != "float" && argument.kind != "int") misfit(argument, "a number");
  return number_of(argument.value);
}

template <typename Element, typename Convert>
c10::IValue list_of(const Argument& argument, const std::optional<std::int32_t>& size, const Convert& convert) {
  c10::List<Element> made;
  if (argument.kind == "list") {
    made.reserve(argument.items.size());
    for (const Argument& item : argument.items) made.push_back(convert(item));
  } else if (size) {
    // Two of the same may be given as one.
    for (std::int32_t place = 0; place < *size; ++place) made.push_back(convert(argument));
  } else {
    misfit(argument, "a list");
  }
  return made;
}

c10::IValue listed(const Argument& argument, const c10::Type& element, const std::optional<std::int32_t>& size,
                   const Context& context) {
  const auto tensor = [&](const Argument& item) { return tensor_of(item, context); };
  const auto maybe = [&](const Argument& item) -> std::optional<at::Tensor> {
    if (item.kind == "none" || item.kind == "undefined") return std::nullopt;
    return tensor_of(item, context);
  };
  switch (element.kind()) {
    case TypeKind::TensorType: return list_of<at::Tensor>(argument, size, tensor);
    case TypeKind::IntType:
    case TypeKind::SymIntType: return list_of<std::int64_t>(argument, size, integer_like);
    case TypeKind::FloatType: return list_of<double>(argument, size, float_of);
    case TypeKind::BoolType: return list_of<bool>(argument, size, boolean_of);
    case TypeKind::StringType: return list_of<std::string>(argument, size, word_of);
    case TypeKind::NumberType: return list_of<at::Scalar>(argument, size, scalar_of);
    case TypeKind::OptionalType:
      if (element.castRaw<c10::OptionalType>()->getElementType()->kind() == TypeKind::TensorType)
        return list_of<std::optional<at::Tensor>>(argument, size, maybe);
      break;
    default: break;
  }
  throw BadUnit("a list of " + element.str() + " cannot be made from a plan");
}

c10::IValue typed(const Argument& argument, const c10::Type& type, const std::optional<std::int32_t>& size,
                  const Context& context) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      if (argument.kind == "none" || argument.kind == "undefined") return {};
      return typed(argument, *type.castRaw<c10::OptionalType>()->getElementType(), size, context);
    case TypeKind::TensorType: return tensor_of(argument, context);
    case TypeKind::IntType:
    case TypeKind::SymIntType: return integer_like(argument);
    case TypeKind::FloatType: return float_of(argument);
    case TypeKind::BoolType:
      if (argument.kind != "bool") misfit(argument, "true or false");
      return boolean_of(argument);
    case TypeKind::NumberType: return scalar_of(argument);
    case TypeKind::ComplexType: return scalar_of(argument).toComplexDouble();
    case TypeKind::StringType:
      if (argument.kind != "str") misfit(argument, "a text");
      return word_of(argument);
    case TypeKind::DeviceObjType: return device_of(argument, context);
    case TypeKind::ListType: return listed(argument, *type.castRaw<c10::ListType>()->getElementType(), size, context);
    case TypeKind::GeneratorType: misfit(argument, "a generator, which plans do not carry");
    default: throw BadUnit("a " + type.str() + " cannot be made from a plan");
  }
}

}  // namespace

c10::IValue value_of(const Argument& argument, const c10::Argument& wanted, const Inputs& inputs,
                     const at::Device& device) {
  const Context context{inputs, device};
  return typed(argument, *wanted.type(), wanted.N(), context);
}

}  // namespace warplens
