#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "bench.hpp"
#include "gpu.hpp"
#include "profile_file.hpp"

namespace warplens {

void profile(const std::string& path, bool on_gpu, const std::function<void()>& body) {
  using namespace torch::autograd::profiler;
  const ProfilerConfig config(ProfilerState::KINETO);
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (on_gpu) activities.insert(ActivityType::CUDA);
  prepareProfiler(config, activities);
  // Only the ranges: a record of each op costs time that a short call feels.
  enableProfiler(config, activities, {at::RecordScope::USER_SCOPE});
  try {
    body();
    if (on_gpu) gpu_synchronize();
  } catch (...) {
    disableProfiler();
    throw;
  }
  disableProfiler()->save(path);
}

void marked(const std::function<void()>& call) {
  at::RecordFunction range(at::RecordScope::USER_SCOPE);
  range.before(call_range);
  call();
}

}  // namespace warplens
