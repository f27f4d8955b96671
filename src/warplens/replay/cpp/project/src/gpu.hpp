// What only a CUDA build can do: facts of the GPU, graphs of calls. `gpu_none.cpp` stands in for it without CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "energy.hpp"

namespace warplens {

struct GpuFacts {
  std::string name, pci;
  std::int64_t cache_bytes = 0;
};

int gpu_count();
// Makes it the current one, with a live context.
GpuFacts gpu_open(int index);
std::int64_t gpu_free_bytes();
void gpu_give_back_memory();
void gpu_synchronize();
// Empty where the GPU can still be used; an illegal access leaves a context that cannot.
std::string gpu_is_broken();

// A loop whose replay is `calls` in their order, after `before`: as a CUDA graph, or eagerly where that cannot be
// captured; then `why_not` says why.
class TimedLoop : public Loop {
 public:
  virtual double replay_ns() = 0;  // GPU time of one replay, waited for
  bool is_graph = true;
};
std::unique_ptr<TimedLoop> make_loop(std::function<void()> before, std::vector<std::function<void()>> calls,
                                     double call_ns, std::string& why_not);

}  // namespace warplens
