#include "profiled_calls.hpp"

#include <algorithm>
#include <cstdio>

#include "gpu.hpp"
#include "profile_file.hpp"
#include "statistics.hpp"

namespace warplens {
namespace {

bool is_same_work(const std::vector<Kernel>& one, const std::vector<Kernel>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const Kernel& a, const Kernel& b) {
    return a.name == b.name && a.kind == b.kind && a.grid == b.grid && a.block == b.block && a.bytes == b.bytes;
  });
}

double total_ns(const std::vector<Kernel>& call) {
  double sum = 0;
  for (const Kernel& kernel : call) sum += kernel.median_ns;
  return sum;
}

std::vector<Kernel> most_common(const std::vector<std::vector<Kernel>>& calls) {
  std::size_t best = 0;
  std::ptrdiff_t most = 0;
  for (std::size_t at = 0; at < calls.size(); ++at) {
    const auto is_alike = [&](const auto& call) { return is_same_work(call, calls[at]); };
    const auto alike = std::count_if(calls.begin(), calls.end(), is_alike);
    if (alike > most) best = at, most = alike;
  }
  return calls.empty() ? std::vector<Kernel>{} : calls[best];
}

}  // namespace

std::vector<std::vector<Kernel>> profiled(Bench& bench, const std::string& file, int calls, Cache cache) {
  profile(file, true, [&] {
    for (int call = 0; call < calls; ++call) {
      bench.reset();
      bench.settle(cache);
      gpu_synchronize();  // so that a call begins on an idle GPU, however fast the host is
      marked([&] { bench.call(); });
    }
  });
  auto found = read_profile(file);
  std::remove(file.c_str());
  return found;
}

std::vector<double> ProfiledCalls::sample(int count) {
  const auto found = profiled(bench_, file_, count, cache_);
  if (calls_.empty()) usual_ = most_common(found);
  std::vector<double> samples;
  for (const auto& call : found) {
    if (usual_.empty() || !is_same_work(call, usual_)) {
      ++unusual_;
      continue;
    }
    samples.push_back(total_ns(call));
    calls_.push_back(call);
  }
  return samples;
}

std::vector<Kernel> ProfiledCalls::work() const {
  std::vector<Kernel> made = usual_;
  for (std::size_t at = 0; at < made.size(); ++at) {
    std::vector<double> times;
    for (const auto& call : calls_) times.push_back(call[at].median_ns);
    made[at].median_ns = median_of(std::move(times));
  }
  return made;
}

}  // namespace warplens
