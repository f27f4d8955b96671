#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <numeric>

#include "bench.hpp"
#include "faults.hpp"
#include "readable.hpp"
#include "torch_inputs.hpp"
#include "torch_ops.hpp"
#include "torch_values.hpp"

namespace warplens {
namespace {

constexpr std::size_t max_combinations = 32;
constexpr std::size_t max_sets = 32;
constexpr std::int64_t flush_caches = 2;

// The argument with its choices decided, in the order of a nested loop whose last one turns fastest.
void alternatives(const Argument& argument, std::vector<Argument>& made) {
  if (made.size() >= max_combinations) return;
  if (argument.kind == "choice") {
    for (const Argument& item : argument.items) alternatives(item, made);
  } else if (argument.kind == "list") {
    std::vector<Argument> partial = {argument};
    partial.front().items.clear();
    for (const Argument& item : argument.items) {
      std::vector<Argument> ways, longer;
      alternatives(item, ways);
      for (const Argument& start : partial)
        for (const Argument& way : ways) {
          if (longer.size() >= max_combinations) break;
          longer.push_back(start);
          longer.back().items.push_back(way);
        }
      partial.swap(longer);
    }
    made.insert(made.end(), partial.begin(), partial.end());
  } else {
    made.push_back(argument);
  }
  if (made.size() > max_combinations) made.resize(max_combinations);
}

std::vector<std::vector<Argument>> all_combinations(const Unit& unit) {
  Argument whole;
  whole.kind = "list";
  whole.items = unit.arguments;
  std::vector<Argument> ways;
  alternatives(whole, ways);
  std::vector<std::vector<Argument>> made;
  for (Argument& way : ways) made.push_back(std::move(way.items));
  return made;
}

void collect_tensors(const Argument& argument, const Inputs& inputs, std::vector<at::Tensor>& tensors) {
  if (argument.tensor) tensors.push_back(inputs.tensor(*argument.tensor));
  for (const Argument& item : argument.items) collect_tensors(item, inputs, tensors);
}

ReadableCall find_readable(const std::string& id) {
  for (const ReadableUnit& unit : readable_units())
    if (id == unit.id) return unit.call;
  return nullptr;
}

// Reads a buffer of twice its size. Read, not written: lines that were changed would have to be written back before the
// call's can take their place. The buffer stays for the life of the process, whichever unit made it.
void empty_cache(const Place& place, const at::Device& device) {
  static const std::vector<at::Tensor>& buffers = *[&] {
    const c10::InferenceMode mode(false);
    const at::TensorOptions options = at::TensorOptions().dtype(at::kFloat).device(device);
    return new std::vector<at::Tensor>{at::ones({flush_caches * place.cache_bytes / 4}, options), at::zeros({}, options)};
  }();
  static const std::vector<std::int64_t> whole = {0};
  at::Tensor sum = buffers[1];
  at::sum_out(sum, buffers[0], whole);
}

void describe_value(const c10::IValue& value, std::vector<std::string>& lines) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) {
      lines.emplace_back("undefined");
      return;
    }
    std::string line = c10::toString(tensor.scalar_type());
    line += " [";
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis)
      line += (axis != 0 ? ", " : "") + std::to_string(tensor.size(axis));
    line += "]";
    if (!tensor.is_complex() && !tensor.is_meta())
      line += " sum " + number_text(tensor.to(at::kDouble).sum().item<double>());
    lines.push_back(line);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) describe_value(tensor, lines);
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) describe_value(item, lines);
  } else {
    lines.push_back(value.tagKind());
  }
}

}  // namespace

struct Bench::Impl {
  Unit unit;
  Place place;
  bool inference;
  at::Device device;
  c10::OperatorHandle op;
  std::vector<std::vector<Argument>> combinations;
  std::size_t chosen = 0;
  std::vector<Inputs> sets;
  ReadableCall readable = nullptr;
  std::vector<torch::jit::Stack> stacks;              // per set
  std::vector<std::vector<at::Tensor>> tensors;       // per set, for readable calls

  Impl(const Unit& unit, const Place& place, bool inference)
      : unit(unit),
        place(place),
        inference(inference),
        device(place.on_gpu() ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(place.gpu)) : at::Device(at::kCPU)),
        op(find_op(unit)),
        combinations(all_combinations(unit)) {}

  // Boxed arguments of one set.
  torch::jit::Stack bind(const Inputs& inputs) const {
    const auto& wanted = op.schema().arguments();
    const std::vector<Argument>& given = combinations[chosen];
    if (given.size() > wanted.size())
      throw BadUnit(unit.op + " takes " + std::to_string(wanted.size()) + " arguments, the plan has " +
                    std::to_string(given.size()));
    torch::jit::Stack stack;
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      const std::string name = "argument " + std::to_string(at) + " (" + wanted[at].name() + "): ";
      try {
        if (at < given.size())
          stack.push_back(value_of(given[at], wanted[at], inputs, device));
        else if (wanted[at].default_value())
          stack.push_back(*wanted[at].default_value());
        else
          throw BadUnit("missing, and without a default");
      } catch (const BadUnit& error) {
        throw BadUnit(name + error.what());
      } catch (const c10::Error& error) {
        throw BadUnit(name + one_line(error.what_without_backtrace()));
      }
    }
    check_view(op.schema(), stack);
    return stack;
  }

  void bind_all() {
    stacks.clear();
    tensors.clear();
    for (const Inputs& inputs : sets) {
      stacks.push_back(bind(inputs));
      tensors.emplace_back();
      for (const Argument& argument : combinations[chosen]) collect_tensors(argument, inputs, tensors.back());
    }
  }

  // What a mode keeps in the cache, the storage used longest ago first.
  std::vector<std::size_t> warm(Cache cache) const {
    std::vector<std::size_t> places;
    if (cache != Cache::in_situ) return places;
    for (std::size_t at = 0; at < unit.storages.size(); ++at) {
      const Storage& storage = unit.storages[at];
      if (!storage.on_cpu && storage.reuse_bytes && *storage.reuse_bytes < place.cache_bytes) places.push_back(at);
    }
    std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
      return *unit.storages[a].reuse_bytes > *unit.storages[b].reuse_bytes;
    });
    return places;
  }

  std::vector<std::size_t> cold(Cache cache) const {
    std::vector<std::size_t> places;
    if (cache == Cache::hot) return places;
    const std::vector<std::size_t> kept = warm(cache);
    for (std::size_t at = 0; at < unit.storages.size(); ++at)
      if (!unit.storages[at].on_cpu && std::find(kept.begin(), kept.end(), at) == kept.end()) places.push_back(at);
    return places;
  }

  std::vector<c10::IValue> run(std::size_t set) {
    if (readable != nullptr) return readable(tensors[set], device);
    torch::jit::Stack stack = stacks[set];
    op.callBoxed(stack);
    return stack;
  }

  template <typename Body>
  auto guarded(const Body& body) {
    const c10::InferenceMode mode(inference);
    const at::NoGradGuard no_gradients;
    return body();
  }
};

Bench::Bench(const Unit& unit, const Place& place, bool inference, bool readable)
    : impl_(std::make_unique<Impl>(unit, place, inference)) {
  impl_->guarded([&] {
    impl_->sets.emplace_back(unit, impl_->device);
    // A choice is decided at run time, which a call that is written out cannot do.
    if (readable && impl_->combinations.size() == 1) impl_->readable = find_readable(unit.id);
    impl_->bind_all();
  });
}

Bench::~Bench() = default;

std::size_t Bench::combinations() const { return impl_->combinations.size(); }

void Bench::choose(std::size_t combination) {
  impl_->guarded([&] {
    impl_->chosen = combination;
    impl_->bind_all();
  });
}

bool Bench::is_readable() const { return impl_->readable != nullptr; }

void Bench::reset() {
  impl_->guarded([&] {
    for (Inputs& inputs : impl_->sets) inputs.reset();
  });
}

void Bench::settle(Cache cache) {
  if (cache == Cache::hot || !impl_->place.on_gpu()) return;
  impl_->guarded([&] {
    empty_cache(impl_->place, impl_->device);
    // Reads and writes every line, and changes nothing.
    for (const std::size_t place : impl_->warm(cache)) impl_->sets.front().words(place).bitwise_or_(0);
  });
}

void Bench::call(std::size_t set) {
  impl_->guarded([&] { impl_->run(set); });
}

std::vector<std::string> Bench::describe() {
  std::vector<std::string> lines;
  impl_->guarded([&] {
    impl_->sets.front().reset();
    for (const c10::IValue& value : impl_->run(0)) describe_value(value, lines);
    // An op that returns nothing changes what it is given.
    if (lines.empty())
      for (const at::Tensor& tensor : impl_->tensors.front()) describe_value(tensor, lines);
  });
  return lines;
}

std::size_t Bench::rotate(Cache cache, std::int64_t free_bytes) {
  const std::vector<std::size_t> places = impl_->cold(cache);
  std::int64_t bytes = 0;
  for (const std::size_t place : places) bytes += impl_->sets.front().bytes(place);
  if (bytes == 0) return 1;
  std::int64_t wanted = (flush_caches * impl_->place.cache_bytes + bytes - 1) / bytes;
  wanted = std::clamp<std::int64_t>(wanted, 1, max_sets);
  const auto sets = static_cast<std::size_t>(std::clamp<std::int64_t>(free_bytes / 4 / bytes, 1, wanted));
  impl_->guarded([&] {
    while (impl_->sets.size() < sets) impl_->sets.push_back(impl_->sets.front().with_copies(places));
    impl_->bind_all();
  });
  return sets;
}

}  // namespace warplens
