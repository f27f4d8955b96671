// A unit ready to be called: its storages, the tensors in them, and the op with its arguments.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "options.hpp"
#include "plan.hpp"

namespace warplens {

struct Place {
  int gpu = -1;  // -1: the CPU
  std::int64_t cache_bytes = 0;
  bool on_gpu() const { return gpu >= 0; }
};

class Bench {
 public:
  // `inference`: under InferenceMode, which a few ops refuse; else without gradients.
  Bench(const Unit& unit, const Place& place, bool inference, bool readable);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Ways to decide the unit's choices, at most 32.
  std::size_t combinations() const;
  void choose(std::size_t combination);
  bool is_readable() const;

  void reset();               // what the op changes is as it was
  void settle(Cache cache);   // the GPU's cache holds what the mode wants
  void call(std::size_t set = 0);
  std::vector<std::string> describe();  // the outputs: dtype, shape and a sum that shows whether the values are right

  // Copies of the storages that are cold in that mode, so that a loop does not find them in the cache; how many sets.
  std::size_t rotate(Cache cache, std::int64_t free_bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Sets PyTorch's switches as the plan recorded them; a note for each that could not be set.
std::vector<std::string> restore_settings(const std::vector<std::pair<std::string, Json>>& settings);
std::string torch_version();
void load_library(const std::string& path);

// Runs `body` under PyTorch's profiler and saves what it recorded; `marked` runs one call inside its range.
void profile(const std::string& path, bool on_gpu, const std::function<void()>& body);
void marked(const std::function<void()>& call);

}  // namespace warplens
