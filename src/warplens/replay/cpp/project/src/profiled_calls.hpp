// Calls under PyTorch's profiler, each by itself, with what it launched.
#pragma once

#include <string>
#include <vector>

#include "bench.hpp"

namespace warplens {

// So many calls, one after another; one list of work per call. The profile is saved to that file for a moment.
std::vector<std::vector<Kernel>> profiled(Bench& bench, const std::string& file, int calls, Cache cache);

// The calls that launched what most of the first round did.
class ProfiledCalls {
 public:
  ProfiledCalls(Bench& bench, std::string file, Cache cache) : bench_(bench), file_(std::move(file)), cache_(cache) {}

  // GPU time of each of so many calls, in ns.
  std::vector<double> sample(int count);
  // What they launch, each with the median of its own times.
  std::vector<Kernel> work() const;
  int unusual() const { return unusual_; }

 private:
  Bench& bench_;
  std::string file_;
  Cache cache_;
  std::vector<Kernel> usual_;
  std::vector<std::vector<Kernel>> calls_;
  int unusual_ = 0;
};

}  // namespace warplens
